"""Reading /proc and cgroup v2: process trees, their memory, CPU times and pressure. Reads only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from damoos.damon.files import kernel_lines, kernel_text

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of a process with more threads, children are found by looking at all processes: one file for each of these.
_MANY_THREADS = 64


def boot_id() -> str:
    """Identity of this kernel since its boot: the same in all of its containers, and another one in each guest."""
    return kernel_text(Path("/proc/sys/kernel/random/boot_id")).strip()


def descendants(root_pid: int) -> list[int]:
    """Process ids of a process tree, the root first; a tree that is gone gives an empty list."""
    tree: list[int] = []
    todo = [root_pid]
    while todo:
        pid = todo.pop(0)
        if not os.path.exists(f"/proc/{pid}"):
            continue
        tree.append(pid)
        todo += children(pid)
    return tree


def children(pid: int) -> list[int]:
    """Process ids of a process's children; none of one that is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        if len(threads) > _MANY_THREADS:
            return [other for other in all_pids() if _parent(other) == pid]
        files = [Path(f"/proc/{pid}/task/{thread}/children") for thread in threads]
        return [int(word) for file in files for word in kernel_text(file).split()]
    except OSError:
        return []  # ended between the two looks, or a kernel without CONFIG_PROC_CHILDREN


def ancestors(pid: int) -> list[int]:
    """Process ids of a process's parent, the parent's parent, and so on; none of one that is gone."""
    above: list[int] = []
    while pid := _parent(pid):
        above.append(pid)
    return above


def name(pid: int) -> str:
    """What the kernel calls a process, so far as it can be printed; empty once it is gone."""
    try:
        text = kernel_text(Path(f"/proc/{pid}/comm")).rstrip("\n")
    except OSError:
        return ""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def all_pids() -> list[int]:
    """Process ids of everything that runs, kernel threads among them."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def _parent(pid: int) -> int:
    status = _status(pid)
    return int(status[1]) if status else 0


def _status(pid: int | str) -> list[str] | None:
    """Fields of /proc/PID/stat behind the name, from the state on; None once the process is gone."""
    try:
        return kernel_text(Path(f"/proc/{pid}/stat")).rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None


def rss_bytes(pid: int) -> int:
    """Resident set size of one process; 0 once it is gone."""
    try:
        return int(kernel_text(f"/proc/{pid}/statm").split(maxsplit=2)[1]) * PAGE
    except (OSError, IndexError):
        return 0


def swapped_bytes(pid: int, root: Path = Path("/")) -> int:
    """Memory of one process that lies on swap; 0 once it is gone."""
    try:
        lines = kernel_lines(root / f"proc/{pid}/status")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSwap:")), 0)


def mapped_bytes(pid: int) -> tuple[int, int]:
    """What only a walk through a process's page tables tells, from one such walk; 0 once the process is gone.

    Returns
    -------
    tuple of int, bytes
        Proportional set size, shared pages divided by their sharers; and what lies in transparent huge pages.
    """
    sums = {"Pss:": 0, "AnonHugePages:": 0}
    try:
        for line in kernel_lines(Path(f"/proc/{pid}/smaps_rollup")):
            name, *words = line.split()
            if name in sums:
                sums[name] = int(words[0]) * 1024
    except OSError:
        pass
    return sums["Pss:"], sums["AnonHugePages:"]


def cpu_times_s(pid: int) -> tuple[float, float]:
    """User and system time of one process or kernel thread so far; 0 when there is none."""
    status = _status(pid)
    return (int(status[11]) / TICKS_PER_S, int(status[12]) / TICKS_PER_S) if status else (0.0, 0.0)


def start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; with its number it names one process. None if there is none."""
    status = _status(pid)
    return int(status[19]) if status else None


def uids(pid: int) -> list[int]:
    """Real, effective, saved and file-system user id of a process; none of one that is gone."""
    try:
        lines = kernel_lines(Path(f"/proc/{pid}/status"))
    except OSError:
        return []
    return next((list(map(int, line.split()[1:])) for line in lines if line.startswith("Uid:")), [])


def vmstat(names: Collection[str]) -> dict[str, int]:
    """Some of the machine's counters since boot; one that this kernel does not have is absent."""
    pairs = (line.split() for line in kernel_lines(Path("/proc/vmstat")))
    return {name: int(value) for name, value in pairs if name in names}


def oom_kills() -> int:
    """How many processes the kernel has killed since boot because memory ran out."""
    return vmstat(("oom_kill",)).get("oom_kill", 0)


def pressure_us(path: str | Path) -> dict[str, int]:
    """Total microseconds of ``some`` and ``full`` memory pressure; empty where PSI is off."""
    try:
        lines = kernel_lines(path)
    except OSError:
        return {}
    return {line.split()[0]: int(line.rsplit("total=", 1)[1]) for line in lines}


def pressure_averages(path: Path) -> dict[str, float]:
    """Shares of the time, 0 to 1, of ``some`` pressure by the length of the average: ``avg10``, ``avg60``, ``avg300``.

    Empty where PSI is off.
    """
    try:
        words = kernel_lines(path)[0].split()[1:]
    except (OSError, IndexError):
        return {}
    return {name: float(value) / 100 for name, value in (word.split("=") for word in words) if name != "total"}


def flushes_tlb() -> bool:
    """Whether the kernel flushes TLB entries often enough for accessed bits to be true under software emulation."""
    patch = Path("/sys/module/damon/parameters/flush_tlb")
    if patch.exists() and kernel_text(patch).strip() == "Y":
        return True
    return isolates_page_tables()


def isolates_page_tables() -> bool:
    """Whether user space has page tables of its own.

    arm64 names it among its mitigations, but not where the CPU would not need it; then only the kernel's log tells.
    """
    if os.uname().machine != "aarch64":
        return "pti" in cpu_flags()
    with contextlib.suppress(OSError):
        if "PTI" in kernel_text(Path("/sys/devices/system/cpu/vulnerabilities/meltdown")):
            return True
    return any("detected: Kernel page table isolation" in line for line in _log())


def _log() -> list[str]:
    """Lines of the kernel's log; none where it may not be read."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    lines = []
    try:
        while True:
            lines.append(os.read(log, 8192).decode(errors="replace"))
    except OSError:  # EAGAIN at its end; EPIPE where it was overwritten meanwhile
        return lines
    finally:
        os.close(log)


def emulated() -> bool:
    """Whether the CPU is one that QEMU emulates in software, by what it calls itself."""
    if os.uname().machine == "aarch64":
        return int(_of_first_cpu("CPU implementer") or "1", 16) == 0  # reserved for software by Arm
    return "TCG" in cpu_model()


def cpu_flags() -> list[str]:
    """What the kernel says of the first CPU and of what it does about it."""
    return _of_first_cpu("flags").split()


def cpu_model() -> str:
    """Name that the first CPU gives itself; an emulator's says so ("QEMU TCG CPU version 2.5+")."""
    return _of_first_cpu("model name")


def _of_first_cpu(key: str) -> str:
    for line in kernel_lines(Path("/proc/cpuinfo")):
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return ""


def used_bytes() -> int:
    """Memory of the machine that new programs could not have."""
    words = kernel_text("/proc/meminfo").split(maxsplit=8)  # MemTotal, MemFree and MemAvailable stand first
    return (int(words[1]) - int(words[7])) * 1024


def meminfo(root: Path = Path("/")) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    pairs = (line.split(":") for line in kernel_lines(root / "proc/meminfo"))
    return {name: int(rest.split()[0]) * (1024 if rest.endswith("kB") else 1) for name, rest in pairs}
