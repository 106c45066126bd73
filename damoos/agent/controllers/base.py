"""A controller: looks at a group once in a while, decides, acts, and keeps what it decided."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import Any

from damoos.agent import memcg, proc
from damoos.agent.schemes import SchemeOnProcess
from damoos.agent.undo import UndoLog
from damoos.damon.files import kernel_text
from damoos.errors import UnsupportedError

# Older decisions are forgotten: what is in service may be so for months.
MOST_DECISIONS = 20_000


class Controller(ABC):
    """Steers the memory of one group.

    Parameters
    ----------
    group : Path
        A cgroup.
    interval_s : float, seconds
        From one look to the next.
    """

    needs: tuple[str, ...] = ("memory.current", "memory.reclaim")
    """Files of the group without which it cannot work."""
    writes: tuple[str, ...] = ()
    """Files of the group, or paths, whose value it changes; each comes back when the controller ends."""
    columns: tuple[str, ...] = ()
    """Of `decisions`."""

    def __init__(self, group: Path, interval_s: float) -> None:
        self.group = group
        self.interval_s = interval_s
        self.cpu_s = 0.0
        self.decisions: deque[tuple[float, ...]] = deque(maxlen=MOST_DECISIONS)
        self._begun_s = self._looked_s = self._next_s = 0.0
        self._scheme: SchemeOnProcess | None = None

    @property
    def scheme(self) -> SchemeOnProcess:
        """What DAMON does beside it, for a controller that changes that."""
        if self._scheme is None:
            raise UnsupportedError(f"{self.name} changes a DAMOS scheme, and there is none")
        return self._scheme

    @property
    def name(self) -> str:
        """Its name, as people write it."""
        return type(self).__name__.lower()

    def check(self) -> None:
        """Whether the kernel has what it needs.

        Raises
        ------
        UnsupportedError
        """
        missing = [name for name in self.needs if not (self.group / name).exists()]
        if missing:
            raise UnsupportedError(
                f"{self.name} needs {' and '.join(missing)} of the cgroup, which this kernel does not have"
                " (memory.reclaim came with Linux 5.19)"
            )
        if not proc.pressure_us(self.group / "memory.pressure"):
            raise UnsupportedError(f"{self.name} needs PSI, which is off on this machine (boot it with psi=1)")

    def begin(self, now_s: float, log: UndoLog, scheme: SchemeOnProcess | None = None) -> None:
        """Time begins now; the first decision comes an interval later.

        Parameters
        ----------
        log : UndoLog
            Told of the files that it will change.
        scheme : SchemeOnProcess or None
            What DAMON does beside it.
        """
        self._scheme = scheme
        for name in self.writes:
            path = self.group / name
            log.record("file", path=str(path), value=kernel_text(path).strip())
        self._begun_s = self._looked_s = now_s
        self._next_s = now_s + self.interval_s
        self.look()

    def measured_from_now(self) -> None:
        """Count CPU time anew: what was spent before, on a server's warm-up, is no part of what is measured."""
        self.cpu_s = 0.0

    def step(self, now_s: float) -> float:
        """Decide if it is time to; returns when it will be the next time."""
        if now_s >= self._next_s:
            begun_s = time.thread_time()
            # A look that comes late is of a longer time; the looks that were missed are not made up for.
            self.decisions.append((now_s - self._begun_s, *self.decide(now_s - self._looked_s)))
            self.cpu_s += time.thread_time() - begun_s
            self._looked_s, self._next_s = now_s, now_s + self.interval_s
        return self._next_s

    def end(self) -> None:
        """Let go of what it holds; the undo log takes back what it has changed."""
        return None

    def told(self) -> dict[str, Any]:
        """What it did, for whoever asked for the run."""
        return {"cpu_s": self.cpu_s, "columns": ["t_s", *self.columns], "decisions": list(self.decisions)}

    @abstractmethod
    def look(self) -> None:
        """Take note of counters, so that the first decision can tell what has changed."""

    @abstractmethod
    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Act on what has happened in this time; returns a row of `columns`, without its time."""

    def current_bytes(self) -> int:
        """What is charged to the group."""
        return int(memcg.number(self.group / "memory.current"))

    def swap_room_bytes(self) -> int:
        """How much of the group's memory can still be swapped out."""
        free_bytes = proc.meminfo().get("SwapFree", 0)
        limit, used = memcg.number(self.group / "memory.swap.max"), memcg.number(self.group / "memory.swap.current")
        return free_bytes if math.isnan(limit) else max(0, min(free_bytes, int(limit - used)))

    def stalled_us(self, kind: str = "memory") -> int:
        """For how long some task of the group has waited so far."""
        return proc.pressure_us(self.group / f"{kind}.pressure").get("some", 0)

    def kept_bytes(self) -> int:
        """What memory.min and memory.low keep for the group.

        The kernel keeps to them when it reclaims from a group further up, and not when it reclaims because of a request
        to the group itself, or of its own limit (cgroup-v2.rst; mm/memcontrol.c, mem_cgroup_calculate_protection). So a
        controller has to.
        """
        return max(map(self._kept_bytes, ("memory.min", "memory.low")))

    def _kept_bytes(self, name: str) -> int:
        try:
            text = kernel_text(self.group / name).strip()
        except OSError:  # the root group has none
            return 0
        return sys.maxsize if text == "max" else int(text)

    def spare_bytes(self) -> int:
        """What is charged to the group beyond that."""
        return max(0, self.current_bytes() - self.kept_bytes())

    def reclaim(self, sz_bytes: int, swappiness: int | None = None) -> int:
        """Ask the kernel to reclaim so much, but nothing that the group is to keep; it reclaims what it can.

        Parameters
        ----------
        swappiness : int or None
            For this time; None for the machine's.

        Returns
        -------
        int, bytes
            What it was asked for.
        """
        asked_bytes = min(sz_bytes, self.spare_bytes())
        if asked_bytes > 0:
            how = "" if swappiness is None else f" swappiness={swappiness}"
            try:
                (self.group / "memory.reclaim").write_text(f"{asked_bytes}{how}")
            except BlockingIOError:
                pass  # EAGAIN: less than that could be reclaimed
        return asked_bytes
