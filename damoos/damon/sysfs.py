"""DAMON's sysfs files: one kdamond, written, read back, started, changed online and taken away.

Pitfalls that this file guards against, all met on 6.12: ``update_us`` starts at 60 s, so every interval is always
written; a bad ``commit`` reports success and kills the kdamond, so `Kdamond.commit` looks at the state again; a goal
that is added by a commit loses its current value, so it is written again; an action that the operations set cannot do
is accepted and applies nothing, which `damoos.agent.action_probe` finds out; a commit to a kdamond whose schemes are
all inactive by their watermarks waits for ever, so such a one is started anew. Files that older or smaller kernels lack
are written only for what differs from the kernel's own default.

References
----------
Documentation/admin-guide/mm/damon/usage.rst, "sysfs Interface"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from damoos.damon.files import read, write
from damoos.damon.kdamond import Kdamond
from damoos.damon.pattern import ACTIONS
from damoos.damon.scheme import (
    FILTER_TYPES,
    GOAL_METRICS,
    Context,
    DamosStats,
    Filter,
    IntervalsGoal,
    Scheme,
    kernel_pattern,
)
from damoos.errors import DamoosError, MachineError, UnsupportedError

ADMIN = "sys/kernel/mm/damon/admin"


class SysfsKdamond(Kdamond):
    """The first kdamond of DAMON's sysfs."""

    interface = "sysfs"

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self._kdamonds = root / ADMIN / "kdamonds"
        self._dir = self._kdamonds / "0"
        self._files = self._dir / "contexts/0"

    @classmethod
    def is_here(cls, root: Path) -> bool:
        """Whether the kernel has CONFIG_DAMON_SYSFS."""
        return (root / ADMIN / "kdamonds").exists()

    def used_by_others(self) -> str:
        """Any kdamond, running or not."""
        number = read(self._kdamonds / "nr_kdamonds")
        return "" if number == "0" else "nr_kdamonds is not 0"

    def _make(self) -> None:
        write(self._kdamonds / "nr_kdamonds", 1)
        write(self._dir / "contexts/nr_contexts", 1)

    def _take_away(self, former: Mapping[str, Any]) -> None:
        write(self._kdamonds / "nr_kdamonds", 0)

    def _write(self, context: Context) -> None:
        write(self._files / "operations", context.operations)
        attrs = context.attrs
        for name, value in (
            ("intervals/sample_us", attrs.sample_us),
            ("intervals/aggr_us", attrs.aggr_us),
            ("intervals/update_us", attrs.update_us),
            ("nr_regions/min", attrs.min_nr_regions),
            ("nr_regions/max", attrs.max_nr_regions),
        ):
            write(self._files / "monitoring_attrs" / name, value)
        self._write_goal(attrs.goal)
        # Writing the number makes all schemes anew, and with them what a running kdamond's stats are shown through.
        if read(self._files / "schemes/nr_schemes") != str(len(context.schemes)):
            write(self._files / "schemes/nr_schemes", len(context.schemes))
        for index, scheme in enumerate(context.schemes):
            self._write_scheme(self._files / f"schemes/{index}", scheme, context)

    def _write_goal(self, goal: IntervalsGoal | None) -> None:
        """What the kernel tunes the intervals for (since 6.15); 0 aggregations for nothing."""
        where = self._files / "monitoring_attrs/intervals/intervals_goal"
        if goal is None and not where.exists():
            return
        if not where.exists():
            raise UnsupportedError("this kernel does not tune DAMON's intervals (Linux 6.15 and later do)")
        for name, value in asdict(goal or IntervalsGoal(0, 0, 0, 0)).items():
            write(where / name, value)

    def set_targets(self, pids: list[int]) -> None:
        """Name the processes to watch; for paddr all memory, which the kernel does not find by itself."""
        assert self._context is not None
        paddr = self._context.operations == "paddr"
        write(self._files / "targets/nr_targets", 1 if paddr else len(pids))
        for index, pid in enumerate(() if paddr else pids):
            write(self._files / f"targets/{index}/pid_target", pid)
        if not self._spans:
            return
        write(self._files / "targets/0/regions/nr_regions", len(self._spans))
        for index, (start, end) in enumerate(self._spans):
            write(self._files / f"targets/0/regions/{index}/start", start)
            write(self._files / f"targets/0/regions/{index}/end", end)

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
        _write_unless(where / "apply_interval_us", scheme.apply_interval_us, default=0)
        if scheme.target_nid is not None:
            write(where / "target_nid", scheme.target_nid)
        _write_unless(where / "quotas/goals/nr_goals", len(quotas.goals), default=0)
        self._write_goals(where / "quotas/goals", scheme)
        _write_unless(where / "filters/nr_filters", len(scheme.filters), default=0)
        for index, scheme_filter in enumerate(scheme.filters):
            self._write_filter(where / f"filters/{index}", scheme_filter)

    @staticmethod
    def _write_goals(where: Path, scheme: Scheme) -> None:
        for index, goal in enumerate(scheme.quotas.goals):
            write(where / f"{index}/target_metric", goal.metric)
            write(where / f"{index}/target_value", goal.target_value)
            write(where / f"{index}/current_value", goal.current_value)

    def _write_filter(self, where: Path, one: Filter) -> None:
        write(where / "type", one.type)
        write(where / "matching", "Y" if one.matching else "N")
        if one.type == "memcg":
            group = self._root / "sys/fs/cgroup" / one.memcg_path.lstrip("/")
            if not (group / "memory.stat").exists():  # the kernel would say "Cannot allocate memory" at the start
                raise MachineError(f"memcg filter: group {group} does not exist, or has no memory controller")
            write(where / "memcg_path", one.memcg_path)
        elif one.type == "addr":
            write(where / "addr_start", one.addr_start)
            write(where / "addr_end", one.addr_end)
        elif one.type == "target":
            write(where / "damon_target_idx", one.target_idx)

    def _start(self) -> None:
        self._command("on")

    def _stop(self) -> None:
        self._command("off")

    def _commit(self) -> None:
        if self._may_sleep():
            self._before = self.stats()
            self._stop()
            self._start()
            return
        self._command("commit")
        if self.is_on() and self._context and any(scheme.quotas.goals for scheme in self._context.schemes):
            for index, scheme in enumerate(self._context.schemes):
                self._write_goals(self._files / f"schemes/{index}/quotas/goals", scheme)
            self._command("commit_schemes_quota_goals")

    def _may_sleep(self) -> bool:
        """Whether all schemes may be inactive by their watermarks: the kernel answers a commit only when one wakes."""
        schemes = self._running.schemes if self._running else ()
        return bool(schemes) and all(scheme.watermarks.metric != "none" for scheme in schemes)

    def _command(self, word: str) -> None:
        write(self._dir / "state", word)

    def _nr_schemes(self) -> int:
        return len(self._context.schemes) if self._context else 0

    def is_on(self) -> bool:
        """Whether the kdamond runs now."""
        path = self._dir / "state"
        return path.exists() and read(path) == "on"

    @property
    def pid(self) -> int:
        """Process id of the kdamond's thread, or -1 when it does not run."""
        return int(read(self._dir / "pid"))

    def _stats(self) -> list[DamosStats]:
        self._command("update_schemes_stats")
        stats = []
        for index in range(self._nr_schemes()):
            where = self._files / f"schemes/{index}/stats"
            numbers = [int(read(where / n)) for n in ("nr_tried", "sz_tried", "nr_applied", "sz_applied", "qt_exceeds")]
            stats.append(DamosStats(*numbers))
        return stats

    def regions(self) -> list[tuple[int, int, int, int]]:
        """The regions that schemes matched in the next apply interval: (start, end, nr_accesses, age)."""
        self._command("update_schemes_tried_regions")
        regions = []
        for index in range(self._nr_schemes()):
            for where in (self._files / f"schemes/{index}/tried_regions").iterdir():
                if where.name.isdigit():
                    start, end, accesses, age = (int(read(where / n)) for n in ("start", "end", "nr_accesses", "age"))
                    regions.append((start, end, accesses, age))
        self._command("clear_schemes_tried_regions")
        return sorted(regions)

    def effective_bytes(self) -> list[int]:
        """Quota in force of each scheme after its tuning, bytes per reset interval; empty if it is not told."""
        files = [self._files / f"schemes/{index}/quotas/effective_bytes" for index in range(self._nr_schemes())]
        if not all(file.exists() for file in files):
            return []
        self._command("update_schemes_effective_quotas")
        return [int(read(file)) for file in files]

    def accepted(self) -> dict[str, str]:
        """What the kernel took, read back from its files: provenance of a run."""
        names = ["operations"]
        names += [f"monitoring_attrs/{n}" for n in ("intervals/sample_us", "intervals/aggr_us", "intervals/update_us")]
        names += [f"monitoring_attrs/nr_regions/{n}" for n in ("min", "max")]
        for index in range(self._nr_schemes()):
            names.append(f"schemes/{index}/action")
            for what in ("sz", "nr_accesses", "age"):
                names += [f"schemes/{index}/access_pattern/{what}/{end}" for end in ("min", "max")]
        return {name: read(self._files / name) for name in names}

    def features(self) -> dict[str, list[str]]:
        """Words that the files take: each is written to a scheme that never runs."""
        write(self._files / "schemes/nr_schemes", 1)
        scheme = self._files / "schemes/0"
        return {
            "operations": read(self._files / "avail_operations").split(),
            "actions": _taken(scheme / "action", ACTIONS),
            "scheme_files": sorted(entry.name for entry in scheme.iterdir()),
            "filters": _taken_by_first(scheme / "filters", "type", FILTER_TYPES),
            "goals": _taken_by_first(scheme / "quotas/goals", "target_metric", GOAL_METRICS),
        }


def _write_unless(path: Path, value: int, default: int) -> None:
    """Write what differs from the default, and the default only where the file is there."""
    if value != default or path.exists():
        write(path, value)


def _taken(path: Path, words: tuple[str, ...]) -> list[str]:
    accepted = []
    for word in words:
        try:
            write(path, word)
            accepted.append(word)
        except DamoosError:
            continue
    return accepted


def _taken_by_first(folder: Path, file: str, words: tuple[str, ...]) -> list[str]:
    number = next(iter(folder.glob("nr_*")), None)
    if number is None:
        return []
    write(number, 1)
    return _taken(folder / "0" / file, words)
