"""Counts of accesses by memory node, which the emulator makes of a guest that it runs, and lays into its memory.

The layout is that of damoos/machines/guest/plugin/access_counter.c.
"""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress
from functools import cache
from pathlib import Path

from damoos.damon.files import kernel_text

DEVICES = Path("/sys/bus/pci/devices")
# A word of the kernel's command line, so that no device of anybody else's is touched.
COUNTED = "damoos.count_accesses"
_CMDLINE = Path("/proc/cmdline")
_ID = ("0x1af4", "0x1110")  # QEMU's ivshmem
_MAGIC, _VERSION = 0x31434341534F4D44, 1
_HEAD = struct.Struct("<8Q")
_WANTED_AT = 64
_MOST_NODES = 8
_OF_A_CPU = struct.Struct("<24Q")
_COUNT, _COUNT_PAGES, _PAGES_OF_USERS = 1, 2, 8


class AccessCounts:
    """The counts of this machine; they stand still until `start`."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        if len(memory) < _HEAD.size:
            raise ValueError("too small")
        magic, version, self._nodes, self._cpus, self._at, self._pages_at, *_ = _HEAD.unpack_from(memory)
        if (magic, version) != (_MAGIC, _VERSION):
            raise ValueError("this device's memory holds no counts of accesses")

    @property
    def is_on(self) -> bool:
        """Whether accesses are counted now."""
        return bool(struct.unpack_from("<Q", self._memory, _WANTED_AT)[0])

    def start(self, by_page: bool = False, of_programs: bool = True) -> None:
        """Count from now on; by page as well if it is asked for, those of programs or those of the kernel, too."""
        if by_page:
            self.pages()
        of_pages = _COUNT_PAGES | (_PAGES_OF_USERS if of_programs else 0)
        self._want(_COUNT | (of_pages if by_page else 0))

    def stop(self) -> None:
        """Count no more; the guest is faster then."""
        self._want(0)

    def _want(self, what: int) -> None:
        struct.pack_into("<Q", self._memory, _WANTED_AT, what)

    def pages(self) -> bytes:
        """Accesses to each page of the machine's memory since the last time, 32 bits each, by the page's number."""
        counts = self._memory[self._pages_at :]
        self._memory[self._pages_at :] = bytes(len(counts))
        return counts

    def read(self) -> dict[str, int]:
        """Accesses by node, and those that the modelled cache did not hold: ``accesses_n0``, ``misses_n0`` …

        Empty while nothing is counted, as in windows of a process that runs already.
        """
        if not self.is_on:
            return {}
        sums = [0] * (2 * _MOST_NODES)
        for cpu in range(self._cpus):
            numbers = _OF_A_CPU.unpack_from(self._memory, self._at + cpu * _OF_A_CPU.size)
            sums = [one + more for one, more in zip(sums, numbers)]
        accesses, misses = sums[:_MOST_NODES], sums[_MOST_NODES:]
        return {f"accesses_n{node}": accesses[node] for node in range(self._nodes)} | {
            f"misses_n{node}": misses[node] for node in range(self._nodes)
        }


@cache
def access_counts(devices: Path = DEVICES, cmdline: Path = _CMDLINE) -> AccessCounts | None:
    """The counts of this machine; None where nobody counts."""
    if COUNTED not in kernel_text(cmdline).split():
        return None
    for device in sorted(devices.glob("*")):
        with suppress(OSError, ValueError):
            if tuple(kernel_text(device / name).strip() for name in ("vendor", "device")) == _ID:
                return AccessCounts(_mapped(device))
    return None


def _mapped(device: Path) -> mmap.mmap:
    (device / "enable").write_text("1")
    number = os.open(device / "resource2", os.O_RDWR)
    try:
        return mmap.mmap(number, os.fstat(number).st_size)
    finally:
        os.close(number)
