"""Another user in a results folder: what damoos writes there reaches no file but its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import damoos
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


@needs_two_users
def test_root_empties_and_extends_no_file_of_another_user(tmp_path: Path) -> None:
    """Root may write to it, so that only the owner tells that it is not root's."""
    os.chown(tmp_path, ATTACKER, ATTACKER)
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
    with pytest.raises(StoreError, match=f"{name}' is not run: {tmp_path / owned} belongs to user {ATTACKER}; copy"):
        damoos.resume(name, results=results)
    with pytest.raises(ConfigError, match="has not stored the scores"):
        _ = tuning_study(Store(results).load(name)).scorer
    assert not (tmp_path / "ran").exists()


@needs_two_users
def test_nor_is_one_that_the_file_of_a_sweep_names(tmp_path: Path, score: str) -> None:
    config = StudyConfig(command="true", nr_samples=4, machine="a", scorer=score)
    results = tmp_path / "results"
    sweep = Sweep.create(results, SweepConfig(["a"], ["a"], {"nr_samples": 4, "scorer": score}))
    os.chown(results, ATTACKER, ATTACKER)
    with pytest.raises(StoreError, match=f"of sweep 'sweep-1' is not run: .* belongs to user {ATTACKER}"):
        sweep.study(config)
    assert not (tmp_path / "ran").exists()


def test_a_folder_of_services_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Journals would be written wherever it leads."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "service").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError, match="service is a link"):
        Journal.of(tmp_path, "there")
    assert not list((tmp_path / "elsewhere").iterdir())
