"""Another user of the machine, who was there first."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.adversary.conftest import ATTACKER, Start, needs_two_users, uid


def state_of(home: Path) -> Path:
    """Where an ordinary user's agent has its state, without a runtime folder."""
    return home / f"own/.cache/damoos/agent-{os.uname().nodename}"


def own(folder: Path) -> Path:
    """A folder of the victim's, with those above it in their home."""
    for part in (folder.parents[1], folder.parent, folder):
        part.mkdir(0o700)
        os.chown(part, uid(), -1)
    return folder


def plant(folder: Path, victims_file: Path, owner: int) -> None:
    """A list of changes to undo that would remove somebody's file."""
    folder.chmod(0o777)
    (folder / "undo.json").write_text(json.dumps([{"kind": "folder", "path": str(victims_file)}]))
    for path in (folder, folder / "undo.json"):
        os.chown(path, owner, -1)


@needs_two_users
def test_an_undo_list_in_a_folder_of_another_user_s_is_not_executed(start: Start, home: Path) -> None:
    theirs = home / "precious"
    theirs.mkdir()
    os.chown(theirs, uid(), -1)
    plant(own(state_of(home)), theirs, ATTACKER)
    error = start().answer()
    assert error["type"] == "MachineError"
    assert f"{state_of(home)} belongs to user {ATTACKER}" in error["message"]
    assert theirs.exists()


@needs_two_users
def test_a_folder_in_the_temporary_folder_is_neither_used_nor_waited_for(start: Start, home: Path) -> None:
    """Its name was known beforehand, so that any user could make it first and keep the agent from working."""
    (home / f"damoos-agent-{uid()}").mkdir()
    os.chown(home / f"damoos-agent-{uid()}", ATTACKER, -1)
    agent = start()
    assert agent.answer()["pid"] == agent.process.pid
    assert (state_of(home) / "lock").exists()


@needs_two_users
@pytest.mark.parametrize("where", ["/nowhere", "/tmp", "~"])
def test_an_agent_without_a_home_of_its_own_refuses_to_work(start: Start, where: str) -> None:
    error = start(HOME=where).answer()
    assert error["type"] == "MachineError"
    assert "no home folder that is theirs alone" in error["message"]


def test_an_undo_list_of_an_ordinary_user_s_is_not_executed(start: Start, home: Path) -> None:
    """Not even one in the user's own folder: only root changes what outlives its process."""
    theirs = home / "precious"
    theirs.mkdir()
    os.chown(theirs, uid(), -1)
    plant(own(state_of(home)), theirs, uid())
    state_of(home).chmod(0o700)
    agent = start()
    assert agent.answer()["pid"] == agent.process.pid
    assert theirs.exists() == (uid() != 0)


@needs_two_users
def test_a_runtime_folder_of_another_user_s_is_not_taken(start: Start, home: Path) -> None:
    runtime = home / "runtime"
    runtime.mkdir(0o700)
    os.chown(runtime, uid(), -1)
    start(XDG_RUNTIME_DIR=str(runtime)).answer()
    assert (runtime / "damoos/lock").exists()
    os.chown(runtime, ATTACKER, -1)
    runtime.chmod(0o777)
    start(XDG_RUNTIME_DIR=str(runtime)).answer()
    assert (state_of(home) / "lock").exists()


def test_a_link_for_the_lock_leads_nowhere(start: Start, home: Path) -> None:
    folder = own(state_of(home))
    precious = home / "precious"
    precious.write_text("kept")
    os.chown(precious, uid(), -1)
    (folder / "lock").symlink_to(precious)
    assert start().ended() != 0
    assert precious.read_text() == "kept"


def test_a_former_agent_s_folders_are_removed_and_nobody_else_s(start: Start, home: Path) -> None:
    """They lie in a folder that all users share, and outlive a reboot, which the list of changes does not."""
    shared = Path("/var/tmp")
    folders = [shared / f"damoos-run-test-{os.getpid()}-{name}" for name in ("left", "other")]
    for folder in folders:
        folder.mkdir()
        (folder / "file").touch()
    try:
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", str(uid()), str(folders[0])], check=True)
            start().answer()
            assert [folder.exists() for folder in folders] == [False, True]
        else:
            start().answer()
            assert [folder.exists() for folder in folders] == [False, False]
    finally:
        subprocess.run(["rm", "-rf", *map(str, folders)], check=True)
