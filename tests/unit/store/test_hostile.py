"""Stores by people who mean harm: each is refused in one line, or the studies that can be read are."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from damoos.errors import StoreError
from damoos.model.trial import Measurement, Run
from damoos.store import sqlite_file
from damoos.store.connection import connect
from damoos.store.sizes import MOST_ROWS
from damoos.store.studies import FILE, Store
from damoos.study.config import StudyConfig
from damoos.study.run_config import plain
from damoos.study.study import open_study
from damoos.words.studies import MOST_TRIALS
from tests.unit.cli.test_corpus import run
from tests.unit.cli.test_stored import SETTING

RUN = Run(0, "baseline", 0, measurement=Measurement({"runtime_s": 1.0, "rss_avg_bytes": 4096.0}))
CONFIG = plain(StudyConfig(command="true", nr_samples=10, machine="guest"))
# As two of the words of a study are read by SQL.
LONG = """select * from t
    union all select 3, 1, 'config', '{"a":[' || replace(hex(zeroblob(10000000)), '00', '[],') || '0]}'"""
ENDLESS = """with recursive n(i) as (select 1 union all select i + 1 from n)
    select i as study_user_attribute_id, 1 as study_id, 'damoos' as key, '4' as value_json from n where i < 0"""
RENAME = "alter table study_user_attributes rename to t;"
COLUMNS = "study_user_attribute_id integer primary key, study_id integer, key text"
NEW_TABLE = f"{RENAME} create table study_user_attributes ({COLUMNS}"
PROGRAMS = {
    "table 'trials'": "pragma writable_schema = on;"
    "update sqlite_master set sql = cast(sql as blob) where name = 'trials'",
    "view 'study_user_attributes'": f"{RENAME} create view study_user_attributes as {LONG}",
    "view 'endless'": f"create view endless as {ENDLESS}",
    "trigger 'x'": "create trigger x after insert on trials begin delete from trials; end",
    "table 'f'": "create virtual table f using fts5(a)",
    "table 'study_user_attributes'": f"{NEW_TABLE}, value_json as (hex(zeroblob(9))))",
    "index 'slow'": "create index slow on study_user_attributes (hex(zeroblob(9)))",
    "index 'some'": "create index some on study_user_attributes (study_id) where study_id > 1",
    "table 'trial_heartbeats'": "drop table trial_heartbeats;"
    "create table trial_heartbeats (trial_id integer, check (length(hex(zeroblob(9))) > trial_id))",
    "table 'study_user_attributes' ": f"{NEW_TABLE}, value_json default 'long')",
}
# What a command may take beyond its imports; the values below take 400 MiB of themselves.
DAMOOS = """
import resource, sys
import numpy, optuna, pandas, pydantic, sqlalchemy.orm
from damoos.cli import app
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
sys.argv[0] = "damoos"
from damoos.__main__ import main
main()
"""


def in_bounds(folder: Path, *words: str) -> tuple[int, str, str]:
    """What a command ends with in a process of bounded memory and time."""
    argv = [sys.executable, "-c", DAMOOS, *words, "--results", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two studies; the second is a victim of the tests."""
    opened = Store(tmp_path)
    for label in ("good", "evil"):
        opened.create(label, CONFIG, "maximize", "2026-11-27T00:00:00+00:00").add(RUN)
    opened._storage.engine.dispose()
    return tmp_path


@pytest.fixture
def damoos(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """What a command ends with in this process."""

    def ended(*words: str) -> tuple[int, str, str]:
        code = run([*words, "--results", str(tmp_path)], monkeypatch)
        return code, *capsys.readouterr()

    return ended


def change(folder: Path, script: str, *values: Any) -> None:
    connection = sqlite3.connect(folder / FILE)
    if values:
        connection.execute(script, values)
    else:
        connection.executescript(script)
    connection.commit()
    connection.close()


def set_word(folder: Path, key: str, value: Any) -> None:
    change(folder, "update study_user_attributes set value_json = ? where study_id = 2 and key = ?", value, key)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_store_that_computes_is_refused(store: Path, name: str) -> None:
    change(store, PROGRAMS[name])
    url = f"sqlite:///{store}/{FILE}"
    with pytest.raises(StoreError, match=f"store {url}: it has the .*{name.strip()}, that Optuna does not make; only"):
        connect(url)
    from damoos.dashboard.storage import SharedStorage

    with pytest.raises(StoreError, match="that Optuna does not make"):
        SharedStorage(store, None, allow_writes=False)


@pytest.mark.parametrize("view", [ENDLESS, LONG])
@pytest.mark.slow
def test_a_command_says_so_in_one_line(store: Path, view: str) -> None:
    change(store, f"{RENAME} create view study_user_attributes as {view}")
    code, out, err = in_bounds(store, "studies")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "it has the view 'study_user_attributes', that Optuna does not make" in err


def test_only_short_values_are_read(store: Path) -> None:
    connection = connect(f"sqlite:///{store}/{FILE}").engine.raw_connection()
    with pytest.raises(sqlite3.DataError, match="too big"):
        connection.execute("select zeroblob(?)", (sqlite_file.MOST_BYTES + 1,))
    assert connection.execute("pragma trusted_schema").fetchone() == (0,)


def test_a_statement_does_not_run_for_ever(store: Path) -> None:
    """A small file has rows without end where its pages are shared."""
    connection = connect(f"sqlite:///{store}/{FILE}").engine.raw_connection()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute("with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n")
    assert connection.execute("select count(*) from studies").fetchone() == (2,)


MANY = '{"a": [' + "[]," * (4 << 20) + "0]}"
HOSTILE = {
    "a key that is none": ("config", '{"a": 1}'),
    "a list": ("config", "[]"),
    "a number": ("config", 7),
    "bytes": ("config", b"\xff"),
    "no JSON": ("config", "{"),
    "deep": ("config", "[" * 100_000),
    "a type": ("config", json.dumps({**CONFIG, "nr_samples": [1]})),
    "configurations": ("config", json.dumps({"command": "true", "machine": "guest", "configs": {"a": {"memory": 3}}})),
    "many values": ("config", MANY),
    "a time": ("created", "7"),
    "a schema": ("damoos", '"4"'),
    "a result": ("result", "[1]"),
}


@pytest.mark.parametrize("key", HOSTILE)
@pytest.mark.slow
def test_a_hostile_study_does_not_stop_the_others(store: Path, key: str, damoos: Any) -> None:
    change(store, "insert into study_user_attributes (study_id, key, value_json) values (2, 'result', 'null')")
    set_word(store, *HOSTILE[key])
    code, out, err = damoos("studies")
    assert (code, out.split()[0], out.count("\n")) == (0, "good-1", 1), err
    assert "study 'evil-1' cannot be read" in err
    assert err.count("\n") == 1
    code, out, err = damoos("show", "good-1")
    assert (code, err) == (0, "")
    code, out, err = damoos("show", "evil-1")
    assert (code in (2, 3), err.count("\n")) == (True, 1), err
    assert "internal error" not in err
    code, out, err = damoos("studies", "delete", "evil-1", "--yes")
    assert (code, out) == (0, "deleted: evil-1\n"), err


@pytest.mark.parametrize("value", ["[]", '{"measurement": 3}', 7, "3", "null"])
def test_a_run_of_another_form_is_told(store: Path, value: Any, damoos: Any) -> None:
    Store(store).load("evil-1").set("setting", SETTING)
    set_word(store, "run:baseline-000", value)
    code, _, err = damoos("show", "evil-1")
    assert (code, err.count("\n")) == (3, 1), err
    assert "cannot be read" in err


@pytest.mark.parametrize("value", [[1], {"params": [3]}, {"params": None}, 3])
def test_a_setting_of_another_form_is_told(store: Path, value: Any) -> None:
    record = Store(store).load("evil-1")
    record.set("setting", value)
    with pytest.raises(StoreError, match="study 'evil-1' cannot be read: what it has found on its machine is damaged"):
        open_study(record).setting  # noqa: B018 - it is read when it is asked for


@pytest.mark.parametrize("key", ["config", "result", "run:baseline-001"])
@pytest.mark.slow
def test_a_value_does_not_fill_memory(store: Path, key: str) -> None:
    change(store, "insert or ignore into study_user_attributes (study_id, key, value_json) values (2, ?, '{}')", key)
    set_word(store, key, MANY)
    code, _, err = in_bounds(store, "show", "evil-1")
    assert (code in (2, 3), err.count("\n")) == (True, 1), err
    assert "internal error" not in err
    code, out, err = in_bounds(store, "studies")
    assert (code, out.split()[0]) == (0, "good-1"), err


@pytest.mark.parametrize(
    ("table", "columns", "most"),
    [("trials", "study_id, number, state) select 2, i, 'FAIL'", MOST_TRIALS),
     ("study_user_attributes", "study_id, key, value_json) select 2, 'k' || i, '1'", MOST_ROWS)],
)  # fmt: skip
@pytest.mark.slow
def test_a_study_of_many_rows_does_not_fill_memory(store: Path, table: str, columns: str, most: int) -> None:
    numbers = "with recursive n(i) as (select 100 union all select i + 1 from n where i < ?)"
    change(store, f"{numbers} insert into {table} ({columns} from n", 100 + most)
    code, _, err = in_bounds(store, "show", "evil-1")
    assert (code, err.count("\n")) == (3, 1), err
    said = f"study 'evil-1' cannot be read: it has more than {most} rows of {table}"
    assert said in err
    from damoos.dashboard.storage import SharedStorage

    with pytest.raises(StoreError, match=said):
        SharedStorage(store, None, allow_writes=False).get_all_trials(2)


def test_a_row_for_a_study_that_is_not_there_is_named(store: Path) -> None:
    words = [("damoos", "4"), ("created", '"x"'), ("config", json.dumps(CONFIG))]
    for word in words:
        change(store, "insert into study_user_attributes (study_id, key, value_json) values (9, ?, ?)", *word)
    found, broken = Store(store).listed()
    assert ([study.name for study in found], broken) == (["good-1", "evil-1"], ["number 9"])
