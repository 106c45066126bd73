"""The memory of a running process, page by page: what is there, what is swapped out, and bringing it back."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from damoos.agent.proc import PAGE

_SWAPPED = 1 << 62
_ENTRIES = 1 << 16  # of /proc/PID/pagemap, read at once
BLOCK = 256 * PAGE
# The highest bits of as many entries as a block has: one for each page that is present.
_PRESENT = int.from_bytes((b"\0" * 7 + b"\x80") * (BLOCK // PAGE), "little")


def resident_blocks(pid: int) -> list[tuple[int, int]]:
    """Where a process has memory: the addresses of blocks of 1 MiB, and how many of their pages are present.

    Empty blocks are left out, and so is everything of a process that has ended.
    """
    found: dict[int, int] = {}
    try:
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                start, end = (int(word, 16) for word in line.split()[0].split("-"))
                for at in range(start - start % BLOCK, end, _ENTRIES * PAGE):
                    _count(pagemap.fileno(), max(at, start), min(end, at + _ENTRIES * PAGE), found)
    except (FileNotFoundError, ProcessLookupError):
        return []
    return sorted(found.items())


def _count(pagemap: int, start: int, end: int, found: dict[int, int]) -> None:
    """Add the present pages of a range that crosses no border of `_ENTRIES`."""
    with contextlib.suppress(OSError, OverflowError):
        entries = os.pread(pagemap, 8 * ((end - start) // PAGE), start // PAGE * 8)
        for at in range(start - start % BLOCK, end, BLOCK):
            part = entries[max(0, 8 * ((at - start) // PAGE)) : 8 * ((at + BLOCK - start) // PAGE)]
            if count := (int.from_bytes(part, "little") & _PRESENT).bit_count():
                found[at] = found.get(at, 0) + count


def bring_back(pid: int) -> int:
    """Bring a process's swapped pages back into memory, by reading a byte of each; returns how many there were.

    Reading through ``/proc/PID/mem`` makes the kernel fault the page in for the process, as an access of its own would.
    """
    brought = 0
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for address in _swapped(pid):
                with contextlib.suppress(OSError, ValueError):  # unmapped since, or [vsyscall]
                    os.pread(memory.fileno(), 1, address)
                    brought += 1
    except FileNotFoundError:
        pass  # the process has ended
    return brought


def _swapped(pid: int) -> Iterator[int]:
    """Addresses of swapped pages."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            for at in range(start, end, _ENTRIES * PAGE):
                count = min(_ENTRIES, (end - at) // PAGE)
                with contextlib.suppress(OSError, OverflowError):
                    entries = os.pread(pagemap.fileno(), 8 * count, at // PAGE * 8)
                    for nth, (entry,) in enumerate(struct.iter_unpack("=Q", entries)):
                        if entry & _SWAPPED:
                            yield at + nth * PAGE
