"""Folders of runs, where another agent looks for leftovers at the same time."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.agent import folders
from damoos.agent.accounts import Account
from damoos.agent.confinement import Confinement
from damoos.agent.folders import Folders, remove_leftovers
from damoos.agent.undo import UndoLog


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which agents make theirs."""
    monkeypatch.setattr(folders, "data_folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def open_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One that other users get to; not in a folder of pytest's, which is private."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o711)
        monkeypatch.setattr(folders, "data_folder", lambda: Path(name))
        yield Path(name)


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


def test_a_folder_is_private(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Folders(log(tmp_path_factory.mktemp("state"))).new(None)
    assert folder.stat().st_mode & 0o777 == 0o700


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")


@needs_root
def test_a_folder_and_what_a_set_up_made_belong_to_the_run_s_user(
    open_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A set-up is made once for each user, and copied with its owners."""
    mine = Folders(log(tmp_path_factory.mktemp("state")))
    one, other = (Confinement(Account(f"user-{uid}", uid, uid)) for uid in (61236, 61237))
    setup = [["sh", "-c", "mkdir -m 700 inner; touch inner/file; ln -s file inner/link"]]
    made = {who: mine.prepare(setup, {}, who) for who in (one, other)}
    assert made[one] == mine.prepare(setup, {}, one) != made[other]
    folder = mine.new(made[other], other)
    for path in (folder, folder / "inner", folder / "inner/file"):
        assert (path.stat().st_uid, path.stat().st_gid) == (61237, 61237)
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "inner")] == [0o700, 0o700]
    assert (folder / "inner/link").is_symlink()


@needs_root
def test_what_is_brought_is_copied_once_for_each_user(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    brought = tmp_path_factory.mktemp("brought") / "prog"
    brought.write_text("one")
    brought.chmod(0o755)
    mine = Folders(log(tmp_path_factory.mktemp("state")))
    user = Account("user", 61236, 61236)
    assert mine.within_reach([str(brought)], None) == {}
    (copy,) = mine.within_reach([str(brought)], user).values()
    assert mine.within_reach([str(brought)], user) == {str(brought): copy}
    status = Path(copy).stat()
    assert (status.st_uid, status.st_mode & 0o777, Path(copy).name) == (61236, 0o500, "prog")
    assert Path(copy).parent.stat().st_uid == 0  # no link in it is of the user's making
    brought.write_text("longer")
    (newer,) = mine.within_reach([str(brought)], user).values()
    assert Path(newer).read_text() == "longer"


@needs_root
def test_a_former_agent_s_folder_of_another_user_is_removed(
    data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    left = data / "damoos-run-left"
    left.mkdir(0o700)
    os.chown(left, 61236, 61236)
    remove_leftovers(log(tmp_path_factory.mktemp("other")))
    assert not left.exists()
