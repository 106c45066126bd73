"""Cgroups of the agent's own, and the pressure that a group or the whole machine is under."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from damoos.agent import memcg, proc
from damoos.agent.nodes import moved_pages
from damoos.agent.swap import can_account
from damoos.agent.undo import UndoLog
from damoos.damon.files import kernel_lines, kernel_text
from damoos.errors import MachineError, UnsupportedError

CGROUPS = Path("/sys/fs/cgroup")


def usable() -> bool:
    """Whether there is a unified hierarchy in which this process may make groups."""
    return (CGROUPS / "cgroup.controllers").exists() and os.access(CGROUPS, os.W_OK)


def make_cgroup(log: UndoLog, suffix: str = "") -> Path:
    """A group of the agent's own, with the controllers that a run is measured by; undone with the log."""
    control = CGROUPS / "cgroup.subtree_control"
    for controller in _controllers(CGROUPS) - set(kernel_text(control).split()):
        log.record("controller", path=str(control), name=controller)
        control.write_text(f"+{controller}")
    group = CGROUPS / f"damoos-{os.getpid()}{suffix}"
    log.record("cgroup", path=str(group))
    group.mkdir()
    return group


def make_child(group: Path, name: str, log: UndoLog) -> Path:
    """A group inside of one of the agent's own, with the same controllers; undone with the log.

    The outer group can then hold groups only, and no processes (cgroup-v2.rst, "No Internal Process Constraint").
    """
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{word}" for word in sorted(_controllers(group))))
    child = group / name
    log.record("cgroup", path=str(child))
    child.mkdir()
    return child


def _controllers(group: Path) -> set[str]:
    return {"memory", "cpu"} & set(kernel_text(group / "cgroup.controllers").split())


LIMITS = ("memory.high", "memory.max", "memory.swap.max")
"""Files of a group that limit what it may have, in bytes."""
PROTECTIONS = ("memory.min", "memory.low")
"""Files of a group that tell how much of its memory is kept when others need memory, in bytes."""


def limit_memory(group: Path, limits: Mapping[str, int], log: UndoLog) -> None:
    """Let a group have no more than this, by the names of `LIMITS`; a lower limit that it has already stays.

    Raises
    ------
    UnsupportedError : groups here have no memory controller, or swap is not accounted for
    """
    for name in limits:
        if name not in LIMITS:
            raise UnsupportedError(f"'{name}' limits no memory; use one of {', '.join(LIMITS)}")
    for name, sz_bytes in limits.items():
        try:
            former = kernel_text(group / name).strip()
            if former == "max" or int(former) > sz_bytes:
                log.set_file(group / name, sz_bytes)
        except (OSError, MachineError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UnsupportedError(f"memory cannot be limited here: {group}/{name}: {reason}") from None


def protect_memory(group: Path, protections: Mapping[str, int]) -> None:
    """Keep more memory for a group of the agent's own than is kept already, by the names of `PROTECTIONS`.

    Raises
    ------
    UnsupportedError : groups here have no memory controller
    """
    for name, sz_bytes in protections.items():
        path = group / name
        try:
            path.write_text(str(int(kernel_text(path)) + sz_bytes))
        except OSError as error:
            raise UnsupportedError(f"memory cannot be kept for a group here: {path}: {error.strerror}") from None


def path_of(pid: int) -> str:
    """The path of the group that a process is in, as the kernel writes it; "/" also where it cannot be told."""
    try:
        lines = kernel_lines(Path(f"/proc/{pid}/cgroup"))
    except OSError:
        return "/"
    return next((line[3:] for line in lines if line.startswith("0::")), "/")


def cgroup_of(pid: int) -> Path | None:
    """The group that a process is in; None where there is no unified hierarchy, or it is in the root group."""
    inside = path_of(pid)
    return None if inside == "/" else CGROUPS / inside.lstrip("/")


def pids(group: Path) -> list[int]:
    """The processes in a group, those in groups below it left out."""
    return [int(word) for word in kernel_text(group / "cgroup.procs").split()]


def own_group(pid: int) -> Path | None:
    """The group that a process and its descendants have to themselves; None where others, or the root's, are in it."""
    group = cgroup_of(pid)
    if group is None or not (group / "cgroup.procs").exists():
        return None
    return group if set(pids(group)) <= set(proc.descendants(pid)) else None


def cpu_s(group: Path) -> tuple[float, float]:
    """User and system time of a group so far."""
    stat = dict(line.split() for line in kernel_lines(group / "cpu.stat"))
    return int(stat["user_usec"]) / 1e6, int(stat["system_usec"]) / 1e6


def pressure(group: Path | None) -> dict[str, int]:
    """Microseconds under pressure so far, the group's own or the whole machine's.

    Memory's by ``some`` and ``full``, io's by ``io_some`` and ``io_full``, the CPU's by ``cpu_some``; empty where
    PSI is off.
    """
    base, end = (group, ".pressure") if group else (Path("/proc/pressure"), "")
    memory, io, cpu = (proc.pressure_us(base / f"{kind}{end}") for kind in ("memory", "io", "cpu"))
    # Of the whole machine's CPUs "full" is always 0, and of a group's it is a limit's work.
    return (
        memory
        | {f"io_{name}": us for name, us in io.items()}
        | {f"cpu_{name}": us for name, us in cpu.items() if name == "some"}
    )


def pressures(group: Path | None) -> dict[str, int]:
    """Microseconds of waiting by resource (PSI) of a group, and of the whole machine, such as ``system_some``."""
    return pressure(group) | {f"system_{name}": us for name, us in pressure(None).items()}


def machine_metrics() -> list[str]:
    """Metrics of a run that not every machine has (`damoos.model.metrics` says what each is)."""
    names = ["zram_avg_bytes", "net_avg_bytes"] if can_account() else []
    if usable() and "memory" in kernel_text(CGROUPS / "cgroup.controllers").split():
        stat = memcg.numbers(CGROUPS / "memory.stat")
        names += ["cgroup_avg_bytes", "memory_avg_bytes", "refaults_per_s"]
        names += [f"{kind}_avg_bytes" for kind in memcg.KINDS if kind in stat]
        names += [name for name in memcg.COUNTS if name in stat]
        # The root has none of these files; a new group has those that others have.
        of_files = {
            "memory.events": [f"limit_{name}" for name in memcg.EVENTS],
            "memory.peak": ["memory_max_bytes"],
            "memory.swap.current": ["swap_avg_bytes"],
        }
        names += [name for file, own in of_files.items() if any(CGROUPS.glob(f"*/{file}")) for name in own]
    names += list(moved_pages())
    # A new cgroup has its pressure files if the machine has its own.
    names += [f"psi_{kind}_us" for kind in pressures(None)]
    return names
