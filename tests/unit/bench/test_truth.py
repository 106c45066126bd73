"""A recording of physical memory beside a count of every access."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from damoos.bench.truth import Sink, Window, compared, text
from damoos.damon.attrs import Attrs
from damoos.errors import UnsupportedError
from damoos.recordings.journal import Journal
from tests.records import recording

PAGE = 4096
# Pages 0 to 3 were accessed in the first half second, 2 to 7 in the second one.
SEEN = recording(
    (10.0, 10.5, [(0, 4 * PAGE, 3, 0), (4 * PAGE, 8 * PAGE, 0, 2)]),
    (10.5, 11.0, [(0, 2 * PAGE, 0, 1), (2 * PAGE, 8 * PAGE, 1, 0)]),
    operations="paddr",
)


def counts(**of_pages: int) -> Any:
    pages = np.zeros(10, dtype=np.uint32)
    for page, count in of_pages.items():
        pages[int(page[1:])] = count
    return pages


def test_each_window_is_set_against_the_snapshots_in_it() -> None:
    first = Window(9.9, 10.4, counts(p0=60, p1=20, p5=20))  # of four pages called accessed two were, and one was missed
    found = compared("w", SEEN, [first])
    assert (found.windows, found.accessed_bytes, found.regions) == (1, 3 * PAGE, 2.0)
    assert (found.precision, found.recall) == (0.5, pytest.approx(2 / 3))
    assert found.accesses_seen == pytest.approx(0.8)
    assert found.wss_error == pytest.approx(1 / 3)


def test_snapshots_of_one_window_are_taken_together() -> None:
    found = compared("w", SEEN, [Window(10.0, 11.0, counts(p0=1, p7=1))])
    assert (found.precision, found.recall, found.wss_error) == (0.25, 1.0, 3.0)


def test_windows_that_hold_nothing_do_not_count() -> None:
    empty = Window(20.0, 21.0, counts(p0=1))
    assert compared("w", SEEN, [empty, Window(10.0, 11.0, counts(p0=1))]).windows == 1
    with pytest.raises(UnsupportedError, match="w: no count of accesses falls into the recording"):
        compared("w", SEEN, [empty])


def test_the_table_has_a_row_for_each_workload() -> None:
    (_, _, row) = text([compared("redis/cache", SEEN, [Window(10.0, 11.0, counts(p0=1))])])
    assert row.startswith("| `redis/cache` | 0.0 MiB | 12.5% | 100.0% | 100.0% | +700% ± 0% | 2 | 1 |")


def test_a_window_is_from_one_count_to_the_next() -> None:
    sink = Sink(Journal("paddr", Attrs()))
    for time_s, pages in ((1.0, counts(p1=5)), (1.5, counts()), (2.0, counts(p2=7))):
        data = struct.pack("=d", time_s) + pages.tobytes()
        sink({"event": "record", "pages": base64.b64encode(zlib.compress(data)).decode()})
    (only,) = sink.windows()  # in the first half second nobody has counted
    assert (only.begin_s, only.end_s, only.counts[2]) == (1.5, 2.0, 7)
