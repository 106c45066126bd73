"""How a storage is opened: for reading where nothing can be written, and what is told where it cannot be opened."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import optuna
import pytest

from damoos.errors import ConfigError, StoreError
from damoos.model.trial import Measurement, Run
from damoos.store import connection
from damoos.store.studies import Store, StudyRecord

RUN = Run(0, "baseline", 0, measurement=Measurement({"runtime_s": 1.0}))


def begun(folder: Path) -> StudyRecord:
    record = Store(folder).create("mine", {"nr_samples": 3}, "maximize", "2026-11-27T00:00:00+00:00")
    record.add(RUN)
    return record


def content(folder: Path) -> dict[str, bytes]:
    """Of the database and its log; root's readers still write into the log's index."""
    return {file.name: file.read_bytes() for file in folder.glob("damoos.sqlite*") if not file.name.endswith("-shm")}


def forbid_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another user has it, or a file system that is mounted for reading; root may write to any folder."""
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))


def test_a_store_that_cannot_be_written_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = begun(tmp_path)  # kept: its connection would else empty the log whenever it is collected
    forbid_writing(monkeypatch)
    before = content(tmp_path)
    store = Store(tmp_path)
    assert store.load("mine-1").runs() == {RUN.key: RUN}
    with pytest.raises(StoreError, match="attempt to write a readonly database; make it writable"):
        store.load("mine-1").add(Run(1, "baseline", 1, error="it crashed"))
    assert content(tmp_path) == before
    assert record.runs() == {RUN.key: RUN}


def test_what_another_process_writes_is_read_from_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = begun(tmp_path)  # its connection stays open
    assert (tmp_path / "damoos.sqlite-wal").stat().st_size > 0
    forbid_writing(monkeypatch)
    assert Store(tmp_path).load("mine-1").runs() == record.runs()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///{here}/no/x.sqlite", "unable to open database file; its folder must be there"),
        ("sqlite:///{here}/text", "file is not a database; it is another file"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("what", "Could not parse .*; a storage is sqlite:///FILE or"),
        ("postgresql+psycopg://host:port/x", "invalid literal for int.*; a storage is sqlite:///FILE or"),
        ("nosuch://x", "Can't load plugin: .*; a storage is sqlite:///FILE or"),
        ("mysql://a@127.0.0.1/x", "Failed to import DB access module"),
        ("postgresql+psycopg://me@127.0.0.1:9/team", r"refused; check host and port, and that its server is up"),
    ],
)
def test_each_error_names_the_store_and_what_to_do(tmp_path: Path, url: str, message: str) -> None:
    (tmp_path / "text").write_text("no database at all, and longer than a header of one\n" * 100)
    with pytest.raises(StoreError, match=message) as raised:
        connection.connect(url.format(here=tmp_path))
    assert str(raised.value).startswith(f"store {url.format(here=tmp_path)}: ")


def test_a_new_sqlite_store_is_its_owner_s_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        connection.connect(f"sqlite:///{tmp_path}/x.sqlite")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match=r"u:\*\*\*@h/db: leave the password out .*~/.pgpass") as raised:
        connection.connect("postgresql+psycopg://u:secret@h/db")
    assert "secret" not in str(raised.value)


def test_the_tables_that_are_known_are_optunas(tmp_path: Path) -> None:
    """The version is pinned; with another one Optuna compares the tables itself."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/new.sqlite")
    assert (optuna.__version__, storage.get_head_version()) == connection.TABLES


def test_tables_of_another_version_are_told(tmp_path: Path) -> None:
    begun(tmp_path)
    with sqlite3.connect(tmp_path / "damoos.sqlite") as store:
        store.execute("UPDATE alembic_version SET version_num = 'v9.9.9.a'")
    with pytest.raises(StoreError, match=r"no longer compatible with the table schema"):
        Store(tmp_path)


def test_words_are_read_once_by_who_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = begun(tmp_path)
    with record.writing():
        record.set("note", {"a": (1, 2)})
        monkeypatch.setattr(type(record._study), "user_attrs", None)
        assert record.get("note") == {"a": [1, 2]}
        record.get("note")["a"].append(3)
        assert record.get("note") == {"a": [1, 2]}
    monkeypatch.undo()
    assert record.get("note") == Store(tmp_path).load("mine-1").get("note") == {"a": [1, 2]}
