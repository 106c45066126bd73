"""The machine as the experiment wants it: swap device, transparent huge pages; every change is undone."""

from __future__ import annotations

import ctypes
import os
import struct
import uuid
from pathlib import Path
from typing import Any

from damoos.agent.proc import PAGE
from damoos.agent.undo import UndoLog
from damoos.damon.files import write
from damoos.errors import UnsupportedError, nearest

THP_MODES = ("always", "madvise", "never")


def prepare(wanted: dict[str, Any], log: UndoLog) -> dict[str, Any]:
    """Set the machine up for a series of runs.

    Parameters
    ----------
    wanted : dict
        ``thp`` (a THP mode), ``swap`` (``{"kind": "zram", "sz_bytes": n, "algorithm": name}``); a key that
        is absent leaves that part of the machine as it is.
    """
    if "thp" in wanted:
        _set_thp(wanted["thp"], log)
    swap = wanted.get("swap")
    zram = _add_zram(swap["sz_bytes"], swap["algorithm"], log) if swap else None
    return {"zram": zram}


def _set_thp(mode: str, log: UndoLog) -> None:
    if mode not in THP_MODES:
        raise UnsupportedError(f"no THP mode '{mode}'{nearest(mode, THP_MODES)}")
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if path.exists():
        log.set_file(path, mode)


def _add_zram(sz_bytes: int, algorithm: str, log: UndoLog) -> str:
    """Add a zram device of our own and swap to it; devices of others are not touched."""
    control = Path("/sys/class/zram-control/hot_add")
    if not control.exists():
        raise UnsupportedError("this machine has no zram (module zram), which the swap device of the study needs")
    number = int(control.read_text())
    log.record("zram", id=number)
    device = f"/dev/zram{number}"
    where = Path(f"/sys/block/zram{number}")
    write(where / "comp_algorithm", algorithm)
    write(where / "disksize", sz_bytes)
    _make_swap(device, sz_bytes)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.swapon(device.encode(), 0) != 0:
        raise OSError(ctypes.get_errno(), f"swapon {device}")
    return f"zram{number}"


def _make_swap(device: str, sz_bytes: int) -> None:
    """Write a swap header (version 1), as mkswap does; saves a dependency on the target."""
    header = bytearray(PAGE)
    struct.pack_into("<III", header, 1024, 1, sz_bytes // PAGE - 1, 0)
    header[1036:1052] = uuid.uuid4().bytes
    header[PAGE - 10 :] = b"SWAPSPACE2"
    with open(device, "r+b") as disk:
        disk.write(header)
        disk.flush()
        os.fsync(disk.fileno())


def drop_caches() -> None:
    """Write dirty pages back and drop the page cache, so that every run starts with the same one."""
    os.sync()
    write(Path("/proc/sys/vm/drop_caches"), 3)


def zram_used_bytes(device: str | None) -> int:
    """Memory that a zram device takes for what was swapped to it, its own overhead included."""
    if device is None:
        return 0
    return int(Path(f"/sys/block/{device}/mm_stat").read_text().split()[2])
