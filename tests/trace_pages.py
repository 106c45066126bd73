"""Pages of the kernel's ring buffer, written as the kernel would write them (include/linux/ring_buffer.h)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

PAGE, HEAD = 4096, 16
ID = 123
FORM = f"""name: damon_aggregated
ID: {ID}
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long target_id;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_regions;\toffset:16;\tsize:4;\tsigned:0;
\tfield:unsigned long start;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long end;\toffset:32;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_accesses;\toffset:40;\tsize:4;\tsigned:0;
\tfield:unsigned int age;\toffset:44;\tsize:4;\tsigned:0;

print fmt: "target_id=%lu nr_regions=%u %lu-%lu: %u %u", REC->target_id, REC->nr_regions, REC->start, REC->end
"""
PAGE_FORM = (
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n"
)
PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
MISSED = 1 << 31
Region = tuple[int, int, int, int, int, int]  # target_id, nr_regions, start, end, nr_accesses, age


def payload(region: Region, number: int = ID) -> bytes:
    """What the trace event holds, its common fields first."""
    target, count, start, end, accesses, age = region
    return struct.pack("<HBBiQI4xQQII", number, 1, 0, 4711, target, count, start, end, accesses, age)


def head(kind: int, delta_ns: int) -> bytes:
    assert 0 <= delta_ns < 1 << 27
    return struct.pack("<I", delta_ns << 5 | kind)


def event(data: bytes, delta_ns: int = 0, long: bool = False) -> bytes:
    """An event with its length in the header (up to 28 words), or in a word of its own."""
    data += b"\0" * (-len(data) % 4)
    if long or len(data) > 4 * 28:
        return head(0, delta_ns) + struct.pack("<I", len(data) + 4) + data
    return head(len(data) // 4, delta_ns) + data


def extend(ns: int) -> bytes:
    """Time that passes, more than an event's own 27 bits hold."""
    return head(TIME_EXTEND, ns & (1 << 27) - 1) + struct.pack("<I", ns >> 27)


def stamp(ns: int) -> bytes:
    """The time of day; only its lower 59 bits fit."""
    return head(TIME_STAMP, ns & (1 << 27) - 1) + struct.pack("<I", ns >> 27 & 0xFFFFFFFF)


def page(begin_ns: int, *parts: bytes, cpu: int = 0, flags: int = 0, rest: bytes = b"", size: int = PAGE) -> bytes:
    """A page behind its CPU's number; ``rest`` lies behind what the kernel has committed."""
    data = b"".join(parts)
    assert len(data) <= size - HEAD
    whole = struct.pack("<QQ", begin_ns, len(data) | flags) + data + rest
    return struct.pack("<H", cpu) + whole.ljust(size, b"\0")


def pages(timed: Sequence[tuple[int, Region]], cpu: int = 0, long: bool = False) -> bytes:
    """Regions at their times (ns, rising), on as many pages as it takes."""
    found, parts, begin, now = [], [], 0, 0
    for ns, region in timed:
        if not parts or sum(map(len, parts)) > PAGE - HEAD - 80:
            found += [page(begin, *parts, cpu=cpu)] if parts else []
            parts, begin, now = [], ns, ns
        if ns - now >= 1 << 27:
            parts.append(extend(ns - now))
            now = ns
        parts.append(event(payload(region), ns - now, long))
        now = ns
    return b"".join([*found, page(begin, *parts, cpu=cpu)] if parts else found)
