"""Another user in a results folder: what damoos writes there reaches no file but its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from damoos.errors import MachineError, StoreError
from damoos.service.journal import Journal
from damoos.store.artifacts import Artifacts
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


def test_a_folder_of_services_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Journals would be written wherever it leads."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "service").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError, match="service is a link"):
        Journal.of(tmp_path, "there")
    assert not list((tmp_path / "elsewhere").iterdir())
