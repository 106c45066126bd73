from __future__ import annotations

import os
from pathlib import Path

import pytest

from damoos.errors import MachineError
from damoos.ownership import private_folder


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
