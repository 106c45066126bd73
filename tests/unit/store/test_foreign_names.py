"""Names of studies in a store by a person who means harm: none leads out of the results folder."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from damoos.errors import MachineError, StoreError
from damoos.service.journal import Journal
from damoos.store.artifacts import Artifacts, study_folder
from damoos.store.studies import FILE, Store
from damoos.testing.rollout_fleet import spec
from tests.unit.cli.test_corpus import run
from tests.unit.store.test_hostile import CONFIG


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with a study, beside a folder that is not of damoos."""
    folder = tmp_path / "results"
    store = Store(folder)
    store.create("mine", CONFIG, "maximize", "2026-11-27T00:00:00+00:00")
    store.create("evil", CONFIG, "maximize", "2026-11-27T00:00:01+00:00")
    store._storage.engine.dispose()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "precious").write_text("kept")
    return folder


@pytest.fixture
def damoos(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command ends with in this process."""

    def ended(*words: str) -> tuple[int, str, str]:
        code = run([*words, "--results", str(results)], monkeypatch)
        return code, *capsys.readouterr()

    return ended


def rename(results: Path, name: str) -> None:
    """Have the second study another name."""
    connection = sqlite3.connect(results / FILE)
    connection.execute("update studies set study_name = ? where study_name = 'evil-1'", (name,))
    connection.commit()
    connection.close()


@pytest.mark.parametrize("name", ["../victim", "{}/victim", "../results/../victim"])
def test_a_name_that_is_a_path_is_told_and_deleted_from_the_database_only(
    results: Path, damoos: Any, name: str
) -> None:
    name = name.format(results.parent)
    rename(results, name)
    code, out, err = damoos("studies")
    assert (code, out.count("\n")) == (0, 1)
    assert f"study '{name}' cannot be read" in err
    assert damoos("show", name)[0] == 2
    assert damoos("studies", "delete", "--unfinished", "--yes")[:2] == (0, f"deleted: mine-1\ndeleted: {name}\n")
    assert [entry.name for entry in (results.parent / "victim").iterdir()] == ["precious"]
    assert damoos("studies", "--format", "json")[1] == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", [".", "..", "", ".hidden", "service", "rollout-7", "a\0b", "a/b", "/"])
def test_no_folder_but_a_study_s_own_is_touched(results: Path, name: str) -> None:
    for folder in ("service", "rollout-7", ".hidden"):
        (results / folder).mkdir()
    before = sorted(results.iterdir())
    with pytest.raises(StoreError, match="its name cannot be that of a folder"):
        study_folder(results, name)
    store = Store(results)
    with pytest.raises(StoreError, match="its name cannot be that of a folder"):
        store.ensure(name, CONFIG, "maximize", "2026-11-27T00:00:00+00:00")
    store.discard(name)
    store._storage.engine.dispose()
    assert sorted(results.iterdir()) == before


def test_a_study_s_own_folder_goes_with_it(results: Path, damoos: Any) -> None:
    Artifacts(study_folder(results, "mine-1")).write_text("a", "b")
    assert damoos("studies", "delete", "mine-1", "--yes")[0] == 0
    assert not (results / "mine-1").exists()


@pytest.mark.parametrize(
    "name",
    ["../there", "/tmp/there", "", ".keeper", "a b", "a\n", "-x", "a%h", "a$b", "a'", "x" * 201, "\u202ea"],
    ids=ascii,
)
def test_a_name_of_a_service_is_no_path(tmp_path: Path, name: str) -> None:
    journal = Journal.of(tmp_path, "here")
    for act in (lambda: journal.want(name, spec(machine="here")), lambda: journal.tell(name, None)):
        with pytest.raises(MachineError, match="cannot be a name in service: use letters, digits"):
            act()
