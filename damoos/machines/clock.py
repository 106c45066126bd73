"""What time is to an emulated guest: how many instructions a second of it has, and whether idle time takes any.

QEMU counts instructions and gives each the same part of a second (``-icount``); see docs/decisions/0001.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Idle = Literal["wait", "skip", "poll"]
MOST_MIPS = 20_000
# An instruction takes QEMU a power of two of nanoseconds.
_NATURAL = {1000 >> shift: shift for shift in range(4)}


@dataclass(frozen=True)
class Clock:
    """The time of an emulated guest.

    Parameters
    ----------
    mips : int
        Millions of instructions in a second of it, from all of its virtual CPUs together.
    idle : {"wait", "skip", "poll"}
        What becomes of a second in which every virtual CPU waits. wait: it takes the host a second as well. skip: the
        clock jumps over it. poll: a program of the lowest priority (SCHED_IDLE) computes all through it.

    Raises
    ------
    ValueError : there is no such clock
    """

    mips: int = 500
    idle: Idle = "wait"

    def __post_init__(self) -> None:
        if self.idle not in get_args(Idle):
            raise ValueError(f"'idle' is one of {', '.join(get_args(Idle))}, and is '{self.idle}'")
        if self.skips and not 1 <= self.mips <= MOST_MIPS:
            raise ValueError(f"'mips' is from 1 to {MOST_MIPS}, and is {self.mips}")
        if not self.skips and self.mips not in _NATURAL:
            natural = ", ".join(map(str, _NATURAL))
            raise ValueError(f"with idle = '{self.idle}' 'mips' is one of {natural}, and is {self.mips}")

    @property
    def skips(self) -> bool:
        """Whether idle time is skipped."""
        return self.idle == "skip"

    def faster(self, times: float) -> Clock:
        """The clock of a CPU that is so many times as fast; it skips idle time, since others have few speeds."""
        return Clock(round(self.mips * times), "skip")

    def options(self) -> tuple[str, ...]:
        """QEMU's options."""
        if not self.skips:
            return ("-icount", f"shift={_NATURAL[self.mips]},sleep=on")
        # The kernel takes its clock events from the local APIC only if there is no other timer. Devices that polled for
        # something would have the clock run.
        return ("-icount", "shift=0,sleep=off", "-machine", "pit=off,hpet=off,pic=off,smbus=off")

    def cmdline(self, keeps_step: Sequence[str]) -> tuple[str, ...]:
        """Kernel parameters.

        Parameters
        ----------
        keeps_step : sequence of str
            Those that suit a guest whose clock keeps step with the host.
        """
        if not self.skips:
            return (*keeps_step, *(("damoos.idle=poll",) if self.idle == "poll" else ()))
        # QEMU's TSC ticks once an instruction here, and the kernel believes what it is told of the TSC: all of its time
        # comes from that. An address must be where it is known to be (`damoos.machines.guest.lapic_timer`).
        return ("nokaslr", f"tsc_early_khz={self.mips}000", "no_timer_check", "pmtmr=0")

    def __str__(self) -> str:
        idle = {"wait": "idle time passes", "skip": "idle time skipped", "poll": "never idle"}[self.idle]
        return f"emulated CPU of {self.mips:,} MIPS, {idle}"


KEEPS_STEP = Clock()
"""A second of it is one of the host's. It is for guests on which this host acts step by step, as those of services, and
for programs that compute all the time: a second of a faster CPU costs the host as many more instructions."""
PACED = Clock(4000, "skip")
"""For programs that mostly wait, if damoos runs them from beginning to end: as fast as hardware, without idle time."""
