"""A recording of physical memory beside a count of every access."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from damoos.agent.messages import packed
from damoos.bench.truth import SPACE, Sink, Window, compared, expected, text
from damoos.damon.attrs import Attrs
from damoos.errors import UnsupportedError
from damoos.prediction.reclaim import BLOCK_PAGES
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


def window(begin_s: float, end_s: float, **of_pages: int) -> Window:
    return Window(begin_s, end_s, np.arange(10) * PAGE, counts(**of_pages))


def test_each_window_is_set_against_the_snapshots_in_it() -> None:
    first = window(9.9, 10.4, p0=60, p1=20, p5=20)  # of four pages called accessed two were, and one was missed
    found = compared("w", SEEN, [first])
    assert (found.windows, found.accessed_bytes, found.regions) == (1, 3 * PAGE, 2.0)
    assert (found.precision, found.recall) == (0.5, pytest.approx(2 / 3))
    assert found.accesses_seen == pytest.approx(0.8)
    assert found.wss_error == pytest.approx(1 / 3)


def test_snapshots_of_one_window_are_taken_together() -> None:
    found = compared("w", SEEN, [window(10.0, 11.0, p0=1, p7=1)])
    assert (found.precision, found.recall, found.wss_error) == (0.25, 1.0, 3.0)


def test_windows_that_hold_nothing_do_not_count() -> None:
    empty = window(20.0, 21.0, p0=1)
    assert compared("w", SEEN, [empty, window(10.0, 11.0, p0=1)]).windows == 1
    with pytest.raises(UnsupportedError, match="w: no count of accesses falls into the recording"):
        compared("w", SEEN, [empty])


def test_the_table_has_a_row_for_each_workload() -> None:
    (_, _, row, *_) = text([compared("redis/cache", SEEN, [window(10.0, 11.0, p0=1)])])
    assert row.startswith("| `redis/cache` | 0.0 MiB | 12.5% | 100.0% | 100.0% | +700% ± 0% | 2 | 1 |")


def told(sink: Sink, time_s: float, pages: Any, entries: Any = ()) -> None:
    data = struct.pack("=d", time_s) + pages.tobytes()
    sink({"event": "record", "pages": packed(data), "entries": entries})


def test_a_window_is_from_one_count_to_the_next() -> None:
    sink = Sink(Journal("paddr", Attrs()))
    for time_s, pages in ((1.0, counts(p1=5)), (1.5, counts()), (2.0, counts(p2=7))):
        told(sink, time_s, pages)
    (only,) = sink.windows()  # in the first half second nobody has counted
    assert (only.begin_s, only.end_s, only.counts[2]) == (1.5, 2.0, 7)


def test_pages_of_processes_are_found_where_they_are_at_the_time() -> None:
    """The first one's second page is absent; the second process has its only page at the same address."""
    present = 1 << 63
    first, second = struct.pack("=3Q", present | 7, 3, present | 2), struct.pack("=Q", present | 5)
    entries = [[[4 * PAGE, packed(first)]], [[4 * PAGE, packed(second)]]]
    sink = Sink(Journal("vaddr", Attrs()))
    told(sink, 1.0, counts(), entries)
    told(sink, 1.5, counts(p7=70, p3=30, p2=20, p5=50), entries)
    (only,) = sink.windows()
    assert only.places.tolist() == [4 * PAGE, 6 * PAGE, SPACE + 4 * PAGE]
    assert only.counts.tolist() == [70, 20, 50]
    seen = recording(
        (1.0, 1.5, [(0, 6 * PAGE, 1, 0), (6 * PAGE, 9 * PAGE, 0, 0)]), (1.0, 1.5, [(0, 5 * PAGE, 1, 0)], 1)
    )
    found = compared("w", seen, [only])
    assert (found.precision, found.recall, found.accesses_seen) == (1.0, pytest.approx(2 / 3), pytest.approx(120 / 140))


BLOCK = BLOCK_PAGES * PAGE


def test_a_recording_that_sees_all_expects_what_the_counts_say() -> None:
    """Of two blocks one is idle from the second second on, and asked for again in the seventh one."""
    snapshots, windows = [], []
    for second in range(8):
        is_idle = second not in (0, 6)
        for tenth in range(10):
            begin_s, idle_for = second + tenth / 10, 10 * (second - 1 if second < 6 else 0) + tenth
            rest = (BLOCK, 2 * BLOCK, 0, idle_for) if is_idle else (BLOCK, 2 * BLOCK, 20, tenth)
            snapshots.append((begin_s, begin_s + 0.1, [(0, BLOCK, 20, 10 * second + tenth), rest]))
        pages = np.ones(2 * BLOCK_PAGES, dtype=np.uint32)
        pages[BLOCK_PAGES:] = not is_idle
        windows.append(Window(float(second), second + 1.0, np.arange(len(pages)) * PAGE, pages))
    found = expected(recording(*snapshots, operations="paddr"), windows)
    assert [one.min_age_s for one in found] == [1.0, 2.0]
    assert [one.true_faults for one in found] == [BLOCK_PAGES, BLOCK_PAGES]
    # Idle from 1 to 6 s, it is out for 4 or 3 of 8 s, and half of the memory.
    assert [one.true_saving for one in found] == [pytest.approx(4 / 16), pytest.approx(3 / 16)]
    for one in found:
        assert one.saving == pytest.approx(one.true_saving, abs=0.02)
        assert one.faults == pytest.approx(one.true_faults, rel=0.02)
