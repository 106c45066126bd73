"""A policy that is stopped, or whose keeper ends, while it is put into force: it is there afterwards, or it is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from damoos.errors import DamoosError, MachineError
from damoos.machines import catalog
from damoos.service import keeper
from damoos.service.journal import Journal
from damoos.testing.fake import FakeMachine, FakeSession
from damoos.testing.rollout_fleet import spec
from tests.conftest import until


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Journal, Path, dict[str, Any]]]:
    """Keepers are real processes, of a host that has a policy in force only once there is a file ``go`` beside it."""
    monkeypatch.setattr(keeper, "_MODULE", "tests.unit.service.keeper_of_slow_host")
    monkeypatch.setenv("DAMOOS_SLOW_HOST", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    journal = Journal.of(tmp_path / "results", "there")
    yield journal, tmp_path, spec(machine="there", results=str(tmp_path / "results"), on={"kind": "pid", "pid": 7})
    (tmp_path / "go").touch()
    if pid := journal.keeper_pid:
        os.kill(pid, signal.SIGKILL)


class Applied:
    """`keeper.apply` in a thread, for its answer or its error."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.error: DamoosError | None = None
        self.state: dict[str, Any] = {}
        self._wanted = wanted
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.state = keeper.apply(self._wanted)
        except DamoosError as error:
            self.error = error

    def ended(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()


def begun(slow: tuple[Journal, Path, dict[str, Any]]) -> Applied:
    journal, host, wanted = slow
    applied = Applied(wanted)
    until((host / "asked").exists, lambda: (journal.log_file.read_text(), applied.error))
    return applied


def test_apply_waits_until_it_is_in_force(slow: tuple[Journal, Path, dict[str, Any]]) -> None:
    journal, host, _ = slow
    applied = begun(slow)
    assert journal.states()["redis"]["beginning"]
    (host / "go").touch()
    applied.ended()
    assert applied.error is None
    assert "beginning" not in applied.state
    assert (host / "in force").exists()
    assert keeper.stop(host / "results")[0] == "redis"
    assert not (host / "in force").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.slow
def test_a_keeper_that_ends_meanwhile_leaves_nothing(
    slow: tuple[Journal, Path, dict[str, Any]], number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever applies looks on the machine, where a keeper was killed that could not say so."""
    journal, host, _ = slow
    opened: list[str] = []
    monkeypatch.setattr(FakeMachine, "open", lambda self, say=None: opened.append("opened") or FakeSession(self))
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: FakeMachine())
    applied = begun(slow)
    os.kill(journal.keeper_pid, number)
    (host / "go").touch()
    applied.ended()
    assert isinstance(applied.error, MachineError)
    assert f"the keeper process ended before 'redis' was in force, so it is not; {journal.log_file}" in str(
        applied.error
    )
    assert (journal.wanted(), journal.states()) == ({}, {})
    assert opened == (["opened"] if number == signal.SIGKILL else [])
    assert number == signal.SIGKILL or not (host / "in force").exists()  # a real agent undoes it without its keeper


@pytest.mark.slow
def test_a_stop_meanwhile_is_obeyed_and_told(slow: tuple[Journal, Path, dict[str, Any]]) -> None:
    journal, host, _ = slow
    applied = begun(slow)
    words = [sys.executable, "-m", "damoos", "stop", "redis", "--results", str(host / "results")]
    stopping = subprocess.Popen(words)
    until(lambda: not journal.wanted())
    assert stopping.poll() is None, "it must wait until the machine is as it was before"
    (host / "go").touch()
    assert stopping.wait() == 0
    assert not (host / "in force").exists()
    applied.ended()
    assert "'redis' was taken off while it was put into force: taken off: 'damoos stop'" in str(applied.error)
    assert (journal.wanted(), journal.states()) == ({}, {})
