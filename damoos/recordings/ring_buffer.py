"""DAMON's trace events as the kernel keeps them, in the pages of its ring buffer, made into a recording's columns.

References
----------
kernel/trace/ring_buffer.c, include/linux/ring_buffer.h (ring_buffer_event); include/trace/events/damon.h
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from damoos.errors import MeasurementError

# Types of an event's header: up to 28 its length in words, then these.
_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31
_FIELDS = ("common_type", "target_id", "nr_regions", "start", "end", "nr_accesses", "age")
Rows = NDArray[np.void]
MOST_EVENT_BYTES = 4096
_SIZES = (2, 4, 8)
_TIME = (1 << 64) - 1


@dataclass(frozen=True)
class Snapshots:
    """Whole snapshots among events, in their order.

    Parameters
    ----------
    end_s : ndarray of shape (n,), seconds
    target : ndarray of shape (n,)
        As the kernel tells it: a number, or an address.
    first, stop : ndarray of shape (n,)
        The first row of each, and the row behind its last.
    """

    end_s: NDArray[np.float64]
    target: NDArray[np.uint64]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]


def dtype_of(form: str) -> np.dtype[np.void]:
    """How an event's fields lie in memory, by what ``events/damon/damon_aggregated/format`` says."""
    fields = {}
    for words, offset, size in re.findall(r"field:([^;\n]{1,200});\s*offset:(\d+);\s*size:(\d+);", form):
        fields[words.split()[-1]] = int(offset), int(size)
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise MeasurementError(f"the kernel's event damon_aggregated has no field '{missing[0]}'")
    _check({name: fields[name] for name in _FIELDS})
    return np.dtype(
        {
            "names": list(_FIELDS),
            "formats": [f"<u{fields[name][1]}" for name in _FIELDS],
            "offsets": [fields[name][0] for name in _FIELDS],
            "itemsize": max(offset + size for offset, size in fields.values()),
        }
    )


def _check(fields: Mapping[str, tuple[int, int]]) -> None:
    """Refuse fields that no event can have: each has a place of its own, on the page."""
    at = 0
    for name, (offset, size) in sorted(fields.items(), key=lambda field: field[1]):
        if size not in _SIZES or offset < at or offset + size > MOST_EVENT_BYTES:
            raise MeasurementError(f"the kernel's event damon_aggregated has its field '{name}' where none can be")
        at = offset + size


def event_id(form: str) -> int:
    """The number that the kernel gave the event."""
    match = re.search(r"^ID: (\d+)$", form, re.MULTILINE)
    if not match:
        raise MeasurementError("the kernel's event damon_aggregated has no ID")
    return int(match[1])


def events(chunks: Iterable[bytes], form: str, page_form: str, page_bytes: int) -> tuple[NDArray[np.float64], Rows]:
    """Times (seconds) and fields of all events, in the order in which they happened.

    Parameters
    ----------
    chunks : iterable of bytes
        Whole pages, each after the number of its CPU (two bytes).
    form, page_form : str
        The kernel's ``format`` of the event and ``header_page`` of its pages.
    page_bytes : int
        Size of a page on the machine.

    Raises
    ------
    MeasurementError : a format is none of the kernel's
    """
    dtype, number = dtype_of(form), event_id(form)
    commit_at, data_at = _places(page_form, page_bytes)
    times, payloads = array("Q"), bytearray()  # compact, for there are millions
    for chunk in chunks:
        for at in range(0, len(chunk) - page_bytes - 1, page_bytes + 2):
            for time_ns, payload in _events_of(chunk[at + 2 : at + 2 + page_bytes], commit_at, data_at):
                if len(payload) >= dtype.itemsize and payload[0] | payload[1] << 8 == number:
                    times.append(time_ns & _TIME)
                    payloads += payload[: dtype.itemsize]
    rows = np.frombuffer(payloads, dtype=dtype)
    seconds = np.frombuffer(times, dtype=np.uint64) / 1e9
    order = np.argsort(seconds, kind="stable")  # the kdamond may have changed its CPU
    return seconds[order], rows[order]


def _places(page_form: str, page_bytes: int) -> tuple[int, int]:
    """Where a page says how much of it is in use, and where its events begin."""
    fields = {
        name: int(at) for name, at in re.findall(r"field:\s*[\w ]{1,200}? (\w{1,200});\s*offset:(\d+);", page_form)
    }
    if not {"commit", "data"} <= set(fields) or max(fields["commit"] + 8, fields["data"]) > page_bytes:
        raise MeasurementError("the kernel's header_page has an unknown format")
    return fields["commit"], fields["data"]


def _events_of(page: bytes, commit_at: int, data_at: int) -> Iterator[tuple[int, bytes]]:
    """Time (ns) and payload of each event of a page."""
    (now,) = struct.unpack_from("<Q", page)
    (commit,) = struct.unpack_from("<Q", page, commit_at)
    at, end = data_at, min(len(page), data_at + (commit & 0xFFFFF))  # the bits above say that events were lost
    while at + 4 <= end:
        (head,) = struct.unpack_from("<I", page, at)
        kind, delta = head & 31, head >> 5
        at += 4
        if kind == _PADDING and delta == 0:
            return
        if kind > 28:
            if at + 4 > end:
                return
            (word,) = struct.unpack_from("<I", page, at)
            if kind == _PADDING:
                at += word  # its length counts from the word that holds it
                now += delta
            else:
                long = (word << 27) + delta
                now = long | now & 31 << 59 if kind == _TIME_STAMP else now + long
                at += 4
            continue
        now += delta
        if kind == 0:  # the length is in the next word, and counts it
            if at + 4 > end:
                return
            (length,) = struct.unpack_from("<I", page, at)
            yield now, page[at + 4 : at + length]
        else:
            length = 4 * kind
            yield now, page[at : at + length]
        at += length


def snapshots(seconds: NDArray[np.float64], rows: Rows) -> Snapshots:
    """Whole snapshots among the events; one of which the kernel lost an event is left out."""
    targets, counts, starts = (
        array("Q", rows[name].astype("<u8").tobytes()) for name in ("target_id", "nr_regions", "start")
    )
    firsts, stops, at = array("q"), array("q"), 0
    while at < len(targets):
        target, count = targets[at], counts[at]
        stop = at + 1
        # Regions of one snapshot come one after the other, by rising address.
        while stop < min(len(targets), at + count) and targets[stop] == target and counts[stop] == count:
            if starts[stop] < starts[stop - 1]:
                break
            stop += 1
        if stop - at == count:
            firsts.append(at)
            stops.append(stop)
        at = stop
    first, stop_ = np.array(firsts, dtype=np.int64), np.array(stops, dtype=np.int64)
    return Snapshots(seconds[stop_ - 1], rows["target_id"][first].astype(np.uint64), first, stop_)
