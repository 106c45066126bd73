"""The machine as the experiment wants it: swap device, transparent huge pages and the like; every change is undone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from damoos.agent import huge_pages, null_blk
from damoos.agent.folders import SWAP_PREFIX
from damoos.agent.private import data_folder
from damoos.agent.proc import PAGE
from damoos.agent.swap import SWAP_MAGIC, ZSWAP, Swap, make_swap, swapon, used_bytes
from damoos.agent.undo import UndoLog
from damoos.damon.files import kernel_text, write
from damoos.errors import UnsupportedError

_ZSWAP = Path("/") / ZSWAP


def prepare(wanted: dict[str, Any], log: UndoLog) -> Swap | None:
    """Set the machine up for a series of runs; returns its swap device.

    Parameters
    ----------
    wanted : dict
        ``thp`` (a THP mode), ``swappiness`` (int), ``aslr`` (bool), ``numa_balancing`` (a mode), ``demotion`` (bool),
        ``promote_mib_per_s`` and ``zone_reclaim`` (int), ``swap`` (``kind``: zram, zswap, file, disk or
        null_blk; ``sz_bytes``, ``algorithm``, ``device``, ``latency_us``); a key that is absent leaves that part of the
        machine as it is.
    """
    if "thp" in wanted and huge_pages.usable():
        huge_pages.set_mode(wanted["thp"], log)
    if "swappiness" in wanted:
        log.set_file(Path("/proc/sys/vm/swappiness"), wanted["swappiness"])
    if "aslr" in wanted:
        set_aslr(wanted["aslr"], log)
    for name, (file, needs) in _TIERS.items():
        if name in wanted:
            _set_tiers(file, needs, int(wanted[name]), log)
    swap = wanted.get("swap")
    return _SWAPS[swap["kind"]](swap, log) if swap else None


# What there is to say of memory nodes: the kernel's file, and what a kernel without it lacks.
_TIERS = {
    "numa_balancing": (Path("/proc/sys/kernel/numa_balancing"), "CONFIG_NUMA_BALANCING"),
    "promote_mib_per_s": (
        Path("/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"),
        "CONFIG_NUMA_BALANCING (Linux 6.1 and later)",
    ),
    "demotion": (
        Path("/sys/kernel/mm/numa/demotion_enabled"),
        "CONFIG_NUMA and CONFIG_MIGRATION (Linux 5.15 and later)",
    ),
    "zone_reclaim": (Path("/proc/sys/vm/zone_reclaim_mode"), "CONFIG_NUMA"),
}


def _set_tiers(file: Path, needs: str, value: int, log: UndoLog) -> None:
    if not file.exists():
        raise UnsupportedError(f"this kernel has no {file}: it was built without {needs}")
    log.set_file(file, value)


def set_aslr(is_on: bool, log: UndoLog) -> None:
    """Whether addresses of programs that start from now on are random."""
    log.set_file(Path("/proc/sys/kernel/randomize_va_space"), 2 if is_on else 0)


def _add_zram(swap: dict[str, Any], log: UndoLog) -> Swap:
    """Add a zram device of our own and swap to it; devices of others are not touched."""
    control = Path("/sys/class/zram-control/hot_add")
    if not control.exists():
        raise UnsupportedError("this machine has no zram (module zram), which the swap device of the study needs")
    number = int(kernel_text(control))
    log.record("zram", id=number)
    device = f"/dev/zram{number}"
    where = Path(f"/sys/block/zram{number}")
    write(where / "comp_algorithm", swap["algorithm"])
    write(where / "disksize", swap["sz_bytes"])
    make_swap(device, swap["sz_bytes"])
    swapon(device)
    return Swap(device)


def _add_file(swap: dict[str, Any], log: UndoLog) -> Swap:
    """Swap to a file of our own."""
    path = data_folder() / f"{SWAP_PREFIX}{os.getpid()}"
    log.record("swap_file", path=str(path))
    # The folder is private. A file that is there all the same would be written over, or read by who made it.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        os.posix_fallocate(file.fileno(), 0, swap["sz_bytes"])
    make_swap(str(path), swap["sz_bytes"])
    swapon(str(path))
    return Swap(str(path))


def _add_zswap(swap: dict[str, Any], log: UndoLog) -> Swap:
    """A swap file of our own behind the kernel's compressed cache."""
    if not _ZSWAP.exists():
        raise UnsupportedError("this kernel has no zswap; the guest kernel 'damoos' does")
    log.set_file(_ZSWAP / "compressor", swap["algorithm"])
    log.set_file(_ZSWAP / "enabled", "Y")
    return _add_file(swap, log)


def _add_disk(swap: dict[str, Any], log: UndoLog) -> Swap:
    """Swap to a partition that its owner has made for it; nothing is written over."""
    device = swap["device"]
    try:
        with open(device, "rb") as disk:
            signature = disk.read(PAGE)[-len(SWAP_MAGIC) :]
    except OSError as error:
        raise UnsupportedError(f"swap device {device}: {error.strerror}") from None
    if signature != SWAP_MAGIC:
        raise UnsupportedError(f"swap device {device} was not made for swap: run 'mkswap {device}' if it may be erased")
    if device in used_bytes():
        raise UnsupportedError(
            f"swap device {device} is in use already; leave [swap] out to use the machine's own swap"
        )
    log.record("swap", device=device)
    swapon(device)
    return Swap(device)


def _add_null_blk(swap: dict[str, Any], log: UndoLog) -> Swap:
    """Swap to a device in memory whose requests take a given time."""
    device = null_blk.add(swap["sz_bytes"], swap["latency_us"], log)
    make_swap(device, swap["sz_bytes"])
    swapon(device)
    return Swap(device)


_SWAPS = {
    "zram": _add_zram,
    "zswap": _add_zswap,
    "file": _add_file,
    "disk": _add_disk,
    "null_blk": _add_null_blk,
}


def drop_caches() -> None:
    """Write dirty pages back and drop the page cache, so that every run starts with the same one."""
    os.sync()
    write(Path("/proc/sys/vm/drop_caches"), 3)
