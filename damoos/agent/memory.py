"""The memory of a running process, page by page: what is there, what is swapped out, and bringing it back."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from damoos.agent import proc
from damoos.agent.proc import PAGE
from damoos.damon.files import kernel_lines, kernel_text

Ranges = list[tuple[int, int]]
"""Addresses: (start, end), end excluded."""

_CHUNK_BYTES = 1 << 20
_SWAPPED = 1 << 62
_ENTRIES = 1 << 16  # of /proc/PID/pagemap, read at once
BLOCK = 256 * PAGE
# The highest bits of as many entries as a block has: one for each page that is present.
_PRESENT = int.from_bytes((b"\0" * 7 + b"\x80") * (BLOCK // PAGE), "little")


def resident_blocks(pid: int) -> list[tuple[int, int]]:
    """Where a process has memory: the addresses of blocks of 256 pages, and how many of their pages are present.

    Empty blocks are left out, and so is everything of a process that has ended.
    """
    pages_of: dict[int, int] = {}
    try:
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
            for line in kernel_lines(Path(f"/proc/{pid}/maps")):
                start, end = (int(word, 16) for word in line.split()[0].split("-"))
                for at in range(start - start % BLOCK, end, _ENTRIES * PAGE):
                    _count(pagemap.fileno(), max(at, start), min(end, at + _ENTRIES * PAGE), pages_of)
    except (FileNotFoundError, ProcessLookupError):
        return []
    return sorted(pages_of.items())


def _count(pagemap: int, start: int, end: int, pages_of: dict[int, int]) -> None:
    """Add the present pages of a range that crosses no border of `_ENTRIES`."""
    with contextlib.suppress(OSError, OverflowError):
        entries = os.pread(pagemap, 8 * ((end - start) // PAGE), start // PAGE * 8)
        for at in range(start - start % BLOCK, end, BLOCK):
            part = entries[max(0, 8 * ((at - start) // PAGE)) : 8 * ((at + BLOCK - start) // PAGE)]
            if count := bin(int.from_bytes(part, "little") & _PRESENT).count("1"):
                pages_of[at] = pages_of.get(at, 0) + count


def page_entries(pid: int) -> list[tuple[int, bytes]]:
    """What the kernel says of each page of a process: where a range begins, and 64 bits for each of its pages.

    Ranges without any page are left out, and so is everything of a process that has ended.

    References
    ----------
    Documentation/admin-guide/mm/pagemap.rst
    """
    try:
        return [(at, entries) for at, entries in _entries(pid) if any(entries[7::8])]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _entries(pid: int) -> Iterator[tuple[int, bytes]]:
    """Where each range begins of which the kernel can be asked at once, and what it says of its pages."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for line in kernel_lines(Path(f"/proc/{pid}/maps")):
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            for at in range(start, end, _ENTRIES * PAGE):
                with contextlib.suppress(OSError, OverflowError):  # [vsyscall]
                    yield at, os.pread(pagemap.fileno(), 8 * min(_ENTRIES, (end - at) // PAGE), at // PAGE * 8)


def swapped_ranges(pid: int) -> Ranges:
    """Where a process has swapped pages, in order; nothing of one that has ended."""
    ranges: Ranges = []
    try:
        for address in _swapped(pid):
            if ranges and ranges[-1][1] == address:
                ranges[-1] = (ranges[-1][0], address + PAGE)
            else:
                ranges.append((address, address + PAGE))
    except (FileNotFoundError, ProcessLookupError):
        return []
    return ranges


def without(ranges: Ranges, spared: Ranges) -> Ranges:
    """What is left of some ranges without others; both in order. There may be many: each is looked at once."""
    left: Ranges = []
    nth = 0
    for start, end in ranges:
        while nth < len(spared) and spared[nth][1] <= start:
            nth += 1
        at = nth
        while at < len(spared) and spared[at][0] < end:
            spared_start, spared_end = spared[at]
            if start < spared_start:
                left.append((start, spared_start))
            start = spared_end
            at += 1
        if start < end:
            left.append((start, end))
    return left


def bring_back(pid: int, ranges: Ranges, room_bytes: int, interrupted: Callable[[], bool] = lambda: False) -> int:
    """Bring swapped pages of a process back into memory, by reading them; returns how many bytes were read.

    Reading through ``/proc/PID/mem`` makes the kernel fault the pages in for the process, as accesses of its own would.

    Parameters
    ----------
    pid : int
    ranges : list of (int, int)
        Addresses, in whole pages.
    room_bytes : int
        No more than this is brought back.
    interrupted : callable
        Asked again and again; what is left then stays on swap.
    """
    read_bytes, buffer = 0, bytearray(_CHUNK_BYTES)
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for start, end in ranges:
                while start < end and read_bytes < room_bytes and not interrupted():
                    size = min(end - start, _CHUNK_BYTES, -(-(room_bytes - read_bytes) // PAGE) * PAGE)
                    try:
                        done = os.preadv(memory.fileno(), [memoryview(buffer)[:size]], start)
                    except (OSError, OverflowError):
                        done = 0  # unmapped since, or [vsyscall]
                    start += max(PAGE, done // PAGE * PAGE)
                    read_bytes += done
    except FileNotFoundError:
        pass  # the process has ended
    return read_bytes


def room_bytes(group: Path | None) -> int:
    """Memory that may be filled without hurting others: what is available but for a tenth, and what cgroups leave.

    Parameters
    ----------
    group : Path or None
        The process's cgroup, whose limits count, and those of the groups that it is in.
    """
    memory = proc.meminfo()
    room = memory["MemAvailable"] - memory["MemTotal"] // 10
    while group is not None and (group / "memory.current").exists():
        for name in ("memory.high", "memory.max"):
            limit = kernel_text(group / name).strip()
            if limit != "max":
                room = min(room, int(limit) - int(kernel_text(group / "memory.current")))
        group = group.parent
    return max(0, room)


def _swapped(pid: int) -> Iterator[int]:
    """Addresses of swapped pages."""
    for at, entries in _entries(pid):
        for nth, (entry,) in enumerate(struct.iter_unpack("=Q", entries)):
            if entry & _SWAPPED:
                yield at + nth * PAGE
