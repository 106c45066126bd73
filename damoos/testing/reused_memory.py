"""A service that is not there, whose memory is used again each so often, for policies that page out by age."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from damoos.service import guard
from damoos.service.adaptation import Adaptation
from damoos.service.far_windows import CALM_WINDOWS

MIB, PAGES = 1 << 20, 256
HOT_MIB, COLD_MIB, CHUNKS = 10, 20, 20
# What a page takes in zram, and what it costs to bring it back.
COMPRESSED, FAULT_S = 0.1, 80e-6
STEP_S = 0.5
NEVER_S = math.inf

PeriodOf = Callable[[float], float]


@dataclass
class ReusedMemory:
    """Hot memory, memory that is never used, and 20 chunks of 1 MiB that take turns to be used again.

    Parameters
    ----------
    period_of : callable
        After how many seconds a chunk is used again, by the time.
    noise : random.Random
    """

    period_of: PeriodOf
    noise: random.Random
    now_s: float = 0.0
    _used_s: list[float] = field(default_factory=lambda: [0.0] * CHUNKS)
    _turn: list[int] = field(default_factory=lambda: [0] * CHUNKS)
    _is_out: list[bool] = field(default_factory=lambda: [False] * CHUNKS)

    def window(self, age_s: float, window_s: float) -> tuple[float, float, float]:
        """Net bytes, share of the time that waits for memory, and pages swapped in a second."""
        pages, held_mib, steps = 0, 0.0, round(window_s / STEP_S)
        for _ in range(steps):
            self.now_s += STEP_S
            pages += self._step(age_s)
            cold_mib = COLD_MIB * (COMPRESSED if self.now_s >= age_s else 1.0)
            held_mib += HOT_MIB + cold_mib + sum(COMPRESSED if out else 1.0 for out in self._is_out)
        net_bytes = held_mib / steps * MIB * (1 + self.noise.gauss(0, 0.005))
        waits_s = pages * FAULT_S * max(0.0, 1 + self.noise.gauss(0, 0.1))
        return net_bytes, waits_s / window_s + max(0.0, self.noise.gauss(5e-4, 3e-4)), pages / window_s

    def _step(self, age_s: float) -> int:
        """Pages that are swapped in."""
        pages, period_s = 0, self.period_of(self.now_s)
        for nth in range(CHUNKS):
            turn = math.floor(self.now_s / period_s - nth / CHUNKS)
            if turn != self._turn[nth]:
                pages += PAGES if self._is_out[nth] else 0
                self._turn[nth], self._used_s[nth], self._is_out[nth] = turn, self.now_s, False
            elif self.now_s - self._used_s[nth] >= age_s:
                self._is_out[nth] = True
        return pages


@dataclass(frozen=True)
class Outcome:
    """What a service came to: means over all windows.

    Parameters
    ----------
    saved_mib : float
    broken, explored : float
        Shares of the windows that broke the limit, and in which a lower age was tried.
    said : list of str
    """

    saved_mib: float
    broken: float
    explored: float
    said: list[str]


def serve(
    period_of: PeriodOf,
    ages_us: Sequence[int],
    age_us: int,
    *,
    hours: float,
    limit: str = "memory_pressure<=3%",
    window_s: float = 5.0,
    seed: int = 0,
    adapts: bool = True,
) -> Outcome:
    """Serve for some hours under a policy that adapts, or under one age.

    A window far beyond the limit pauses what adapts for three windows, as the guard does.
    """
    bound = guard.parse(limit)
    adaptation = Adaptation([bound], window_s, ages_us, age_us, seed)
    memory = ReusedMemory(period_of, random.Random(seed))
    saved_mib, nr_broken, nr_explored, paused, said = 0.0, 0, 0, 0, []
    nr_windows = round(hours * 3600 / window_s)
    for _ in range(nr_windows):
        in_force_us = adaptation.age_now_us
        net_bytes, pressure, swap_ins = memory.window(NEVER_S if paused else in_force_us / 1e6, window_s)
        saved_mib += (HOT_MIB + COLD_MIB + CHUNKS - net_bytes / MIB) / nr_windows
        nr_broken += pressure > bound.bound
        nr_explored += in_force_us < adaptation.age_us
        if paused or not adapts:
            paused = max(0, paused - 1)
            continue
        if pressure > guard.FAR * bound.bound:
            change, paused = adaptation.paused(), CALM_WINDOWS
        else:
            signature = {"net_bytes": net_bytes, "swap_ins_per_s": swap_ins}
            change = adaptation.add(net_bytes, {"memory_pressure": pressure}, signature)
        if change and change.why:
            said.append(f"{memory.now_s:.0f} s: {change.age_us / 1e6:g} s: {change.why}")
    return Outcome(saved_mib, nr_broken / nr_windows, nr_explored / nr_windows, said)
