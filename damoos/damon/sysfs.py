"""DAMON's sysfs files: one kdamond, written, read back, started, changed online and taken away.

Pitfalls that this file guards against, all met on 6.12: ``update_us`` starts at 60 s, so every interval is
always written; a bad ``commit`` reports success and kills the kdamond, so the state is read again after each;
an action that the operations set cannot do is accepted and applies nothing, which only the stats show.

References
----------
Documentation/admin-guide/mm/damon/usage.rst, "sysfs Interface"
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from damoos.damon.scheme import ACTIONS, Context, DamosStats, Filter, Scheme, kernel_pattern
from damoos.errors import MachineBusy, MachineError, UnsupportedError

ADMIN = "sys/kernel/mm/damon/admin"
REMOVE_S = 10.0
PAGE = 4096


def write(path: Path, value: object) -> None:
    """Write one kernel file; what the kernel refuses is an error that names the file and the value."""
    try:
        path.write_text(f"{value}\n")
    except FileNotFoundError:
        raise UnsupportedError(f"this kernel has no {path}") from None
    except OSError as error:
        raise MachineError(f"{path}: the kernel refused '{value}': {error.strerror}") from None


def read(path: Path) -> str:
    """One kernel file without its line end."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise UnsupportedError(f"this kernel has no {path}") from None


def nr_kdamonds(root: Path) -> int:
    """How many kdamonds the machine has, whoever made them; 0 where there is no DAMON."""
    path = root / ADMIN / "kdamonds/nr_kdamonds"
    return int(read(path)) if path.exists() else 0


def system_ram(root: Path = Path("/")) -> list[tuple[int, int]]:
    """Ranges of physical addresses that are memory: (start, end), end excluded, in whole pages.

    References
    ----------
    /proc/iomem, which shows addresses to root only
    """
    found = []
    for line in read(root / "proc/iomem").splitlines():
        span, _, what = line.partition(" : ")
        if what == "System RAM" and not line.startswith(" "):
            start, end = (int(word, 16) for word in span.split("-"))
            start, end = -(-start // PAGE) * PAGE, (end + 1) // PAGE * PAGE
            if start < end:
                found.append((start, end))
    if not found:
        raise UnsupportedError(f"{root / 'proc/iomem'} names no System RAM; paddr needs root")
    return found


class Kdamond:
    """The one kdamond that damoos makes on a machine.

    Parameters
    ----------
    root : Path
        ``/`` on a machine; a fake tree in unit tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._kdamonds = root / ADMIN / "kdamonds"
        self._dir = self._kdamonds / "0"
        self._context = self._dir / "contexts/0"
        self._nr_schemes = 0

    def create(self, about_to: Callable[[], None] = lambda: None) -> None:
        """Make the kdamond's directory.

        Parameters
        ----------
        about_to : callable
            Called when the machine has been found free and just before it is changed, to note the change. A kdamond
            of somebody else is never noted, so it is never undone either.

        Raises
        ------
        UnsupportedError : the kernel has no DAMON
        MachineBusy : there is a kdamond already, which is not ours to touch
        """
        if not self._kdamonds.exists():
            raise UnsupportedError(
                "this kernel has no DAMON sysfs; CONFIG_DAMON_SYSFS kernels such as Debian's 6.12 do"
            )
        if int(read(self._kdamonds / "nr_kdamonds")) != 0:
            raise MachineBusy(
                "DAMON is in use on this machine by somebody else (nr_kdamonds is not 0), so damoos leaves it alone"
            )
        about_to()
        write(self._kdamonds / "nr_kdamonds", 1)
        write(self._dir / "contexts/nr_contexts", 1)

    def remove(self) -> None:
        """Stop the kdamond and take its directory away.

        A kdamond also ends by itself when its last target does, maybe between a look at its state and the next
        command, so only the outcome counts.
        """
        deadline = time.monotonic() + REMOVE_S
        while True:
            try:
                if self.is_on():
                    self._command("off")
                write(self._kdamonds / "nr_kdamonds", 0)
                return
            except MachineError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def configure(self, context: Context, pids: list[int]) -> None:
        """Write everything that a context says; takes effect with `start` or `commit`."""
        write(self._context / "operations", context.operations)
        attrs = context.attrs
        for name, value in (
            ("intervals/sample_us", attrs.sample_us),
            ("intervals/aggr_us", attrs.aggr_us),
            ("intervals/update_us", attrs.update_us),
            ("nr_regions/min", attrs.min_nr_regions),
            ("nr_regions/max", attrs.max_nr_regions),
        ):
            write(self._context / "monitoring_attrs" / name, value)
        self.set_targets(context.operations, pids)
        self._nr_schemes = len(context.schemes)
        write(self._context / "schemes/nr_schemes", len(context.schemes))
        for index, scheme in enumerate(context.schemes):
            self._write_scheme(self._context / f"schemes/{index}", scheme, context)

    def set_targets(self, operations: str, pids: list[int]) -> None:
        """Name the processes to watch; for paddr all memory, which the kernel does not find by itself."""
        if operations != "paddr":
            write(self._context / "targets/nr_targets", len(pids))
            for index, pid in enumerate(pids):
                write(self._context / f"targets/{index}/pid_target", pid)
            return
        write(self._context / "targets/nr_targets", 1)
        ranges = system_ram(self._root)
        write(self._context / "targets/0/regions/nr_regions", len(ranges))
        for index, (start, end) in enumerate(ranges):
            write(self._context / f"targets/0/regions/{index}/start", start)
            write(self._context / f"targets/0/regions/{index}/end", end)

    def _write_scheme(self, where: Path, scheme: Scheme, context: Context) -> None:
        numbers = kernel_pattern(scheme.pattern, context.attrs)
        quotas, marks = scheme.quotas, scheme.watermarks
        for name, value in {
            "action": scheme.action,
            "access_pattern/sz/min": numbers.min_sz,
            "access_pattern/sz/max": numbers.max_sz,
            "access_pattern/nr_accesses/min": numbers.min_nr_accesses,
            "access_pattern/nr_accesses/max": numbers.max_nr_accesses,
            "access_pattern/age/min": numbers.min_age,
            "access_pattern/age/max": numbers.max_age,
            "quotas/ms": quotas.time_ms,
            "quotas/bytes": quotas.sz_bytes,
            "quotas/reset_interval_ms": quotas.reset_interval_ms,
            "quotas/weights/sz_permil": quotas.weight_sz_permil,
            "quotas/weights/nr_accesses_permil": quotas.weight_nr_accesses_permil,
            "quotas/weights/age_permil": quotas.weight_age_permil,
            "watermarks/metric": marks.metric,
            "watermarks/interval_us": marks.interval_us,
            "watermarks/high": marks.high_permil,
            "watermarks/mid": marks.mid_permil,
            "watermarks/low": marks.low_permil,
        }.items():
            write(where / name, value)
        if scheme.apply_interval_us:
            write(where / "apply_interval_us", scheme.apply_interval_us)
        if scheme.filters:
            write(where / "filters/nr_filters", len(scheme.filters))
            for index, one in enumerate(scheme.filters):
                self._write_filter(where / f"filters/{index}", one)

    @staticmethod
    def _write_filter(where: Path, one: Filter) -> None:
        write(where / "type", one.type)
        write(where / "matching", "Y" if one.matching else "N")
        if one.type == "memcg":
            write(where / "memcg_path", one.memcg_path)
        elif one.type == "addr":
            write(where / "addr_start", one.addr_start)
            write(where / "addr_end", one.addr_end)
        elif one.type == "target":
            write(where / "damon_target_idx", one.target_idx)

    def start(self) -> None:
        """Turn the kdamond on and check that it runs."""
        self._command("on")
        if not self.is_on():
            raise MachineError("the kernel accepted the scheme but its kdamond did not start")

    def commit(self) -> None:
        """Make changed files take effect without a restart, and check that the kdamond lived through it."""
        self._command("commit")
        if not self.is_on():
            raise MachineError("the kdamond died of a commit that the kernel had reported as done")

    def _command(self, word: str) -> None:
        write(self._dir / "state", word)

    def is_on(self) -> bool:
        """Whether the kdamond runs now."""
        path = self._dir / "state"
        return path.exists() and read(path) == "on"

    @property
    def pid(self) -> int:
        """Process id of the kdamond's thread, or -1 when it does not run."""
        return int(read(self._dir / "pid"))

    def stats(self) -> list[DamosStats]:
        """What each scheme tried and applied since `start`, fresh from the running kdamond."""
        self._command("update_schemes_stats")
        found = []
        for index in range(self._nr_schemes):
            where = self._context / f"schemes/{index}/stats"
            numbers = [int(read(where / n)) for n in ("nr_tried", "sz_tried", "nr_applied", "sz_applied", "qt_exceeds")]
            found.append(DamosStats(*numbers))
        return found

    def regions(self) -> list[tuple[int, int, int, int]]:
        """The regions that schemes matched in the next apply interval: (start, end, nr_accesses, age)."""
        self._command("update_schemes_tried_regions")
        found = []
        for index in range(self._nr_schemes):
            for where in (self._context / f"schemes/{index}/tried_regions").iterdir():
                if where.name.isdigit():
                    start, end, accesses, age = (int(read(where / n)) for n in ("start", "end", "nr_accesses", "age"))
                    found.append((start, end, accesses, age))
        self._command("clear_schemes_tried_regions")
        return sorted(found)

    def accepted(self) -> dict[str, str]:
        """What the kernel took, read back from its files: provenance of a run."""
        names = ["operations"]
        names += [f"monitoring_attrs/{n}" for n in ("intervals/sample_us", "intervals/aggr_us", "intervals/update_us")]
        names += [f"monitoring_attrs/nr_regions/{n}" for n in ("min", "max")]
        for index in range(self._nr_schemes):
            names.append(f"schemes/{index}/action")
            for what in ("sz", "nr_accesses", "age"):
                names += [f"schemes/{index}/access_pattern/{what}/{end}" for end in ("min", "max")]
        return {name: read(self._context / name) for name in names}


def probe(root: Path = Path("/")) -> dict[str, list[str]]:
    """What this kernel's DAMON offers, found by trying and never by version.

    A directory of a kdamond that is never started is made for it and taken away again.

    Returns
    -------
    dict with ``operations``, ``actions`` and ``scheme_files``; empty where there is no DAMON
    """
    if not (root / ADMIN).exists():
        return {}
    operations = root / ADMIN / "kdamonds/0/contexts/0/avail_operations"
    kdamond = Kdamond(root)
    kdamond.create()
    try:
        context = operations.parent
        write(context / "schemes/nr_schemes", 1)
        scheme = context / "schemes/0"
        actions = []
        for action in ACTIONS:
            try:
                write(scheme / "action", action)
                actions.append(action)
            except MachineError:
                continue
        return {
            "operations": read(operations).split(),
            "actions": actions,
            "scheme_files": sorted(entry.name for entry in scheme.iterdir()),
        }
    finally:
        kdamond.remove()
