"""What a machine's kernel has of all that damoos can make use of, found by looking and by trying."""

from __future__ import annotations

from pathlib import Path

from damoos.agent import cgroup, proc
from damoos.agent.action_probe import tryout
from damoos.agent.undo import UndoLog
from damoos.damon import interface

NOT_HERE = "-"
# Features that are a file of a context's.
_FILES = {
    "scheme's own apply interval": "schemes/0/apply_interval_us",
    "tried regions": "schemes/0/tried_regions/total_bytes",
    "filters that allow": "schemes/0/filters/0/allow",
    "several target nodes": "schemes/0/dests/nr_dests",
    "end after so many looks": "schemes/0/stats/max_nr_snapshots",
    "charge of failures": "schemes/0/quotas/fail_charge_num",
    "goal of the intervals": "monitoring_attrs/intervals/intervals_goal/aggrs",
    "unit of addresses": "addr_unit",
    "pause": "pause",
    "statistics by themselves": "../../refresh_ms",
    "obsolete targets": "targets/0/obsolete_target",
}
_SYS = Path("/sys")
_KERNEL = _SYS / "kernel"


def features(log: UndoLog) -> dict[str, str]:
    """Feature and how it is there, as a person reads it; `NOT_HERE` for what is not.

    Actions are tried on memory of our own, so one that is listed has been applied to bytes.

    Raises
    ------
    MachineBusy : somebody else uses DAMON
    """
    offered = interface.probe()
    operations = offered.get("operations", [])
    rows = {
        "DAMON interfaces": _words(offered.get("interfaces", [])),
        "operations sets": _words(operations),
    }
    for ops in ("vaddr", "paddr"):
        applied = tryout(ops, offered["actions"], log) if ops in operations else {}
        rows[f"actions applied on {ops}"] = _words([action for action, sz_bytes in applied.items() if sz_bytes])
        rows[f"accepted on {ops}, applied to nothing"] = _words([name for name, sz in applied.items() if not sz])
    files = offered.get("files", [])
    rows |= {
        "quotas": "size and time" if "schemes/0/quotas/bytes" in files else NOT_HERE,
        "quota goals": _words(offered.get("goals", [])),
        "tuners of goals": _words(offered.get("tuners", [])),
        "filters": _words(offered.get("filters", [])),
        "probes": _words(offered.get("probe_filters", [])),
        "watermarks": _there("schemes/0/watermarks/metric" in files),
        **{name: _there(file in files) for name, file in _FILES.items()},
        "tracepoint damon_aggregated": _path("tracing/events/damon/damon_aggregated"),
        "damon.flush_tlb": _there((_SYS / "module/damon/parameters/flush_tlb").exists()),
        "modules": _words(offered.get("modules", [])),
        "page-table isolation in force": _there(proc.isolates_page_tables()),
        "transparent huge pages": _path("mm/transparent_hugepage/enabled"),
        "idle page tracking": _path("mm/page_idle/bitmap"),
        "zram": _there((_SYS / "class/zram-control").exists()),
        "zswap": _there((_SYS / "module/zswap").exists()),
        "memory nodes of the test guest (2)": str(len(list((_SYS / "devices/system/node").glob("node[0-9]*"))) or 1),
        "cgroup v2 memory.reclaim": _there(_has_reclaim(log)),
        "pressure (PSI)": _there("some" in cgroup.pressure(None)),
        "KUnit": _there((_SYS / "module/kunit").exists()),
        "DAMON_STAT": _there((_SYS / "module/damon_stat").exists()),
        "unknown to damoos": _words(offered.get("unknown", [])),
    }
    return rows


def _words(words: list[str]) -> str:
    return " ".join(words) or NOT_HERE


def _there(is_there: bool) -> str:
    return "yes" if is_there else NOT_HERE


def _path(name: str) -> str:
    return _there((_KERNEL / name).exists())


def _has_reclaim(log: UndoLog) -> bool:
    """The file is in every group but the root's, so one is made to look at it."""
    if not cgroup.usable():
        return False
    mark = len(log)
    try:
        return (cgroup.make_cgroup(log) / "memory.reclaim").exists()
    finally:
        log.restore(keep=mark)
