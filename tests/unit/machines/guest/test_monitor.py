"""QEMU's monitor, with the far end in the test's own hands."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from damoos.errors import MachineLost
from damoos.machines.guest.monitor import Monitor


class Qemu:
    """Answers as QEMU does while it writes a guest's state; notes what it is told."""

    def __init__(self, monitor: Monitor, migrated: str, runstates: list[str]) -> None:
        self._migrated, self._runstates = migrated, runstates
        self._line = socket.socket(fileno=monitor.theirs.detach())
        self.told: list[str] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self._line, self._line.makefile("rwb") as lines:
            for line in lines:
                command = json.loads(line)["execute"]
                self.told.append(command)
                lines.write(json.dumps({"return": self._answer(command)}).encode() + b"\n")
                lines.flush()

    def _answer(self, command: str) -> dict[str, Any]:
        if command == "query-migrate":
            return {"status": self._migrated}
        if command == "query-status":
            return {"status": self._runstates.pop(0)}
        return {}

    def ended(self) -> None:
        self._thread.join()


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    monitor = Monitor()
    yield monitor
    monitor.close()


@pytest.mark.parametrize("migrated", ["completed", "failed"])
def test_a_guest_goes_on_only_once_qemu_has_stopped_it_for_the_last_time(monitor: Monitor, migrated: str) -> None:
    """That may come after "completed", and would undo a "cont" that came before."""
    runstates = ["finish-migrate", "finish-migrate", "postmigrate"]
    qemu = Qemu(monitor, migrated, runstates)
    monitor.handed_over()
    if migrated == "completed":
        monitor.save("exec:cat")
    else:
        with pytest.raises(MachineLost, match="could not write the state of the guest: failed"):
            monitor.save("exec:cat")
    monitor.close()
    qemu.ended()
    assert runstates == []
    assert qemu.told[0] == "stop"
    assert qemu.told[-2:] == ["query-status", "cont"]
