"""A kdamond, whichever of the kernel's interfaces it is driven through.

DAMON has had two: debugfs (5.15 to 6.12 or so) and sysfs (since 5.18). `damoos.damon.interface` chooses by looking, and
the agent knows this class only.

References
----------
Documentation/admin-guide/mm/damon/usage.rst
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

from damoos.damon.files import read
from damoos.damon.modules import MODULE_WORDS, PARAMETERS
from damoos.damon.scheme import Context
from damoos.damon.stats import DamosStats
from damoos.errors import DamoosError, MachineBusy, MachineError, UnsupportedError

REMOVE_S = 10.0
DAMON_STAT = PARAMETERS.format("damon_stat")

AboutTo = Callable[[Mapping[str, Any]], None]
Spans = Sequence[tuple[int, int]]


class Kdamond(ABC):
    """The one kdamond that damoos makes on a machine.

    Parameters
    ----------
    root : Path
        ``/`` on a machine; a fake tree in unit tests.
    """

    interface: str

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._context: Context | None = None
        self._running: Context | None = None
        self._spans: list[tuple[int, int]] = []
        # What the schemes had done before the kernel forgot it, because they were made anew.
        self._before: list[DamosStats] = []

    @classmethod
    @abstractmethod
    def is_here(cls, root: Path) -> bool:
        """Whether this kernel has the interface."""

    @abstractmethod
    def used_by_others(self) -> str:
        """What shows that somebody else uses DAMON through this interface; empty if nobody does."""

    def create(self, about_to: AboutTo = lambda _: None) -> None:
        """Take DAMON, if it is free.

        Parameters
        ----------
        about_to : callable
            Called when the machine has been found free and just before it is changed, with what `restore` needs. A
            kdamond of somebody else is never noted, so it is never undone either.

        Raises
        ------
        MachineBusy : there is a kdamond already, which is not ours to touch
        """
        sign = self.used_by_others() or module_that_runs(self._root)
        if sign:
            raise MachineBusy(f"DAMON is in use on this machine by another program ({sign}), so damoos leaves it alone")
        if damon_stat_runs(self._root):
            raise MachineBusy("DAMON_STAT runs on this machine: somebody has switched it on after damoos had not")
        about_to({"interface": self.interface, **self._former()})
        self._make()

    def remove(self, former: Mapping[str, Any] | None = None) -> None:
        """Stop the kdamond and put the interface back to what it was.

        A kdamond also ends by itself when its last target does, maybe between a look at its state and the next
        command, so only the outcome counts.
        """
        deadline = time.monotonic() + REMOVE_S
        while True:
            try:
                if self.is_on():
                    self._stop()
                self._take_away(former or {})
                return
            except MachineError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def configure(self, context: Context, pids: list[int], spans: Spans = ()) -> None:
        """Write everything that a context says; takes effect with `start` or `commit`.

        Parameters
        ----------
        spans : sequence of (int, int)
            Ranges of addresses to watch at first, end excluded; empty for all memory of the processes (vaddr) or of the
            machine (paddr).
        """
        self._spans = list(spans)
        if context.operations == "paddr" and not spans and not context.module:
            self._spans = system_ram(self._root)
        self._context = context
        self._write(context)
        self.set_targets(pids)

    def start(self) -> None:
        """Turn the kdamond on and check that it runs."""
        self._start()
        if not self.is_on():
            raise MachineError("the kernel accepted the scheme but its kdamond did not start")
        self._running = self._context

    def commit(self) -> None:
        """Make changes take effect on the running kdamond, and check that it lived through it."""
        self._commit()
        if not self.is_on():
            raise MachineError("the kdamond died after a commit that the kernel had reported as done")
        self._running = self._context

    @abstractmethod
    def set_targets(self, pids: list[int]) -> None:
        """Name the processes to watch; for paddr all memory, which the kernel does not find by itself."""

    @abstractmethod
    def is_on(self) -> bool:
        """Whether the kdamond runs now."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Process id of the kdamond's thread, or -1 when it does not run."""

    def stats(self) -> list[DamosStats]:
        """What each scheme tried and applied since `start`, fresh from the running kdamond."""
        stats = self._stats()
        if len(stats) != len(self._before):
            return stats
        return [current + before for current, before in zip(stats, self._before)]

    @abstractmethod
    def regions(self) -> list[tuple[int, int, int, int]]:
        """The regions that schemes matched in the next apply interval: (start, end, nr_accesses, age).

        Raises
        ------
        UnsupportedError : the interface cannot tell
        """

    def effective_bytes(self) -> list[int]:
        """Quota in force of each scheme after its tuning, bytes per reset interval; empty if it is not told."""
        return []

    def feed(self, values: Mapping[tuple[int, int], int]) -> None:
        """Tell the kernel the current values of goals of metric ``user_input``.

        Parameters
        ----------
        values : mapping of (int, int) to int
            By the number of the scheme, and of the goal in it.

        Raises
        ------
        UnsupportedError : the interface has no goals
        """
        raise UnsupportedError(f"DAMON's {self.interface} has no quota goals")

    def tuned_intervals(self) -> dict[str, int]:
        """The intervals that the kernel has come to, in microseconds; empty where it does not tune them."""
        return {}

    @abstractmethod
    def accepted(self) -> dict[str, str]:
        """What the kernel took, read back and named as sysfs names it: provenance of a run."""

    def changed_by_others(self) -> str:
        """What shows that somebody else has written to the kdamond's files since; empty if nothing does."""
        try:
            self.accepted()
        except DamoosError as error:
            return str(error)
        return ""

    @abstractmethod
    def features(self) -> dict[str, list[str]]:
        """What this interface offers, found by trying on a kdamond that is never started; see `interface.probe`."""

    def _former(self) -> dict[str, Any]:
        """What `remove` must put back."""
        return {}

    @abstractmethod
    def _stats(self) -> list[DamosStats]: ...

    @abstractmethod
    def _make(self) -> None: ...

    @abstractmethod
    def _take_away(self, former: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def _write(self, context: Context) -> None: ...

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _stop(self) -> None: ...

    @abstractmethod
    def _commit(self) -> None: ...


def module_that_runs(root: Path) -> str:
    """A module whose own kdamond runs, which neither interface shows; empty if there is none.

    Whoever has switched it on wants what it does, which is not so of DAMON_STAT.

    References
    ----------
    Documentation/admin-guide/mm/damon/reclaim.rst, kdamond_pid
    """
    for module in MODULE_WORDS:
        where = root / PARAMETERS.format(module) / "kdamond_pid"
        if where.exists() and read(where) != "-1":
            return f"{module} runs"
    return ""


def damon_stat_runs(root: Path = Path("/")) -> bool:
    """Whether DAMON_STAT has DAMON for itself.

    ``enabled`` tells it in all versions; ``kdamond_pid`` came later. Only root can read either.
    """
    try:
        return (root / DAMON_STAT / "enabled").read_text().strip() == "Y"
    except OSError:
        return False


def system_ram(root: Path = Path("/")) -> list[tuple[int, int]]:
    """Ranges of physical addresses that are memory: (start, end), end excluded, in whole pages, in order.

    Memory behind CXL and persistent memory that serves as memory lie deeper in the tree, as ``System RAM (kmem)``.

    References
    ----------
    /proc/iomem, which shows addresses to root only; drivers/dax/kmem.c
    """
    ranges: list[tuple[int, int]] = []
    for line in read(root / "proc/iomem").splitlines():
        span, _, what = line.strip().partition(" : ")
        if what != "System RAM" and not what.startswith("System RAM ("):
            continue
        start, end = (int(word, 16) for word in span.split("-"))
        start, end = -(-start // PAGESIZE) * PAGESIZE, (end + 1) // PAGESIZE * PAGESIZE
        inside = any(start >= outer_start and end <= outer_end for outer_start, outer_end in ranges)
        if start < end and not inside:
            ranges.append((start, end))
    if not ranges:
        raise UnsupportedError(f"{root / 'proc/iomem'} lists no System RAM; paddr needs root")
    return sorted(ranges)
