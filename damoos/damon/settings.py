"""What a context is in DAMON's sysfs: files and values, in the order in which they are written.

Both sides use it: the machine writes by it and reads back, and a study is refused by it before its first run where the
kernel lacks a file or a word.

References
----------
Documentation/admin-guide/mm/damon/usage.rst, "sysfs Interface"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from damoos.damon.attrs import Attrs, IntervalsGoal, Probe, ProbeFilter
from damoos.damon.filters import CORE_TYPES, Filter
from damoos.damon.quotas import Goal, Quotas
from damoos.damon.scheme import Context, Dest, Scheme, kernel_pattern
from damoos.errors import UnsupportedError, nearest

# The kernel that brought a file or a folder, or a word of a file; what is older is in all kernels that have sysfs.
SINCE = {
    "filters": "6.3",
    "goals": "6.8",
    "apply_interval_us": "6.7",
    "target_nid": "6.11",
    "allow": "6.14",
    "intervals_goal": "6.15",
    "nid": "6.16",
    "dests": "6.17",
    "refresh_ms": "6.17",
    "addr_unit": "6.18",
    "path": "6.19",
    "max_nr_snapshots": "7.0",
    "goal_tuner": "7.1",
    "fail_charge_num": "7.3",
    "fail_charge_denom": "7.3",
    "pause": "7.3",
    "probes": "7.3",
    "young": "6.10",
    "migrate_hot": "6.11",
    "migrate_cold": "6.11",
    "active": "6.15",
    "unmapped": "6.15",
    "hugepage_size": "6.15",
    "node_mem_used_bp": "6.16",
    "node_mem_free_bp": "6.16",
    "node_memcg_used_bp": "6.19",
    "node_memcg_free_bp": "6.19",
    "active_mem_bp": "7.0",
    "inactive_mem_bp": "7.0",
    "temporal": "7.1",
    "collapse": "7.3",
    "node_eligible_mem_bp": "7.3",
}
# Files whose values are words of the kernel's, and where a probe lists those that it takes.
WORDS = {
    "schemes/0/action": "actions",
    "schemes/0/filters/0/type": "filters",
    "schemes/0/quotas/goals/0/target_metric": "goals",
    "schemes/0/quotas/goal_tuner": "tuners",
    "monitoring_attrs/probes/0/filters/0/type": "probe_filters",
}
# Where filters are written, by who judges them; older kernels have one folder for both.
FILTERS, OPS_FILTERS, CORE_FILTERS = "filters", "ops_filters", "core_filters"
REFRESH = "../../refresh_ms"


@dataclass(frozen=True)
class Setting:
    """One file and its value.

    Parameters
    ----------
    path : str
        Below the context's folder.
    value : str
    default : str or None
        What the kernel does without the file; None where all kernels have it.
    """

    path: str
    value: str
    default: str | None = None

    @property
    def file(self) -> str:
        """Its path with 0 for each number, and without the layer of a filter: what a probe knows."""
        return re.sub(r"(?<=/)\d+(?=/)", "0", self.path).replace(OPS_FILTERS, FILTERS).replace(CORE_FILTERS, FILTERS)


def settings(context: Context, layered: bool = False) -> Iterator[Setting]:
    """All files of a context but those of its targets.

    Parameters
    ----------
    layered : bool
        Whether the kernel has a folder for each layer of filters (since Linux 6.15).
    """
    if context.module:
        for name, value in context.module.written().items():
            yield Setting(f"module/{context.module.name}/{name}", value, "")
        return
    attrs = context.attrs
    yield Setting("operations", context.operations)
    yield Setting("addr_unit", str(attrs.addr_unit), "1")
    yield Setting("pause", _flag(context.pause), "N")
    yield Setting(REFRESH, str(context.refresh_ms), "0")
    where = "monitoring_attrs"
    yield Setting(f"{where}/intervals/sample_us", str(attrs.sample_us))
    yield Setting(f"{where}/intervals/aggr_us", str(attrs.aggr_us))
    yield Setting(f"{where}/intervals/update_us", str(attrs.update_us))
    yield Setting(f"{where}/nr_regions/min", str(attrs.min_nr_regions))
    yield Setting(f"{where}/nr_regions/max", str(attrs.max_nr_regions))
    goal = attrs.goal or IntervalsGoal(0, 0, 0, 0)
    for name, value in vars(goal).items():
        yield Setting(f"{where}/intervals/intervals_goal/{name}", str(value), "0")
    yield Setting(f"{where}/probes/nr_probes", str(len(attrs.probes)), "0")
    for number, probe in enumerate(attrs.probes):
        yield from _probe(f"{where}/probes/{number}", probe)
    yield Setting("schemes/nr_schemes", str(len(context.schemes)))
    for number, scheme in enumerate(context.schemes):
        for one in _scheme(scheme, context, layered):
            yield Setting(f"schemes/{number}/{one.path}", one.value, one.default)


def check(context: Context, offered: Mapping[str, Sequence[str]]) -> None:
    """Compare a context with what a probe has found.

    Raises
    ------
    UnsupportedError : the kernel lacks a file or a word; it says which kernel has it
    """
    if context.module and context.module.name not in offered["modules"]:
        raise UnsupportedError(f"this kernel has no module {context.module.name}{nearest('', offered['modules'])}")
    for setting in settings(context):
        if setting.default is not None and setting.value != setting.default and setting.file not in offered["files"]:
            raise lacks(setting.path)
        known = offered.get(WORDS.get(setting.file, ""), ())
        if setting.file in WORDS and setting.value != setting.default and setting.value not in known:
            raise UnsupportedError(
                f"this kernel takes no '{setting.value}' as {setting.path}{_since(setting.value, known)}"
            )


def lacks(path: str) -> UnsupportedError:
    """That this kernel has no such file."""
    name = next((part for part in reversed(path.split("/")) if part in SINCE), "")
    return UnsupportedError(f"this kernel's DAMON has no {path.removeprefix('../../')}{_since(name, ())}")


def _since(name: str, known: Sequence[str]) -> str:
    if name in SINCE:
        return f" (since Linux {SINCE[name]})"
    return nearest(name, known) if known else ""


def _flag(value: bool) -> str:
    return "Y" if value else "N"


def _probe(where: str, probe: Probe) -> Iterator[Setting]:
    yield Setting(f"{where}/weight", str(probe.weight), "0")
    yield Setting(f"{where}/filters/nr_filters", str(len(probe.filters)), "0")
    for number, one in enumerate(probe.filters):
        yield from _probe_filter(f"{where}/filters/{number}", one)


def _probe_filter(where: str, one: ProbeFilter) -> Iterator[Setting]:
    yield Setting(f"{where}/type", one.type)
    yield Setting(f"{where}/matching", _flag(one.matching))
    yield Setting(f"{where}/allow", _flag(one.allow))
    if one.memcg_path:
        yield Setting(f"{where}/path", one.memcg_path)


def _scheme(scheme: Scheme, context: Context, layered: bool) -> Iterator[Setting]:
    numbers = kernel_pattern(scheme.pattern, context.attrs)
    marks = scheme.watermarks
    yield Setting("action", scheme.action)
    for name in ("sz", "nr_accesses", "age"):
        for end in ("min", "max"):
            yield Setting(f"access_pattern/{name}/{end}", str(getattr(numbers, f"{end}_{name}")))
    yield from _quotas(scheme)
    yield Setting("watermarks/metric", marks.metric)
    yield Setting("watermarks/interval_us", str(marks.interval_us))
    yield Setting("watermarks/high", str(marks.high_permil))
    yield Setting("watermarks/mid", str(marks.mid_permil))
    yield Setting("watermarks/low", str(marks.low_permil))
    yield Setting("apply_interval_us", str(scheme.apply_interval_us), "0")
    yield Setting("stats/max_nr_snapshots", str(scheme.max_nr_snapshots), "0")
    if scheme.target_nid is not None:
        yield Setting("target_nid", str(scheme.target_nid), "-1")
    yield Setting("dests/nr_dests", str(len(scheme.dests)), "0")
    for number, dest in enumerate(scheme.dests):
        yield Setting(f"dests/{number}/id", str(dest.id))
        yield Setting(f"dests/{number}/weight", str(dest.weight))
    yield from _filters(scheme.filters, layered)


def _quotas(scheme: Scheme) -> Iterator[Setting]:
    quotas = scheme.quotas
    charge, of = quotas.fail_charge
    yield Setting("quotas/ms", str(quotas.time_ms))
    yield Setting("quotas/bytes", str(quotas.sz_bytes))
    yield Setting("quotas/reset_interval_ms", str(quotas.reset_interval_ms))
    yield Setting("quotas/weights/sz_permil", str(quotas.weight_sz_permil))
    yield Setting("quotas/weights/nr_accesses_permil", str(quotas.weight_nr_accesses_permil))
    yield Setting("quotas/weights/age_permil", str(quotas.weight_age_permil))
    yield Setting("quotas/goal_tuner", quotas.goal_tuner, "consist")
    yield Setting("quotas/fail_charge_num", str(charge), "0")
    yield Setting("quotas/fail_charge_denom", str(of), "0")
    yield Setting("quotas/goals/nr_goals", str(len(quotas.goals)), "0")
    for number, goal in enumerate(quotas.goals):
        where = f"quotas/goals/{number}"
        yield Setting(f"{where}/target_metric", goal.metric)
        yield Setting(f"{where}/target_value", str(goal.target_value))
        yield Setting(f"{where}/current_value", str(goal.current_value))
        yield Setting(f"{where}/nid", str(goal.nid), "0")
        if goal.memcg_path:
            yield Setting(f"{where}/path", goal.memcg_path, "")


def _filters(filters: Sequence[Filter], layered: bool) -> Iterator[Setting]:
    """Filters in the folder of their layer, where there are such; DAMON asks its core's first either way."""
    if not layered:
        yield from _folder(FILTERS, filters)
        return
    yield from _folder(CORE_FILTERS, [one for one in filters if one.type in CORE_TYPES])
    yield from _folder(OPS_FILTERS, [one for one in filters if one.type not in CORE_TYPES])


def _folder(where: str, filters: Sequence[Filter]) -> Iterator[Setting]:
    yield Setting(f"{where}/nr_filters", str(len(filters)), "0")
    for number, one in enumerate(filters):
        place = f"{where}/{number}"
        yield Setting(f"{place}/type", one.type)
        yield Setting(f"{place}/matching", _flag(one.matching))
        yield Setting(f"{place}/allow", _flag(one.allow), "N")
        if one.type == "memcg":
            yield Setting(f"{place}/memcg_path", one.memcg_path)
        elif one.type == "addr":
            yield Setting(f"{place}/addr_start", str(one.addr_start))
            yield Setting(f"{place}/addr_end", str(one.addr_end))
        elif one.type == "hugepage_size":
            yield Setting(f"{place}/min", str(one.min_sz_bytes), "0")
            yield Setting(f"{place}/max", str(one.max_sz_bytes), "0")
        elif one.type == "target":
            yield Setting(f"{place}/damon_target_idx", str(one.target_idx))


# A context that has one of everything that damoos can say.
_EVERYTHING = Context(
    (
        Scheme(
            "stat",
            quotas=Quotas(reset_interval_ms=1, goals=(Goal("node_memcg_used_bp", 1, memcg_path="/"),)),
            filters=(
                Filter("memcg", memcg_path="/"),
                Filter("addr", addr_end=1),
                Filter("target"),
                Filter("hugepage_size", max_sz_bytes=1),
            ),
            dests=(Dest(),),
            target_nid=0,
        ),
    ),
    attrs=Attrs(goal=IntervalsGoal(), probes=(Probe((ProbeFilter("memcg", memcg_path="/"),)),)),
)
EVERY_FILE = frozenset(setting.file for setting in settings(_EVERYTHING))
"""Each file that a context can need, as `Setting.file` names it."""
