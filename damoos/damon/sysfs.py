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
from pathlib import Path
from typing import Any

from damoos.damon.attrs import PROBE_FILTER_TYPES
from damoos.damon.files import read, write
from damoos.damon.filters import CORE_TYPES, OPS_TYPES
from damoos.damon.kdamond import Kdamond
from damoos.damon.pattern import ACTIONS
from damoos.damon.quotas import GOAL_METRICS, TUNERS
from damoos.damon.scheme import OPERATIONS, Context
from damoos.damon.settings import EVERY_FILE, OPS_FILTERS, Setting, lacks, settings
from damoos.damon.stats import DamosStats
from damoos.errors import DamoosError, MachineError

ADMIN = "sys/kernel/mm/damon/admin"
# What the kernel changes by itself under a goal of the intervals.
_TUNED = ("monitoring_attrs/intervals/sample_us", "monitoring_attrs/intervals/aggr_us")
# Numbers of folders, in the order in which the folders come to be.
_NUMBERS = (
    "targets/0/regions/nr_regions", "schemes/0/*filters/nr_filters", "schemes/0/quotas/goals/nr_goals",
    "schemes/0/dests/nr_dests", "monitoring_attrs/probes/0/filters/nr_filters",
)  # fmt: skip
_READ = {
    *("../../state", "../../pid", "../../contexts/nr_contexts", "avail_operations"),
    *("targets/nr_targets", "targets/0/pid_target", "targets/0/obsolete_target"),
    *(f"targets/0/regions/{name}" for name in ("nr_regions", "0/start", "0/end")),
    *(f"schemes/0/stats/{name}" for name in ("nr_tried", "sz_tried", "nr_applied", "sz_applied", "qt_exceeds")),
    *("schemes/0/stats/sz_ops_filter_passed", "schemes/0/stats/nr_snapshots"),
    *("schemes/0/quotas/effective_bytes", "schemes/0/tried_regions/total_bytes"),
}


class SysfsKdamond(Kdamond):
    """The first kdamond of DAMON's sysfs."""

    interface = "sysfs"

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self._kdamonds = root / ADMIN / "kdamonds"
        self._dir = self._kdamonds / "0"
        self._files = self._dir / "contexts/0"
        self._written: dict[str, str] = {}

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
        self._written = {}
        for setting in settings(context, self._is_layered(context)):
            path = self._files / setting.path
            if setting.default is not None and not path.exists():
                if setting.value == setting.default:
                    continue
                raise lacks(setting.path)
            if setting.path.endswith(("/memcg_path", "/path")):
                self._check_group(setting)
            # Writing the number makes all schemes anew, and with them what a running kdamond's stats are shown through.
            if setting.path != "schemes/nr_schemes" or read(path) != setting.value:
                write(path, setting.value)
            self._written[setting.path] = setting.value

    def _is_layered(self, context: Context) -> bool:
        """Whether filters have a folder for each layer; the folders are there once there is a scheme."""
        if context.schemes and read(self._files / "schemes/nr_schemes") == "0":
            write(self._files / "schemes/nr_schemes", len(context.schemes))
        return (self._files / f"schemes/0/{OPS_FILTERS}").exists()

    def _check_group(self, setting: Setting) -> None:
        group = self._root / "sys/fs/cgroup" / setting.value.lstrip("/")
        if not (group / "memory.stat").exists():  # the kernel would say "Cannot allocate memory" at the start
            raise MachineError(f"{setting.path}: group {group} does not exist, or has no memory controller")

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
            for path, value in self._written.items():
                if path.endswith("/current_value"):
                    write(self._files / path, value)
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
        return [self._stats_of(self._files / f"schemes/{index}/stats") for index in range(self._nr_schemes())]

    @staticmethod
    def _stats_of(where: Path) -> DamosStats:
        names = ("nr_tried", "sz_tried", "nr_applied", "sz_applied", "qt_exceeds")
        later = ("sz_ops_filter_passed", "nr_snapshots")
        numbers = [int(read(where / name)) for name in names]
        return DamosStats(*numbers, *(int(read(where / name)) if (where / name).exists() else 0 for name in later))

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
        """What the kernel took, read back from its files: provenance of a run.

        Raises
        ------
        MachineError : the kernel holds another value than was written
        """
        taken = {path: read(self._files / path) for path in self._written}
        tuned = _TUNED if self._context and self._context.attrs.goal else ()
        for path, value in taken.items():
            if value != self._written[path] and path not in tuned:
                raise MachineError(f"{path}: the kernel holds '{value}' where '{self._written[path]}' was written")
        return taken

    def feed(self, values: Mapping[tuple[int, int], int]) -> None:
        """Tell the kernel the current values of goals of metric ``user_input``."""
        for (nth, number), value in values.items():
            path = f"schemes/{nth}/quotas/goals/{number}/current_value"
            write(self._files / path, value)
            self._written[path] = str(value)
        self._command("commit_schemes_quota_goals")

    def tuned_intervals(self) -> dict[str, int]:
        """The intervals that the kernel has come to, in microseconds; empty where it does not tune them."""
        if not self._context or not self._context.attrs.goal:
            return {}
        self._command("update_tuned_intervals")
        return {Path(path).name: int(read(self._files / path)) for path in _TUNED}

    def features(self) -> dict[str, list[str]]:
        """Words that the files take, each written to a scheme that never runs; files, and those that nobody knows."""
        for number in ("targets/nr_targets", "schemes/nr_schemes", "monitoring_attrs/probes/nr_probes"):
            if (self._files / number).exists():
                write(self._files / number, 1)
        for number in _NUMBERS:
            for path in self._files.glob(number):
                write(path, 1)
        scheme = self._files / "schemes/0"
        filters = scheme / ("ops_filters" if (scheme / "ops_filters").exists() else "filters")
        files = sorted(self._known_as(path) for path in self._dir.rglob("*") if not path.is_dir())
        known = EVERY_FILE | _READ
        return {
            "operations": read(self._files / "avail_operations").split(),
            "actions": _taken(scheme / "action", ACTIONS),
            "filters": _taken(filters / "0/type", OPS_TYPES) + _taken(scheme / "filters/0/type", CORE_TYPES),
            "goals": _taken(scheme / "quotas/goals/0/target_metric", tuple(GOAL_METRICS)),
            "tuners": _taken(scheme / "quotas/goal_tuner", TUNERS),
            "probe_filters": _taken(self._files / "monitoring_attrs/probes/0/filters/0/type", PROBE_FILTER_TYPES),
            "files": sorted(set(files)),
            "unknown": sorted(set(files) - known)
            + sorted(set(read(self._files / "avail_operations").split()) - set(OPERATIONS)),
        }

    def _known_as(self, path: Path) -> str:
        """A file as settings name it."""
        if path.is_relative_to(self._files):
            return Setting(str(path.relative_to(self._files)), "").file
        return f"../../{path.relative_to(self._dir)}"


def _taken(path: Path, words: tuple[str, ...]) -> list[str]:
    accepted = []
    for word in words if path.exists() else ():
        try:
            write(path, word)
            accepted.append(word)
        except DamoosError:
            continue
    return accepted
