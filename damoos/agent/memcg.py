"""What a cgroup's memory consists of, and what has become of it.

References
----------
Documentation/admin-guide/cgroup-v2.rst, "Memory Interface Files"
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from damoos.damon.files import kernel_lines, kernel_text

KINDS = ("anon", "file", "shmem", "kernel", "slab", "sock", "pagetables", "zswap", "zswapped", "unevictable")
"""Amounts in memory.stat, in bytes. ``shmem`` is part of ``file``; ``slab`` and ``pagetables`` of ``kernel``.
``unevictable`` is what is locked, of whatever kind."""
COUNTS = (
    "workingset_refault_anon", "workingset_refault_file", "workingset_activate_anon", "workingset_activate_file",
    "pgscan", "pgsteal",
)  # fmt: skip
"""Counters in memory.stat."""
MAJOR_FAULTS = "pgmajfault"
"""Another one: accesses that waited for a page to be read."""
EVENTS = ("high", "max", "oom", "oom_kill")
"""In memory.events: how often a limit throttled, made the group reclaim, was not enough, and killed a process."""


def numbers(path: str | Path) -> dict[str, int]:
    """The words and numbers of a file with one of each in a line; empty where there is none."""
    try:
        words = kernel_text(path).split()
        return dict(zip(words[::2], map(int, words[1::2])))
    except (OSError, ValueError):
        return {}


def number(path: str | Path | None) -> float:
    """The one number of a file; not a number where there is none."""
    try:
        return float(kernel_text(path)) if path else math.nan
    except (OSError, ValueError):
        return math.nan


def kinds(stat: Mapping[str, int]) -> tuple[float, ...]:
    """Bytes of each of `KINDS`; not a number where the kernel does not say."""
    return tuple(stat.get(name, math.nan) for name in KINDS)


def counts(group: Path | None) -> dict[str, int]:
    """What has happened in a group so far: `COUNTS`, and `EVENTS` as ``limit_...``; what it has not is absent."""
    if group is None:
        return {}
    stat, events = numbers(group / "memory.stat"), numbers(group / "memory.events")
    return {name: stat[name] for name in COUNTS if name in stat} | {
        f"limit_{name}": events[name] for name in EVENTS if name in events
    }


def oom_kills(group: Path | None) -> int:
    """How many processes of a group and those below it the kernel has killed, because memory ran out."""
    return numbers(group / "memory.events").get("oom_kill", 0) if group else 0


def holds_only(procs: str | Path, pids: list[int]) -> bool:
    """Whether nobody else is charged to a group, whose ``cgroup.procs`` this is."""
    try:
        return set(map(int, kernel_text(procs).split())) <= set(pids)
    except OSError:
        return False


def placement(group: Path | None) -> dict[str, dict[str, int]]:
    """Bytes of anonymous and file memory on each memory node; empty where there is one, or the kernel does not say."""
    try:
        lines = kernel_lines(group / "memory.numa_stat") if group else []
    except OSError:
        return {}
    table = {name: dict(word.split("=") for word in words) for name, *words in map(str.split, lines)}
    placed = {kind: {node: int(sz) for node, sz in table.get(kind, {}).items()} for kind in ("anon", "file")}
    return placed if len(placed["anon"]) > 1 else {}
