"""A limit of what is written to swap, under any policy: a token bucket on the group's ``memory.swap.max``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from damoos.agent import memcg
from damoos.agent.swap import written_bytes
from damoos.agent.undo import UndoLog
from damoos.damon.files import kernel_text
from damoos.errors import UnsupportedError

STEP_S = 0.1
# So much may be written at once after a time in which nothing was: what the limit allows in this time.
BURST_S = 1.0
FILE = "memory.swap.max"


class SwapWriteLimit:
    """Lets a group swap out as much as is left in a bucket that fills at the limit's rate.

    Whoever reclaims from the group (DAMON, a rule, the kernel by a limit of its own) leaves anonymous memory alone as
    soon as its swap is full; file pages are still reclaimed, and what is on swap stays there. What is written is read
    from the kernel's counters of the devices, and what went beyond the bucket is made up for: pages that come back from
    swap make room for others, so one long reclaim may write more than there was in the bucket. Swap in zram is memory,
    and not limited.

    Parameters
    ----------
    group : Path
        A cgroup.
    bytes_per_s : float, bytes a second

    Raises
    ------
    UnsupportedError : the group's swap cannot be limited
    """

    def __init__(self, group: Path, bytes_per_s: float) -> None:
        if not (group / FILE).exists():
            raise UnsupportedError(f"writes to swap cannot be limited here: {group} has no {FILE}")
        self._file = group / FILE
        self._group = group
        self._bytes_per_s = bytes_per_s
        self._most_bytes = math.inf
        self._tokens_bytes = bytes_per_s * BURST_S
        self._written_bytes = 0
        self._looked_s = self._next_s = 0.0
        self.limited_s = 0.0

    def begin(self, now_s: float, log: UndoLog) -> None:
        """The limit holds from now on."""
        former = kernel_text(self._file).strip()
        log.record("file", path=str(self._file), value=former)
        self._most_bytes = math.inf if former == "max" else float(former)
        self._written_bytes, self._looked_s = written_bytes(), now_s
        self._set()
        self._next_s = now_s + STEP_S

    def step(self, now_s: float) -> float:
        """Fill the bucket and take from it what was written; returns when it is time again."""
        if now_s >= self._next_s:
            elapsed_s, self._looked_s = now_s - self._looked_s, now_s
            if self._tokens_bytes < 2 * self._bytes_per_s * STEP_S:
                self.limited_s += elapsed_s
            before, self._written_bytes = self._written_bytes, written_bytes()
            filled = min(self._bytes_per_s * BURST_S, self._tokens_bytes + self._bytes_per_s * elapsed_s)
            self._tokens_bytes = filled - (self._written_bytes - before)
            self._set()
            self._next_s = now_s + STEP_S
        return self._next_s

    def told(self) -> dict[str, Any]:
        """The limit, and for how long the bucket was as good as empty."""
        return {"bytes_per_s": self._bytes_per_s, "limited_s": self.limited_s}

    def _set(self) -> None:
        # A page that comes back from swap leaves room for another one, which would be written: nothing left is 0.
        allowed = 0.0
        if self._tokens_bytes >= 1:
            allowed = memcg.number(self._group / "memory.swap.current") + self._tokens_bytes
        self._file.write_text(str(int(min(allowed, self._most_bytes))))
