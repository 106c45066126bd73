"""Memory on which DAMON is tried: that of a small process of the agent's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import PAGESIZE

_PROGRAM = """
import ctypes, mmap, sys, time
sz_bytes, accessed_bytes, page_bytes = map(int, sys.argv[1:])
memory = mmap.mmap(-1, sz_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if accessed_bytes:  # a huge page has one accessed bit for all of its pages
    memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, sz_bytes, page_bytes):
    memory[at : at + 8] = at.to_bytes(8, "little")
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
while accessed_bytes:
    memory[:accessed_bytes:page_bytes]
    time.sleep(0.001)
sys.stdin.read()
"""


@contextmanager
def held_memory(sz_bytes: int, accessed_bytes: int = 0) -> Iterator[tuple[int, int]]:
    """A process that holds memory, in pages that differ: its pid, and the address of the memory.

    Parameters
    ----------
    sz_bytes : int
    accessed_bytes : int
        Of so much, from the start on, every page is accessed each millisecond; the rest is idle. In between, the
        process waits: what an emulated CPU computes costs its host.
    """
    argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(sz_bytes), str(accessed_bytes), str(PAGESIZE)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            yield child.pid, int(child.stdout.readline())
        finally:
            child.kill()
