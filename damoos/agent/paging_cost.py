"""What it costs here to page memory out and to fault it back, measured on a little memory of the agent's own."""

from __future__ import annotations

import mmap
import os
import statistics
import time
from typing import Any

from damoos.agent import proc
from damoos.errors import UnsupportedError

SZ_BYTES = 16 << 20
ROUNDS = 3
_MADV_PAGEOUT = 21  # since Linux 5.4; Python's mmap does not name it


def swap_cost() -> dict[str, Any]:
    """Microseconds per page of 4 KiB, medians of a few rounds.

    A quarter of the memory is random and the rest zero, so that a compressed swap device has as much to do as with most
    programs' memory, of which it keeps about a third.

    Returns
    -------
    dict
        ``pageout_us``, ``fault_us``, ``rounds`` (of each, a list of both).

    Raises
    ------
    UnsupportedError : there is no swap, so nothing leaves memory
    """
    pages = SZ_BYTES // proc.PAGE
    rounds = []
    with mmap.mmap(-1, SZ_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, SZ_BYTES, proc.PAGE):
            memory[at : at + proc.PAGE // 4] = os.urandom(proc.PAGE // 4)
        for _ in range(ROUNDS):
            plain_s = _touch(memory)
            resident = proc.rss_bytes(os.getpid())
            begun = time.monotonic()
            memory.madvise(_MADV_PAGEOUT)
            out_s = time.monotonic() - begun
            gone = resident - proc.rss_bytes(os.getpid())
            if gone < SZ_BYTES // 2:
                raise UnsupportedError(
                    "this machine cannot page out (no swap?), so the cost of a page fault cannot be measured"
                )
            fault_s = max(0.0, _touch(memory) - plain_s)
            share = SZ_BYTES / gone / pages * 1e6
            rounds.append((out_s * share, fault_s * share))
    return {
        "pageout_us": statistics.median(out for out, _ in rounds),
        "fault_us": statistics.median(fault for _, fault in rounds),
        "rounds": rounds,
    }


def _touch(memory: mmap.mmap) -> float:
    """Read a byte of each page; returns the seconds that it took."""
    begun = time.monotonic()
    for at in range(0, SZ_BYTES, proc.PAGE):
        memory[at]
    return time.monotonic() - begun
