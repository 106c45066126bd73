from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from damoos.errors import MachineError
from damoos.ownership import make_folders, objection_to_use, private_folder


def test_a_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "state")
    assert folder.lstat().st_mode & 0o777 == 0o700
    assert private_folder(folder) == folder


def test_what_somebody_else_may_have_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name, reason in (("link", "is not a folder"), ("file", "is not a folder"), ("open", "may write to it")):
        with pytest.raises(MachineError, match=rf"{name}.*{reason}.*; remove it|{name} {reason}; remove it"):
            private_folder(tmp_path / name)


def test_a_folder_of_another_user_s_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted").mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 61234)
    with pytest.raises(MachineError, match=rf"planted belongs to user {os.getuid()}, so damoos does not use it"):
        private_folder(tmp_path / "planted")


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """Sets the umask for the time of a test."""
    former = os.umask(0)
    yield os.umask
    os.umask(former)


@pytest.mark.parametrize(
    ("mode", "around", "for_group", "made"),
    [
        (0o000, 0o755, True, 0o755), (0o022, 0o755, True, 0o755), (0o077, 0o755, True, 0o700),
        (0o000, 0o775, True, 0o775), (0o022, 0o775, True, 0o755), (0o000, 0o775, False, 0o755),
        (0o000, 0o1777, True, 0o755), (0o002, 0o1777, False, 0o755),
    ],
)  # fmt: skip
def test_new_folders_are_as_closed_as_the_umask_and_never_open_to_all(
    tmp_path: Path, umask: Callable[[int], int], mode: int, around: int, for_group: bool, made: int
) -> None:
    tmp_path.chmod(around)
    umask(mode)
    make_folders(tmp_path / "a/b", for_group)
    for name in ("a", "a/b"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == made


def test_what_is_not_there_is_believed_where_nobody_else_can_make_it(tmp_path: Path) -> None:
    """The owner of a folder in /tmp could take it away while it is looked at."""
    assert objection_to_use(tmp_path / "none" / "none") is None
    tmp_path.chmod(0o1777)
    for absent in (tmp_path / "none", tmp_path / "none" / "none"):
        assert objection_to_use(absent) == "is not there, and every user could make it"
        assert objection_to_use(absent, may_be_made=True) is None
    (tmp_path / "mine").mkdir(0o755)
    assert objection_to_use(tmp_path / "mine" / "none") is None
