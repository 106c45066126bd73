"""Another user in a results folder: what damoos writes there reaches no file but its own."""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from optuna.artifacts.exceptions import ArtifactNotFound
from typer.testing import CliRunner

import damoos
from damoos.cli import app
from damoos.dashboard.storage import Files, SharedStorage
from damoos.errors import ConfigError, MachineError, StoreError
from damoos.service.journal import Journal
from damoos.store.artifacts import Artifacts
from damoos.store.studies import Store
from damoos.study.config import StudyConfig
from damoos.study.run_config import plain
from damoos.study.study import tuning_study
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.sweep import Sweep
from tests.adversary.conftest import ATTACKER, needs_two_users
from tests.unit.store.test_hostile import CONFIG


@needs_two_users
def test_root_empties_and_extends_no_file_of_another_user(tmp_path: Path) -> None:
    """Root may write to it, so that only the owner tells that it is not root's."""
    for name in (".lock", "study.log"):
        (tmp_path / name).write_text("kept")
        os.chown(tmp_path / name, ATTACKER, ATTACKER)
    artifacts = Artifacts(tmp_path)
    with pytest.raises(StoreError, match=rf"\.lock: belongs to user {ATTACKER}"), artifacts.held("held"):
        pass
    with pytest.raises(StoreError, match=rf"study\.log: belongs to user {ATTACKER}"):
        artifacts.append("study.log", "added")
    assert [(tmp_path / name).read_text() for name in (".lock", "study.log")] == ["kept", "kept"]


@needs_two_users
def test_a_link_of_another_user_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    for name in (".lock", "study.log"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
        os.chown(tmp_path / name, ATTACKER, ATTACKER, follow_symlinks=False)
    artifacts = Artifacts(tmp_path)
    with pytest.raises(StoreError, match="a symbolic link"), artifacts.held("held"):
        pass
    with pytest.raises(StoreError, match="a symbolic link"):
        artifacts.append("study.log", "added")
    assert (tmp_path / "precious").read_text() == "kept"


@pytest.fixture
def score(tmp_path: Path) -> str:
    """A score file that leaves a file "ran" beside it."""
    text = f"open({str(tmp_path / 'ran')!r}, 'w')\ndef score(run, baseline):\n    return 1\n"
    (tmp_path / "score.py").write_text(text)
    return f"{tmp_path}/score.py:score"


@needs_two_users
@pytest.mark.parametrize("owned", ["results", "results/damoos.sqlite"])
def test_a_score_file_that_another_user_s_store_names_is_not_run(tmp_path: Path, score: str, owned: str) -> None:
    """Going on with a study runs the score file that it names, so that its store must be one's own."""
    config = StudyConfig(command="true", nr_samples=4, machine="a", scorer=score)
    results = tmp_path / "results"
    name = Store(results).create("evil", plain(config), "maximize", "2026-11-29T00:00:00+00:00").name
    os.chown(tmp_path / owned, ATTACKER, ATTACKER)
    not_used = f"{tmp_path / owned} belongs to user {ATTACKER}"
    with pytest.raises(StoreError, match=not_used):
        damoos.resume(name, results=results)
    if owned == "results":
        with pytest.raises(StoreError, match=not_used):
            Store(results)
    else:
        with pytest.raises(ConfigError, match="has not stored the scores"):
            _ = tuning_study(Store(results).load(name)).scorer
    assert not (tmp_path / "ran").exists()


@needs_two_users
def test_nor_is_one_that_the_file_of_a_sweep_names(tmp_path: Path, score: str) -> None:
    config = StudyConfig(command="true", nr_samples=4, machine="a", scorer=score)
    results = tmp_path / "results"
    sweep = Sweep.create(results, SweepConfig(["a"], ["a"], {"nr_samples": 4, "scorer": score}))
    os.chown(results, ATTACKER, ATTACKER)
    with pytest.raises(StoreError, match=f"{results} belongs to user {ATTACKER}, so damoos uses nothing there"):
        sweep.study(config)
    assert not (tmp_path / "ran").exists()


def test_a_folder_of_services_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Journals would be written wherever it leads."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "service").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError, match="service is a link"):
        Journal.of(tmp_path, "there")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A results folder of the attacker's with a study, whose last words are in the write-ahead log."""
    results = tmp_path / "results"
    record = Store(results).create("begun", CONFIG, "maximize", "2026-11-29T00:00:00+00:00")
    log = results / "damoos.sqlite-wal"
    record.set("note", "x")
    kept = log.read_bytes()
    del record
    gc.collect()
    log.write_bytes(kept)
    for path in (results, *results.rglob("*")):
        os.chown(path, ATTACKER, ATTACKER)
    return results


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def report(results: Path) -> None:
    Artifacts(results / "begun-1").write_text("report.html", "ours")


def delete(results: Path) -> None:
    """Delete a study that another storage holds."""
    store = Store(results.parent / "own", None)
    store.create("begun", CONFIG, "maximize", "2026-11-29T00:00:00+00:00")
    store._results = results
    store.discard("begun-1")


@needs_two_users
@pytest.mark.parametrize("use", [
    Store, lambda results: SharedStorage(results, None, allow_writes=False), report, delete,
    lambda results: Store(results.parent / "own", f"sqlite:///{results}/damoos.sqlite"),
])  # fmt: skip
def test_nothing_is_used_in_a_folder_of_another_user(theirs: Path, use: Callable[[Path], Any]) -> None:
    """They could exchange a file of it, or the folder, for a link after any look of ours."""
    before = content(theirs)
    with pytest.raises(
        StoreError, match=rf"{theirs}\S* (lies in {theirs}, which )?belongs to user {ATTACKER}, so damo"
    ):
        use(theirs)
    assert content(theirs) == before


@needs_two_users
def test_the_dashboard_serves_no_file_of_a_folder_of_another_user(theirs: Path) -> None:
    """They could put a link to a folder of ours in its place."""
    (theirs / "begun-1").mkdir()
    (theirs / "begun-1" / "study.log").write_text("x")
    files = Files(theirs)
    assert files.of("begun-1") == []
    os.chown(theirs, 0, 0)
    (known,) = files.of("begun-1")
    os.chown(theirs, ATTACKER, ATTACKER)
    with pytest.raises(ArtifactNotFound):
        files.open_reader(known["artifact_id"])


@needs_two_users
def test_root_by_sudo_writes_in_the_home_of_who_called_it(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(ATTACKER))
    Store(theirs).create("mine", CONFIG, "maximize", "2026-11-29T00:00:00+00:00")
    assert sorted(Store(theirs).names()) == ["begun-1", "mine-1"]


def commands(group: Any, *before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield " ".join((*before, name)), command


COMMANDS = {
    name: (command, option)
    for name, command in commands(typer.main.get_group(app))
    for option in command.params
    if option.name == "results"
}
FUNCTIONS = [name for name in damoos.__all__ if callable(one := getattr(damoos, name)) and not isinstance(one, type)]
FUNCTIONS = [name for name in FUNCTIONS if "results" in inspect.signature(getattr(damoos, name)).parameters]


@pytest.fixture
def their_link(theirs: Path, home: Path) -> Path:
    """A link of the attacker's to a folder of ours."""
    os.chown(theirs, 0, 0)
    link = home / "link"
    link.symlink_to(theirs)
    os.chown(link, ATTACKER, ATTACKER, follow_symlinks=False)
    return link


@needs_two_users
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_a_results_folder_of_another_user(name: str, their_link: Path) -> None:
    command, option = COMMANDS[name]
    with pytest.raises(StoreError, match=f"{their_link} belongs to user {ATTACKER}, so damoos uses nothing there"):
        option.process_value(typer.Context(command), their_link)


@needs_two_users
@pytest.mark.parametrize("name", FUNCTIONS)
def test_so_does_every_function(name: str, their_link: Path) -> None:
    function = getattr(damoos, name)
    needed = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
    words = ["x" for one in needed if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = {one.name: "x" for one in needed if one.kind is one.KEYWORD_ONLY}
    with pytest.raises(StoreError, match=f"{their_link} belongs to user {ATTACKER}, so damoos uses nothing there"):
        function(*words, **named, results=their_link)


@needs_two_users
def test_nothing_is_made_or_renamed_through_a_link_of_another_user(theirs: Path, their_link: Path) -> None:
    (theirs / "service" / "there").mkdir(parents=True)
    (theirs / "service" / "there" / "x.json").write_text("no JSON")
    before = content(theirs)
    for words in (["status"], ["report", "html", "rollout-1"], ["stop", "x"], ["studies"]):
        done = CliRunner().invoke(app, [*words, "--results", str(their_link)])
        assert isinstance(done.exception, StoreError)
    assert content(theirs) == before


def test_a_folder_that_every_user_could_make_is_made_first(home: Path) -> None:
    with pytest.raises(StoreError, match=r"none is not there, and every user could make it, .*; make it first, or "):
        damoos.load_study("x", results=home / "none")
    (home / "own").mkdir()
    with pytest.raises(ConfigError, match="there are no studies yet"):
        damoos.load_study("x", results=home / "own" / "none")
