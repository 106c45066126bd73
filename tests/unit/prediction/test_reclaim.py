"""What reclaim would bring, on recordings for which it can be counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damoos.errors import MeasurementError
from damoos.prediction.reclaim import Bounds, Cost, Reclaim, reclaim
from damoos.recordings.recording import Recording
from tests.records import MIB, Row, recording

S = 1_000_000
FREE = Cost(0, 0)
AGGR_S = 0.1
PAGES = 10 * MIB // 4096  # of a region of 10 MiB
ALWAYS, NEVER = range(10_000), range(0)


def region(number: int, accessed: range | list[int], nth: int, sz_bytes: int = 10 * MIB) -> Row:
    """A region in the n-th aggregation, which is accessed in some of them; its age as DAMON counts it."""
    now, age = nth in accessed, 0
    while age < nth and (nth - age - 1 in accessed) == now:
        age += 1
    return number * sz_bytes, (number + 1) * sz_bytes, 20 * now, age


def watched(*accessed: range | list[int], count: int = 100, about: dict | None = None) -> Recording:
    """Regions of 10 MiB beside each other, for some aggregations."""
    return recording(
        *(
            (nth * AGGR_S, (nth + 1) * AGGR_S, [region(number, one, nth) for number, one in enumerate(accessed)])
            for nth in range(count)
        ),
        about=about,
    )


def test_what_is_always_cold_is_out_from_the_age_on() -> None:
    found = reclaim(watched(ALWAYS, NEVER), [0, 2 * S, 5 * S, 20 * S], FREE)
    np.testing.assert_allclose(found.saving, [0.5, 0.4, 0.25, 0], atol=1e-12)
    np.testing.assert_allclose(found.out_pages, [PAGES, PAGES, PAGES, 0])
    np.testing.assert_allclose(found.in_pages, 0, atol=1e-6)
    assert found.span_s == pytest.approx(10)


def test_what_turns_cold_is_out_an_age_later() -> None:
    # Accessed for 5 s; its first idle aggregation has the age 0.
    found = reclaim(watched(range(50)), [2 * S, 4.9 * S, 5 * S], FREE)
    np.testing.assert_allclose(found.saving, [0.3, 0.01, 0], atol=1e-12)
    np.testing.assert_allclose(found.out_pages, [PAGES, PAGES, 0])


def test_a_scheme_may_page_out_what_is_accessed() -> None:
    # Always accessed in all samples: paged out once in an age, and back in the next aggregation.
    for max_freq, times in ((0.0, 0), (0.99, 0), (1.0, 4)):
        found = reclaim(watched(ALWAYS), [2 * S], FREE, Bounds(max_freq=max_freq))
        np.testing.assert_allclose(found.out_pages, times * PAGES, rtol=0.01)
        np.testing.assert_allclose(found.in_pages, times * PAGES, rtol=0.01)


def test_a_scheme_may_leave_small_regions_alone() -> None:
    for min_bytes, saving in ((10 * MIB, 0.8), (10 * MIB + 1, 0.0)):
        found = reclaim(watched(NEVER), [2 * S], FREE, Bounds(min_bytes=min_bytes))
        np.testing.assert_allclose(found.saving, saving, atol=1e-12)


def test_a_quota_is_spread_over_time() -> None:
    # 1 MiB a second from 2 s on, of 10 MiB in 10 s.
    found = reclaim(watched(NEVER), [2 * S], FREE, Bounds(quota_bytes_s=MIB))
    np.testing.assert_allclose(found.out_pages, 0.8 * PAGES, rtol=0.01)
    np.testing.assert_allclose(found.saving, 8**2 / 2 / 100, rtol=0.03)
    assert reclaim(watched(NEVER), [2 * S], FREE, Bounds(quota_bytes_s=1e12)).saving == pytest.approx(0.8)


def test_before_the_measurement_only_ages_grow() -> None:
    # Paged out while a server warms up, and not once more; asked for when the load begins, or never.
    about = {"record": {"began_s": 5.0}}
    idle = reclaim(watched(NEVER, about=about), [2 * S, 7 * S], FREE)
    np.testing.assert_allclose(idle.saving, [1, 0.6], atol=1e-9)
    np.testing.assert_allclose(idle.out_pages, [0, PAGES])
    assert idle.span_s == pytest.approx(5)
    used = reclaim(watched(range(60, 100), about=about), [2 * S], FREE)
    np.testing.assert_allclose(used.in_pages, [PAGES])
    np.testing.assert_allclose(used.saving, [0.2], atol=1e-9)


def test_what_is_accessed_now_and_then_comes_back() -> None:
    every_2s = list(range(0, 100, 20))
    found = reclaim(watched(every_2s), [1 * S, 1.8 * S, 2 * S, 3 * S], FREE)
    # Idle for 19 aggregations; at 1 s it is out for the last 9 of them, at 1.8 s for the last.
    np.testing.assert_allclose(found.saving, [0.45, 0.05, 0, 0], atol=1e-9)
    np.testing.assert_allclose(found.out_pages, [5 * PAGES, 5 * PAGES, 0, 0])
    np.testing.assert_allclose(found.in_pages, [4 * PAGES, 4 * PAGES, 0, 0])


def test_a_region_that_is_hardly_accessed_comes_back_in_part() -> None:
    # One of 20 samples saw an access, so 1 - 0.95^20 of its pages are taken to have been touched.
    snapshots = [(n * AGGR_S, (n + 1) * AGGR_S, [(0, 10 * MIB, int(n == 50), n)]) for n in range(100)]
    found = reclaim(recording(*snapshots), [4 * S], FREE)
    assert found.in_pages[0] == pytest.approx(PAGES * (1 - 0.95**20))


def blocks(*numbers: int) -> list[list[int]]:
    """Counts of regions of 10 MiB that are resident as a whole."""
    return [[number * 10 * MIB + at * MIB, 256] for number in numbers for at in range(10)]


def test_memory_that_was_never_there_saves_nothing() -> None:
    cold = ALWAYS, NEVER, NEVER
    assert reclaim(watched(*cold), [2 * S], FREE).saving[0] == pytest.approx(0.8 * 2 / 3)
    for there, wanted in (((0, 1, 2), 0.8 * 2 / 3), ((0, 1), 0.4), ((0,), 0.0), ((2,), 0.8)):
        found = reclaim(watched(*cold, about={"resident": [[0.05, [blocks(*there)]]]}), [2 * S], FREE)
        assert found.saving[0] == pytest.approx(wanted, abs=1e-9)
        assert found.out_pages[0] == pytest.approx(PAGES * len({1, 2} & set(there)), abs=1e-6)


def test_pages_are_as_large_as_the_machine_has_them() -> None:
    counts = [[0.05, [[[0, 10], [16 * MIB, 10]]]]]  # blocks of 16 MiB, of which 640 KiB are there
    found = reclaim(watched(NEVER, about={"resident": counts, "page_bytes": 1 << 16}), [2 * S], FREE)
    # The region has 10 of the 16 MiB of the first block.
    assert found.out_pages[0] == pytest.approx(10 * 10 / 16)


def test_a_block_may_lie_in_two_regions() -> None:
    half = MIB // 2
    snapshots = [
        (n * AGGR_S, (n + 1) * AGGR_S, [(0, half, 20, n), (half, 2 * half, 0, n), (2 * half, 9 * half, 0, n)])
        for n in range(100)
    ]
    found = reclaim(recording(*snapshots, about={"resident": [[0, [[[0, 256]]]]]}), [2 * S], FREE)
    assert found.saving[0] == pytest.approx(0.4)
    assert found.out_pages[0] == pytest.approx(128)


def test_the_last_count_before_a_snapshot_is_the_one() -> None:
    counts = [[0.05, [blocks(0, 1)]], [4.95, [blocks(0)]]]  # the cold region is given back at 4.95 s
    found = reclaim(watched(ALWAYS, NEVER, about={"resident": counts}), [2 * S], FREE)
    assert found.saving[0] == pytest.approx(29 / (100 + 49))


def test_several_targets() -> None:
    snapshots = []
    for n in range(100):
        span = n * AGGR_S, (n + 1) * AGGR_S
        snapshots += [(*span, [region(0, ALWAYS, n)]), (*span, [region(0, NEVER, n, 30 * MIB)], 1)]
    found = reclaim(recording(*snapshots), [2 * S, 5 * S], FREE)
    np.testing.assert_allclose(found.saving, [0.8 * 0.75, 0.5 * 0.75])
    np.testing.assert_allclose(found.out_pages, 3 * PAGES)
    counts = {"resident": [[0, [blocks(0), [[0, 256]]]]]}  # of the second target 1 MiB is there
    found = reclaim(recording(*snapshots, about=counts), [2 * S], FREE)
    assert found.saving[0] == pytest.approx(0.8 / 11)


def test_more_regions_than_cells_are_the_same_in_sum() -> None:
    rows = [(n * 8192, (n + 1) * 8192, 20 * (n < 1500), 0) for n in range(3000)]
    snapshots = [(n * AGGR_S, (n + 1) * AGGR_S, [(*row[:3], n) for row in rows]) for n in range(20)]
    found = reclaim(recording(*snapshots), [1 * S], FREE)
    assert found.saving[0] == pytest.approx(0.25, abs=0.002)


def test_a_long_recording_has_fewer_cells_and_one_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    half = watched(ALWAYS, NEVER)
    monkeypatch.setattr("damoos.prediction.reclaim.MOST_VALUES", 100 * 64)
    assert reclaim(half, [5 * S], FREE).saving[0] == pytest.approx(0.25, abs=1e-9)
    monkeypatch.setattr("damoos.prediction.reclaim.MOST_VALUES", 100 * 64 - 1)
    with pytest.raises(MeasurementError, match="the recording has 100 snapshots, too many to predict from"):
        reclaim(half, [5 * S], FREE)


def test_enough_is_what_is_not_exceeded_for_95_percent_of_the_time() -> None:
    # Half of it is out from 1, 1.9, 2.1 and 15 s on, of 40 s.
    found = reclaim(watched(ALWAYS, NEVER, count=400), [S, 1.9 * S, 2.1 * S, 15 * S], FREE)
    np.testing.assert_allclose(found.peak, [0.5, 0.5, 1, 1])


def test_what_it_costs() -> None:
    found = Reclaim(*(np.array([one]) for one in (S, 0.5, 0.5, 1000.0, 400.0)), 10.0)
    assert Cost(20, 50).seconds(found)[0] == pytest.approx(0.04)
    assert Cost(20, 50, shared=0).seconds(found)[0] == pytest.approx(0.02)
    assert Cost(20, 50, shared=0.5).seconds(found)[0] == pytest.approx(0.03)


def test_a_workload_that_is_slowed_down_asks_later() -> None:
    # The faults make each rest longer, and so the share of it in which memory is out.
    often, seldom = list(range(0, 100, 10)), list(range(0, 100, 40))
    plain, slowed = (reclaim(watched(often, seldom), [0.5 * S], Cost(0, fault)) for fault in (0.0, 1e6 / PAGES))
    assert slowed.span_s == plain.span_s
    assert slowed.saving[0] > plain.saving[0]


def test_it_survives_json() -> None:
    found = reclaim(watched(ALWAYS, NEVER), [S, 2 * S], FREE)
    back = Reclaim.from_json(json.loads(json.dumps(found.to_json())))
    for name, value in vars(found).items():
        np.testing.assert_array_equal(getattr(back, name), value)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.integers(0, 59), max_size=15), min_size=1, max_size=4),
    st.floats(0, 1e6 / PAGES),
)
def test_a_longer_age_saves_less_and_faults_less(accessed: list[list[int]], fault_us: float) -> None:
    ages = np.linspace(0, 8 * S, 33)
    found = reclaim(watched(*accessed, count=60), ages, Cost(0.1 * fault_us, fault_us))
    assert np.all(np.diff(found.saving) <= 1e-9)
    assert np.all(np.diff(found.in_pages) <= 1e-6)
    assert np.all(np.diff(found.peak) >= -1e-9)
    assert np.all((found.saving >= 0) & (found.saving <= 1))
    assert np.all(found.in_pages <= found.out_pages + 1e-6)
