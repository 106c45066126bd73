"""Folders of runs, where another agent looks for leftovers at the same time."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from damoos.agent import folders
from damoos.agent.folders import Folders, remove_leftovers
from damoos.agent.undo import UndoLog


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which agents make theirs."""
    monkeypatch.setattr(folders, "data_folder", lambda: tmp_path)
    return tmp_path


def log(path: Path) -> UndoLog:
    return UndoLog(path / "undo.json")


def test_a_folder_that_was_removed_before_its_lock_is_made_again(
    data: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, []

    def removed_at_once(**words: str) -> str:
        made.append(make(**words))
        if len(made) == 1:
            shutil.rmtree(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", removed_at_once)
    folder = Folders(log(tmp_path_factory.mktemp("state"))).new(None)
    assert str(folder) == made[1]
    assert [str(path) for path in data.iterdir()] == [made[1]]


def test_leftovers_are_removed_and_what_is_in_use_stays(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    owner = Folders(log(tmp_path_factory.mktemp("owner")))
    used = owner.new(None)
    (data / "damoos-run-left").mkdir()
    remove_leftovers(log(tmp_path_factory.mktemp("other")))
    assert list(data.iterdir()) == [used]
