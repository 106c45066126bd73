"""The kernel's pages of trace events, made by hand, and what is read of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.errors import MeasurementError
from damoos.recordings.ring_buffer import dtype_of, event_id, events, snapshots
from tests.trace_pages import (
    FORM,
    HEAD,
    ID,
    MISSED,
    PADDING,
    PAGE,
    PAGE_FORM,
    Region,
    event,
    extend,
    head,
    page,
    pages,
    payload,
    stamp,
)

ONE: Region = (0, 2, 4096, 8192, 3, 7)
OTHER: Region = (0, 2, 8192, 16384, 0, 70)
T0 = 1_000_000_000


def decoded(raw: bytes) -> tuple[list[int], list[Region]]:
    """Times (ns) and regions, in their order."""
    seconds, rows = events([raw], FORM, PAGE_FORM, PAGE)
    names = ("target_id", "nr_regions", "start", "end", "nr_accesses", "age")
    regions = list(zip(*(rows[name].tolist() for name in names), strict=True))
    return [round(one * 1e9) for one in seconds.tolist()], regions


def test_the_format_says_where_fields_lie() -> None:
    dtype = dtype_of(FORM)
    assert event_id(FORM) == ID
    assert dtype.itemsize == 48
    assert {name: dtype.fields[name][1] for name in ("common_type", "target_id", "start", "age")} == {
        "common_type": 0,
        "target_id": 8,
        "start": 24,
        "age": 44,
    }


@pytest.mark.timeout(60)
def test_a_form_without_end_is_refused() -> None:
    """To look for the end of each field took the square of its length."""
    with pytest.raises(MeasurementError, match="no field"):
        dtype_of("field:" * (1 << 18))
    with pytest.raises(MeasurementError, match="header_page"):
        events([page(T0)], FORM, "field: " + "char " * (1 << 18), PAGE)


def test_a_form_that_lacks_something_is_refused() -> None:
    raw = page(T0, event(payload(ONE)))
    for form, page_form, said in (
        (FORM.replace(" age;", " how_old;"), PAGE_FORM, "no field 'age'"),
        (FORM.replace("ID: 123", ""), PAGE_FORM, "no ID"),
        (FORM, PAGE_FORM.replace("commit", "content"), "header_page"),
        (FORM, PAGE_FORM.replace("char data", "char stuff"), "header_page"),
    ):
        with pytest.raises(MeasurementError, match=said):
            events([raw], form, page_form, PAGE)


def test_nothing_is_no_event() -> None:
    for raw in (b"", page(T0), page(T0, rest=event(payload(ONE)))):
        assert decoded(raw) == ([], [])


@pytest.mark.parametrize("words", range(12, 29))
def test_a_length_in_the_header(words: int) -> None:
    data = payload(ONE).ljust(4 * words, b"\xff")
    raw = page(T0, event(data, 5), event(payload(OTHER), 7))
    assert decoded(raw) == ([T0 + 5, T0 + 12], [ONE, OTHER])


@pytest.mark.parametrize("size", [48, 52, 112, 116, 400])
def test_a_length_in_a_word_of_its_own(size: int) -> None:
    raw = page(T0, event(payload(ONE).ljust(size, b"\xff"), 5, long=True), event(payload(OTHER), 7))
    assert decoded(raw) == ([T0 + 5, T0 + 12], [ONE, OTHER])


@pytest.mark.parametrize("words", range(1, 12))
def test_events_that_are_shorter_or_of_another_kind_only_pass_time(words: int) -> None:
    short = event(payload(ONE)[: 4 * words], 3)
    other = event(payload(ONE, ID + 1), 4)
    assert decoded(page(T0, short, other, event(payload(OTHER), 7))) == ([T0 + 14], [OTHER])


@given(st.integers(0, (1 << 59) - (1 << 28)), st.integers(0, (1 << 27) - 1))
def test_time_is_extended_and_stamped(ns: int, delta: int) -> None:
    ns //= 1 << 12  # a float of seconds is exact to the ns up to months
    for raw in (page(0, extend(ns), event(payload(ONE), delta)), page(T0, stamp(ns), event(payload(ONE), delta))):
        seconds, rows = events([raw], FORM, PAGE_FORM, PAGE)
        assert len(rows) == 1
        assert seconds[0] == pytest.approx((ns + delta) / 1e9, rel=1e-15)


def test_a_stamp_keeps_the_highest_bits_of_the_page() -> None:
    high = 1 << 60
    seconds, _ = events([page(high + 5, stamp(77), event(payload(ONE)))], FORM, PAGE_FORM, PAGE)
    assert seconds[0] * 1e9 == pytest.approx(high + 77, rel=1e-15)
    assert seconds[0] > high / 2e9


def test_a_page_ends_where_its_padding_begins() -> None:
    raw = page(T0, event(payload(ONE), 5), head(PADDING, 0), event(payload(OTHER), 7))
    assert decoded(raw) == ([T0 + 5], [ONE])


def test_an_event_that_was_discarded_is_passed_over() -> None:
    gone = head(PADDING, 1) + (4 + 48).to_bytes(4, "little") + payload(OTHER)
    times, regions = decoded(page(T0, gone, event(payload(ONE), 5)))
    assert regions == [ONE]
    assert T0 + 5 <= times[0] <= T0 + 6


def test_what_is_not_committed_is_not_read() -> None:
    raw = page(T0, event(payload(ONE), 5), rest=event(payload(OTHER), 7))
    assert decoded(raw) == ([T0 + 5], [ONE])


@pytest.mark.parametrize("flags", [MISSED, MISSED | 1 << 30])
def test_the_bits_that_say_events_were_missed_are_no_length(flags: int) -> None:
    # With the second bit the kernel has put their number behind what is committed.
    raw = page(T0, event(payload(ONE), 5), flags=flags, rest=(17).to_bytes(8, "little"))
    assert decoded(raw) == ([T0 + 5], [ONE])


def test_a_full_page() -> None:
    count = (PAGE - HEAD) // 52
    raw = page(T0, *(event(payload(ONE), 1) for _ in range(count)))
    assert decoded(raw) == ([T0 + 1 + n for n in range(count)], [ONE] * count)


def test_pages_are_as_large_as_the_machine_has_them() -> None:
    size, count = 1 << 16, 1200
    raw = page(T0, *(event(payload(ONE), 1) for _ in range(count)), size=size) + page(T0 + 9999, size=size)
    seconds, rows = events([raw], FORM, PAGE_FORM, size)
    assert len(rows) == count
    assert seconds[-1] * 1e9 == pytest.approx(T0 + count, abs=1)


def test_a_page_that_was_cut_off_is_left_out() -> None:
    raw = page(T0, event(payload(ONE), 5))
    assert decoded(raw + raw[:-1]) == ([T0 + 5], [ONE])


def test_cpus_are_put_in_the_order_of_time() -> None:
    first = page(T0, event(payload(ONE), 10), event(payload(OTHER), 20), cpu=1)
    second = page(T0 + 5, event(payload((1, *ONE[1:])), 10), event(payload((1, *OTHER[1:])), 20), cpu=0)
    times, regions = decoded(first + second)
    assert [one - T0 for one in times] == [10, 15, 30, 35]
    assert [one[0] for one in regions] == [0, 1, 0, 1]
    assert decoded(second + first) == (times, regions)


unsigned = st.integers(0, (1 << 63) - 1)
counts = st.integers(0, (1 << 32) - 1)
regions_of = st.tuples(unsigned, counts, unsigned, unsigned, counts, counts)


@given(
    st.lists(st.tuples(st.integers(1, 1 << 33), regions_of, st.integers(0, 2)), max_size=120),
    st.booleans(),
)
def test_what_is_written_is_read(asked: list[tuple[int, Region, int]], long: bool) -> None:
    now, timed = T0, []
    for delta, region, cpu in asked:
        now += delta
        timed.append((now, region, cpu))
    raw = b"".join(pages([one[:2] for one in timed if one[2] == cpu], cpu, long) for cpu in range(3))
    assert decoded(raw) == ([ns for ns, *_ in timed], [region for _, region, _ in timed])


def found(regions: list[Region], times: list[float] | None = None) -> list[tuple[float, int, int, int]]:
    timed = [(T0 + n, region) for n, region in enumerate(regions)]
    seconds, rows = events([pages(timed)], FORM, PAGE_FORM, PAGE)
    whole = snapshots(np.array(times) if times else seconds, rows)
    columns = (whole.end_s, whole.target, whole.first, whole.stop)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def aggregation(target: int, count: int) -> list[Region]:
    return [(target, count, n * 4096, (n + 1) * 4096, 0, n) for n in range(count)]


def test_whole_snapshots_are_found() -> None:
    regions = aggregation(0, 3) + aggregation(0, 2) + aggregation(0, 1) + aggregation(0, 1)
    wanted = [(3, 0, 0, 3), (5, 0, 3, 5), (6, 0, 5, 6), (7, 0, 6, 7)]
    assert found(regions, [1, 2, 3, 4, 5, 6, 7]) == wanted


def test_two_targets() -> None:
    assert [one[1:] for one in found(aggregation(4, 2) + aggregation(9, 2) + aggregation(4, 2))] == [
        (4, 0, 2),
        (9, 2, 4),
        (4, 4, 6),
    ]


@pytest.mark.parametrize("lost", range(12))
def test_a_lost_event_drops_only_its_snapshot(lost: int) -> None:
    whole = [aggregation(0, 4), aggregation(0, 4), aggregation(0, 4)]
    regions = [region for one in whole for region in one]
    kept = [stop - begin for _, _, begin, stop in found(regions[:lost] + regions[lost + 1 :])]
    assert kept == [4, 4]


def test_the_end_of_a_recording_within_a_snapshot() -> None:
    assert [one[2:] for one in found(aggregation(0, 3) + aggregation(0, 3)[:2])] == [(0, 3)]
    assert found([]) == []
