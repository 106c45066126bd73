"""Keepers whose seconds since the boot are not this computer's: in a home by NFS, or in another time namespace."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from damoos.service import liveness
from damoos.service.in_force import InForce
from damoos.service.journal import Journal
from damoos.service.liveness import OFF_BY_ITSELF_S, KeeperFile
from damoos.testing.rollout_fleet import spec
from tests.unit.service.test_stop import STATE


@pytest.fixture(params=["a computer that has just booted", "one that runs for long", "an older version"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeeperFile:
    """A keeper that has had its machine just now, by the clock of its own computer; the reader's runs for a day."""
    own = KeeperFile(Journal.of(tmp_path, "there").folder)
    uptime_s = 1e6 if request.param == "one that runs for long" else 100.0
    boot = "" if request.param == "an older version" else "another/1"
    with monkeypatch.context() as patched:
        patched.setattr(liveness, "_steady_s", lambda: uptime_s)
        patched.setattr(liveness, "_boot", lambda: boot)
        assert own.take()
        own.looked(has_machine=True)
    monkeypatch.setattr(liveness, "_steady_s", lambda: 86_400.0)
    return own


def test_one_that_works_is_not_late_and_one_that_hangs_is(keeper: KeeperFile, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keeper.liveness().lives
    assert not keeper.liveness().is_late
    later_s = time.time() + 3600.0
    monkeypatch.setattr(time, "time", lambda: later_s)
    assert keeper.liveness().is_late
    assert keeper.liveness().age_s == pytest.approx(3600.0, abs=60.0)
    keeper.leave()


def test_one_that_was_killed_has_had_its_machine_until_now_for_all_that_is_known(
    keeper: KeeperFile, tmp_path: Path
) -> None:
    keeper.leave()
    journal = Journal.of(tmp_path, "there")
    journal.want("redis", spec(machine="there"))
    journal.confirm("redis", None)
    journal.tell("redis", STATE)
    assert journal.keeper.silent_s == 0
    assert InForce(journal).may_be("redis")


def test_the_next_keeper_does_not_take_over_its_seconds(keeper: KeeperFile, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.leave()
    assert keeper.take()
    keeper.looked()
    keeper.leave()
    assert keeper.liveness().silent_s == 0
    monkeypatch.setattr(liveness, "_steady_s", lambda: 86_400.0 + OFF_BY_ITSELF_S)
    assert keeper.liveness().is_off_by_itself
    assert keeper.take()
    keeper.leave()
    assert keeper.liveness().is_off_by_itself, "it has not had the machine"


@pytest.mark.parametrize("words", ["7 1e300 1 0 1 1", "7 -1 1 0 1 1", "7 1 nan 0 1 1"])
def test_numbers_that_are_no_times_tell_nothing(tmp_path: Path, words: str) -> None:
    own = KeeperFile(Journal.of(tmp_path, "there").folder)
    (tmp_path / "service" / "there" / ".keeper").write_text(f"{words} {liveness._boot()}\n")
    found = own.liveness()
    assert (found.looked_s, found.silent_s, found.lives) == (0.0, 0.0, False)


def test_a_machine_that_no_keeper_ever_had_is_silent_on_a_host_that_has_just_booted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "_steady_s", lambda: 100.0)  # of a boot 100 s ago
    keeper = liveness.KeeperFile(tmp_path)
    assert keeper.take()
    assert keeper.liveness().is_off_by_itself
    keeper.looked(has_machine=True)
    assert not keeper.liveness().is_off_by_itself
    keeper.leave()
