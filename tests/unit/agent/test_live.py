from __future__ import annotations

import pytest

from damoos.agent import proc
from damoos.agent.live import CpuTimes


def test_the_cpu_time_of_processes_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to be the difference of two sums over those alive, which is negative where one has ended."""
    times = {1: (10.0, 1.0), 2: (100.0, 50.0)}
    monkeypatch.setattr(proc, "cpu_times_s", lambda pid: times.get(pid, (0.0, 0.0)))
    cpu = CpuTimes([1, 2])
    times |= {1: (11.0, 1.5), 2: (101.0, 50.0), 3: (4.0, 0.25)}
    cpu.look([1, 2, 3])
    del times[2]
    times[3] = (6.0, 0.25)
    cpu.look([1, 2, 3])
    assert cpu.spent() == {"user_s": 1.0 + 1.0 + 6.0, "system_s": 0.5 + 0.25}
