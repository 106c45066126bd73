"""Links and pipes in a results folder by a person who means harm: nothing is written through them or waits for them."""

from __future__ import annotations

import gc
import os
import sqlite3
import stat
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from damoos.common.appended import append
from damoos.errors import DamoosError
from damoos.recordings.journal import Journal as LinesJournal
from damoos.service.journal import Journal
from damoos.service.liveness import KeeperFile
from damoos.store.artifacts import Artifacts
from damoos.store.studies import Store
from damoos.study.proof import _parts
from tests.unit.cli.test_corpus import run
from tests.unit.store.test_hostile import CONFIG

pytestmark = pytest.mark.timeout(60)


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def second_name(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


PLANTS = {"a symbolic link": link, "hard link": second_name, "not a regular file": pipe}


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user's outside of the results folder."""
    file = tmp_path / "precious"
    file.write_text("kept")
    return file


def hold(folder: Path) -> None:
    with Artifacts(folder).held("held"):
        pass


def add(folder: Path) -> None:
    Artifacts(folder).append("study.log", "added")


def change(folder: Path) -> None:
    with Journal(folder).changing():
        pass


def start_log(folder: Path) -> None:
    os.close(Journal(folder).new_log())


def audit(folder: Path) -> None:
    append(folder / "audit.log", "added")


def keep(folder: Path) -> None:
    KeeperFile(folder).take()


@pytest.mark.parametrize("what", PLANTS)
@pytest.mark.parametrize(
    ("name", "act"),
    [(".lock", hold), ("study.log", add), (".changing", change), ("keeper.log", start_log), ("audit.log", audit),
     (".keeper", keep)],
)  # fmt: skip
def test_what_is_planted_is_named_and_left_alone(
    tmp_path: Path, precious: Path, name: str, act: Callable[[Path], None], what: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(0o755)
    PLANTS[what](folder / name, precious)
    with pytest.raises((DamoosError, OSError)) as told:
        act(folder)
    assert what in str(told.value)
    assert str(folder / name) in str(told.value)
    assert precious.read_text() == "kept"


def test_a_link_to_nothing_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamoosError, match="a symbolic link"):
        hold(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_study_folder_that_is_a_link_gets_no_file(tmp_path: Path, is_there: bool) -> None:
    target = tmp_path / "target"
    if is_there:
        target.mkdir()
    (tmp_path / "study").symlink_to(target)
    artifacts = Artifacts(tmp_path / "study")
    for act in (
        lambda: artifacts.write_text("result.json", "x"), lambda: artifacts.write_bytes("figure.png", lambda out: None),
        lambda: artifacts.append("study.log", "x"), lambda: hold(artifacts.path),
    ):  # fmt: skip
        with pytest.raises(DamoosError, match=f"{artifacts.path}: a symbolic link, which damoos does not follow"):
            act()
    assert target.exists() is is_there
    assert not is_there or not list(target.iterdir())


@pytest.mark.parametrize("what", ["a symbolic link", "not a regular file"])
def test_a_validation_takes_over_no_file_of_another_place(tmp_path: Path, precious: Path, what: str) -> None:
    """It copies raw data of the other study into its own folder."""
    PLANTS[what](tmp_path / "baseline-000.parquet", precious)
    with pytest.raises(OSError, match=what):
        list(_parts(tmp_path / "baseline-000.parquet"))


def test_a_link_that_is_written_whole_is_replaced(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "result.json").symlink_to(precious)
    (tmp_path / f".{os.getpid()}.result.json").symlink_to(precious)
    Artifacts(tmp_path).write_text("result.json", "mine")
    assert (precious.read_text(), (tmp_path / "result.json").read_text()) == ("kept", "mine")
    assert not (tmp_path / "result.json").is_symlink()


@pytest.mark.parametrize("what", ["a symbolic link", "not a regular file"])
def test_commands_say_so_in_one_line(
    tmp_path: Path, precious: Path, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    store = Store(results)
    store.create("mine", CONFIG, "maximize", "2026-11-27T00:00:00+00:00")
    (results / "mine-1").mkdir()
    PLANTS[what](results / "mine-1" / ".lock", precious)
    assert not Artifacts(results / "mine-1").in_use()
    for words in (["studies", "delete", "mine-1", "--yes"], ["resume", "mine-1"]):
        assert run([*words, "--results", str(results)], monkeypatch) == 3
        err = capsys.readouterr().err
        assert f"{results}/mine-1/.lock: {what}" in err
        assert err.count("\n") == 1
    assert precious.read_text() == "kept"


@pytest.mark.parametrize("what", ["a symbolic link", "hard link"])
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_a_database_s_files_lead_nowhere(
    tmp_path: Path, end: str, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shm file of a database that keeps a write-ahead log is written by whoever looks."""
    results, other = tmp_path / "results", tmp_path / "other.db"
    Store(results).create("mine", CONFIG, "maximize", "2026-11-27T00:00:00+00:00")
    with closing(sqlite3.connect(other)) as made:
        made.execute("CREATE TABLE precious (words TEXT)")
    before = other.read_bytes()
    gc.collect()  # the last connection to a database deletes its files, whoever has put them there
    file = results / f"damoos.sqlite{end}"
    file.unlink(missing_ok=True)
    PLANTS[what](file, other)
    assert run(["studies", "--results", str(results)], monkeypatch) == 3
    err = capsys.readouterr().err
    assert f"{file}: {'has a second name (a hard link)' if what == 'hard link' else what}" in err
    assert err.count("\n") == 1
    with pytest.raises(DamoosError, match=what):
        Store(results).create("another", CONFIG, "maximize", "2026-11-27T00:00:00+00:00")
    assert other.read_bytes() == before


def test_a_store_that_is_a_link_to_nothing_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "damoos.sqlite").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamoosError, match="a symbolic link"):
        Store(tmp_path).create("mine", CONFIG, "maximize", "2026-11-27T00:00:00+00:00")
    assert not (tmp_path / "elsewhere").exists()


def test_a_journal_that_names_a_file_does_not_have_it_deleted(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last record of a rollback journal names another journal, which SQLite deletes once it has rolled back.

    References
    ----------
    sqlite.org/fileformat.html, "The Rollback Journal"
    """
    results = tmp_path / "results"
    results.mkdir()
    Store(tmp_path / "own").create("mine", CONFIG, "maximize", "2026-11-27T00:00:00+00:00")
    file = results / "damoos.sqlite"
    with closing(sqlite3.connect(tmp_path / "own/damoos.sqlite")) as own, closing(sqlite3.connect(file)) as made:
        own.backup(made)
        made.execute("PRAGMA journal_mode = DELETE")
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(precious).encode()
    head = magic + struct.pack(">5I", 0, 1, file.stat().st_size // 4096, 512, 4096)
    record = struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    Path(f"{file}-journal").write_bytes(head.ljust(512, b"\0") + record)
    assert run(["studies", "--results", str(results)], monkeypatch) == 3
    assert f"{file}-journal: it names another file, that Optuna does not make" in capsys.readouterr().err
    assert precious.read_text() == "kept"


def test_a_database_of_another_program_gets_no_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE precious (words TEXT)")
    before = file.read_bytes()
    assert run(["studies", "--storage", f"sqlite:///{file}"], monkeypatch) == 3
    assert "it has the table 'precious', that Optuna does not make" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_one_s_own_link_on_the_way_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "disk")
    Artifacts(tmp_path / "results" / "study").write_text("a", "b")
    from damoos.common.atomic_file import fill

    fill(tmp_path / "results" / "given", [b"c"])
    found: Any = sorted(file.name for file in (tmp_path / "disk").rglob("*"))
    assert found == ["a", "given", "study"]


@pytest.mark.parametrize(("umask", "mode"), [(0, 0o755), (0o002, 0o755), (0o077, 0o700)])
def test_new_folders_of_results_are_writable_to_nobody_else(tmp_path: Path, umask: int, mode: int) -> None:
    """In a folder that is shared, and through the Python API, too."""
    tmp_path.chmod(0o1777)
    results = tmp_path / "some/results"
    former = os.umask(umask)
    try:
        Store(results)
        Artifacts(results / "study").write_text("a", "b")
        LinesJournal._opened(results / "record-a/recording.journal")
        Journal.of(results, "there")
    finally:
        os.umask(former)
    made = ("", "study", "record-a", "service", "service/there", "..")
    assert {name: stat.S_IMODE((results / name).stat().st_mode) for name in made} == dict.fromkeys(made, mode)
