"""A PostgreSQL database by people who mean harm: each is refused in a line, or the studies that can be read are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from damoos.errors import StoreError
from damoos.store.studies import Store
from tests.servers import postgresql
from tests.unit.store.test_hostile import CONFIG, DAMOOS, RUN

RENAME = "alter table study_user_attributes rename to sua;"
SLOW = "create view study_user_attributes as select * from sua where pg_sleep(1000) is not null"
SLEEP = "create function sleeps() returns trigger language plpgsql as 'begin perform pg_sleep(1000); return new; end'"
# What must not be in a database, and how it is taken away again.
PROGRAMS = {
    "view 'study_user_attributes'": (f"{RENAME} {SLOW}", "drop view study_user_attributes; alter table sua rename to"
     " study_user_attributes"),
    "row security of 'studies'": ("alter table studies enable row level security",
     "alter table studies disable row level security"),
    "trigger 'slow'": (f"{SLEEP}; create trigger slow before insert on trials for each row execute function sleeps()",
     "drop trigger slow on trials"),
    "rule 'none'": ("create rule none as on insert to trials do instead nothing", "drop rule none on trials"),
    "heir of 'studies'": ("create table heir () inherits (studies)", "drop table heir"),
    "default of 'studies'": ("alter table studies alter study_name set default random()::text",
     "alter table studies alter study_name drop default"),
}  # fmt: skip


LONG, OBJECTS = "repeat('x', 180000000)", "'[' || repeat('[],', 5000000) || '1]'"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture
def store(database: str, tmp_path: Path) -> Iterator[str]:
    """Two studies; the second is a victim of the tests."""
    store = Store(tmp_path, database)
    for name in ("good-1", "evil-1"):
        store.ensure(name, CONFIG, "maximize", "2026-11-27T00:00:00+00:00").add(RUN)
    yield database
    for name in store.names() + store.listed()[1]:
        store.discard(name)


def change(database: str, words: str) -> None:
    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(words)


def in_bounds(database: str, folder: Path, *words: str) -> tuple[int, str, str]:
    argv = [sys.executable, "-c", DAMOOS, *words, "--results", str(folder), "--storage", database]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("key", "value"), [("config", LONG), ("config", OBJECTS), ("run:baseline-001", LONG)])
def test_a_value_does_not_fill_memory(store: str, tmp_path: Path, key: str, value: str) -> None:
    change(
        store,
        f"delete from study_user_attributes where key = '{key}' and study_id = (select max(study_id) from studies)",
    )
    change(store, "insert into study_user_attributes (study_id, key, value_json)"
           f" select max(study_id), '{key}', {value} from studies")  # fmt: skip
    code, _, err = in_bounds(store, tmp_path, "show", "evil-1")
    assert (code in (2, 3), err.count("\n")) == (True, 1), err
    assert "internal error" not in err
    found, broken = Store(tmp_path, store).listed()
    assert "good-1" in [study.name for study in found]
    assert broken == (["evil-1"] if key == "config" else [])


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_database_that_computes_is_refused(store: str, tmp_path: Path, what: str) -> None:
    done, undone = PROGRAMS[what]
    change(store, done)
    try:
        with pytest.raises(StoreError, match=f"it has the {what}, that Optuna does not make"):
            Store(tmp_path, store)
    finally:
        change(store, undone)


def test_no_statement_takes_for_ever(store: str, tmp_path: Path) -> None:
    with Store(tmp_path, store)._storage.engine.connect() as connection:
        assert connection.exec_driver_sql("show statement_timeout").scalar() == "1min"


def test_a_server_of_the_account_postgres_is_reached_by_its_unix_socket(store: str, tmp_path: Path) -> None:
    with psycopg.connect(store.replace("+psycopg", "")) as connection:
        asked = "select current_setting('unix_socket_directories'), current_setting('port')"
        folder, port = connection.execute(asked).fetchone() or ("", "")
    by_socket = Store(tmp_path, f"postgresql+psycopg://damoos@/postgres?host={folder}&port={port}")
    assert "good-1" in [study.name for study in by_socket.listed()[0]]
