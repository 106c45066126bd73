"""The page cache of a file, moved to another memory node from user space.

A file's pages that nobody has mapped can be moved by whoever maps them: mbind(2) with MPOL_MF_MOVE moves pages that one
process alone has in its page tables. Only what is in the cache is mapped, so nothing is read from the disk.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator

from damoos.agent import memory_policy
from damoos.agent.proc import PAGE

_MADV_POPULATE_READ = 22  # Linux 5.14
# What is mapped at a time, so that a file of any size takes little of the agent's memory.
WINDOW_BYTES = 1 << 30
_FAILED = ctypes.c_void_p(-1).value


def move(fd: int, nodes: list[int]) -> int:
    """Move what is cached of a file to some nodes, as far as that can be done.

    Parameters
    ----------
    fd : int
        The file, open to read.

    Returns
    -------
    int, bytes
        What was in the cache and mapped to be moved; pages that were on these nodes already are among it.
    """
    sz_bytes = -(-os.fstat(fd).st_size // PAGE) * PAGE
    return sum(_move(fd, at, min(WINDOW_BYTES, sz_bytes - at), nodes) for at in range(0, sz_bytes, WINDOW_BYTES))


def _move(fd: int, offset: int, sz_bytes: int, nodes: list[int]) -> int:
    """Move what is cached of one part of the file."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    start = libc.mmap(None, sz_bytes, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
    if start == _FAILED:
        return 0
    try:
        cached = (ctypes.c_ubyte * (sz_bytes // PAGE))()
        if libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(sz_bytes), cached) != 0:
            return 0
        taken = 0
        for first, last in _spans(bytes(cached)):
            at, length = start + first * PAGE, (last - first) * PAGE
            if libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(length), _MADV_POPULATE_READ) != 0:
                continue  # it has left the cache meanwhile
            if memory_policy.move(at, length, nodes):
                taken += length
        return taken
    finally:
        libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(sz_bytes))


def _spans(cached: bytes) -> Iterator[tuple[int, int]]:
    """First and last page, the last one excluded, of each part that is in the cache."""
    first = None
    for page, flags in enumerate(cached):
        if flags & 1 and first is None:
            first = page
        elif not flags & 1 and first is not None:
            yield first, page
            first = None
    if first is not None:
        yield first, len(cached)
