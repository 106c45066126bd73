"""Emulated guests that go on from the snapshot of one that has been booted before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.common import paths
from damoos.machines.guest import GuestMachine, GuestSession
from tests.conftest import agent_pid, shell, until

MEM_BYTES = 288 << 20
PROOF = "/root/was-here"


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory, guest_image: None) -> Iterator[Path]:
    """A folder for snapshots that is empty; all else in the cache is as it is."""
    folder = tmp_path_factory.mktemp("cache")
    for part in paths.cache().iterdir():
        if part.name != "snapshots":
            (folder / part.name).symlink_to(part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAMOOS_CACHE", str(folder))
        yield folder / "snapshots"


def opened() -> tuple[GuestSession, list[str]]:
    """A guest of one kind, emulated, and what was said while it came up."""
    said: list[str] = []
    return GuestMachine("small", "", 1, MEM_BYTES, accel="tcg").open(said.append), said


def states(snapshots: Path) -> list[Path]:
    return sorted(snapshots.glob("*/state.zst"))


def test_the_third_guest_of_a_kind_goes_on_from_the_second_and_shares_nothing_with_it(snapshots: Path) -> None:
    ids, random, logins = set(), set(), set()
    for number in range(4):
        before_s = time.time()
        session, said = opened()
        try:
            assert len(states(snapshots)) == (0 if number == 0 else 1)
            assert "No such file" in shell(session, f"ls {PROOF} 2>&1 || true")
            shell(session, f"echo {number} > {PROOF}; sync")
            ids.add(session.facts["boot_id"])
            random.add(shell(session, "head -c 16 /dev/urandom | od -An -tx1"))
            assert session.agent.call("state")["wall_s"] >= before_s
            assert not any("snapshot" in line for line in said)
            logins.add(shell(session, "cat /proc/[0-9]*/comm | grep -c sshd"))
        finally:
            session.close()
    assert len(ids) == len(random) == 4
    assert len(logins) == 1  # nothing is left of a login in a snapshot
    assert (states(snapshots)[0].stat().st_mode & 0o777) == 0o600


def test_the_agent_is_a_copy_of_the_one_that_waits_and_ends_alone(snapshots: Path) -> None:
    session, _ = opened()
    try:

        def processes(word: str) -> set[str]:
            return set(shell(session, f"pgrep -f 'damoos-agent-.*pyz [{word[0]}]{word[1:]}' || true").split())

        before, pid = processes("standby"), str(agent_pid(session))
        assert len(before) == 3  # the one that waits, the one that serves us, and its guardian
        assert pid in before
        session.agent.close()
        until(lambda: len(processes("standby")) == 1)
        assert not processes("attach")
        assert processes("standby") < before
    finally:
        session.close()


def test_a_snapshot_that_cannot_be_read_is_told_and_the_guest_is_booted(snapshots: Path) -> None:
    (state,) = states(snapshots)
    state.write_bytes(b"no snapshot")
    session, said = opened()
    try:
        assert any("the snapshot of a booted guest cannot be used" in line for line in said), said
        assert shell(session, "echo up").strip() == "up"
        assert not states(snapshots)
    finally:
        session.close()
