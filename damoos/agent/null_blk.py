"""Block devices in memory that take as long as they are told to: the kernel's null_blk, made through configfs.

References
----------
Documentation/block/null_blk.rst; drivers/block/null_blk/main.c
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from damoos.agent.undo import CONFIGFS, NULL_BLK, UndoLog
from damoos.damon.files import write
from damoos.errors import UnsupportedError

_BY_TIMER = 2  # irqmode: a request is completed by a timer, completion_nsec after it was issued


def add(sz_bytes: int, latency_us: int, log: UndoLog) -> str:
    """Make a device of our own; those of others are not touched.

    Parameters
    ----------
    sz_bytes : int, bytes
        Its size, rounded down to whole MiB. What is written to it lies in this machine's memory.
    latency_us : int, microseconds
        Time that each request takes, reads and writes alike.
    log : UndoLog

    Returns
    -------
    str : the device's path

    Raises
    ------
    UnsupportedError : the kernel has no null_blk
    """
    devices = Path("/") / NULL_BLK
    if not devices.exists():
        _mount_configfs(log)
    if not devices.exists():
        raise UnsupportedError("this machine has no null_blk (module null_blk), which swap of kind 'null_blk' needs")
    name = f"damoos-{os.getpid()}"
    log.record("null_blk", name=name)
    folder = devices / name
    folder.mkdir()
    settings = {
        "size": sz_bytes >> 20,
        "blocksize": 4096,
        "memory_backed": 1,
        "irqmode": _BY_TIMER,
        "completion_nsec": latency_us * 1000,
    }
    for key, value in settings.items():
        write(folder / key, value)
    write(folder / "power", 1)
    return f"/dev/{name}"


def _mount_configfs(log: UndoLog) -> None:
    """Mount configfs at its usual place, if the kernel has it and nobody has mounted it."""
    where = Path("/") / CONFIGFS
    if not where.is_dir() or os.path.ismount(where):
        return
    log.record("mount", path=str(where))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"configfs", str(where).encode(), b"configfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {where}")
