"""What a machine's kernel has of all that damoos can make use of, found by looking and by trying."""

from __future__ import annotations

from pathlib import Path

from damoos.agent import cgroup, proc
from damoos.agent.action_probe import tryout
from damoos.agent.undo import UndoLog
from damoos.damon import interface

NOT_HERE = "-"
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
    files = offered.get("scheme_files", [])
    quotas = "size and time" if "quotas" in files else NOT_HERE
    goals = offered.get("goals", [])
    rows |= {
        "quotas": quotas + (f"; goals: {_words(goals)}" if goals else ""),
        "filters": _words(offered.get("filters", [])),
        "watermarks": _there("watermarks" in files),
        "scheme's own apply interval": _there("apply_interval_us" in files),
        "tried regions": _there("tried_regions" in files),
        "tracepoint damon_aggregated": _path("tracing/events/damon/damon_aggregated"),
        "damon.flush_tlb": _there((_SYS / "module/damon/parameters/flush_tlb").exists()),
        "modules": _words([name for name in ("damon_reclaim", "damon_lru_sort") if (_SYS / "module" / name).exists()]),
        "page-table isolation in force": _there("pti" in proc.cpu_flags()),
        "transparent huge pages": _path("mm/transparent_hugepage/enabled"),
        "idle page tracking": _path("mm/page_idle/bitmap"),
        "zram": _there((_SYS / "class/zram-control").exists()),
        "zswap": _there((_SYS / "module/zswap").exists()),
        "memory nodes of the test guest (2)": str(len(list((_SYS / "devices/system/node").glob("node[0-9]*"))) or 1),
        "cgroup v2 memory.reclaim": _there(_has_reclaim(log)),
        "pressure (PSI)": _there("some" in cgroup.pressure(None)),
        "KUnit": _there((_SYS / "module/kunit").exists()),
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
