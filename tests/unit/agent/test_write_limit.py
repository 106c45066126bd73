"""The limit of writes to swap, on a cgroup and counters that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent import write_limit
from damoos.agent.undo import UndoLog
from damoos.agent.write_limit import SwapWriteLimit
from damoos.errors import UnsupportedError

MIB = 1 << 20


class Swap:
    """A group's swap, and who fills it as fast as it may, up to a rate."""

    def __init__(self, group: Path, former: str = "max") -> None:
        self.group, self.used, self.written = group, 0, 0
        self.limit.write_text(f"{former}\n")
        self._tell()

    @property
    def limit(self) -> Path:
        return self.group / "memory.swap.max"

    def write(self, sz_bytes: int) -> None:
        """Swap out as much as the limit allows."""
        text = self.limit.read_text().strip()
        room = sz_bytes if text == "max" else max(0, int(text) - self.used)
        done = min(sz_bytes, room)
        self.used, self.written = self.used + done, self.written + done
        self._tell()

    def read_back(self, sz_bytes: int) -> None:
        """Swap in."""
        self.used -= min(sz_bytes, self.used)
        self._tell()

    def _tell(self) -> None:
        (self.group / "memory.swap.current").write_text(f"{self.used}\n")


@pytest.fixture
def swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Swap:
    made = Swap(tmp_path)
    monkeypatch.setattr(write_limit, "written_bytes", lambda: made.written)
    return made


def run(limit: SwapWriteLimit, swap: Swap, seconds: float, each_step: int) -> float:
    """A pattern that thrashes: all that is written comes back at once. Returns what was written a second."""
    begun, now = swap.written, 100.0
    while now < 100 + seconds:
        swap.write(each_step)
        swap.read_back(each_step)
        now += write_limit.STEP_S
        limit.step(now)
    return (swap.written - begun) / seconds


def test_a_pattern_that_thrashes_stays_at_the_limit(swap: Swap) -> None:
    limit = SwapWriteLimit(swap.group, MIB)
    limit.begin(100.0, UndoLog(swap.group / "undo.json"))
    rate = run(limit, swap, 30, 4 * MIB)
    assert rate == pytest.approx(MIB, rel=0.1)
    assert limit.told()["limited_s"] > 20


def test_what_stays_below_is_not_stopped(swap: Swap) -> None:
    limit = SwapWriteLimit(swap.group, 100 * MIB)
    limit.begin(100.0, UndoLog(swap.group / "undo.json"))
    assert run(limit, swap, 10, MIB) == pytest.approx(10 * MIB, rel=0.02)
    assert limit.told()["limited_s"] == 0


def test_an_own_limit_of_the_group_stays_and_comes_back(swap: Swap) -> None:
    swap.limit.write_text(f"{2 * MIB}\n")
    log = UndoLog(swap.group / "undo.json")
    limit = SwapWriteLimit(swap.group, 100 * MIB)
    limit.begin(100.0, log)
    swap.write(50 * MIB)
    assert swap.used == 2 * MIB
    log.restore()
    assert swap.limit.read_text().strip() == str(2 * MIB)


def test_a_group_without_swap_accounting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"memory\.swap\.max"):
        SwapWriteLimit(tmp_path, MIB)
