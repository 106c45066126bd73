"""What is read from recordings, against truths computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.errors import ConfigError, MeasurementError
from damoos.recordings import crop
from damoos.recordings.aggregations import moments, percentiles
from damoos.recordings.heatmap import heatmap
from damoos.recordings.idle import classes, idle_time, recency
from damoos.recordings.recording import Recording
from damoos.recordings.region_count import region_count
from damoos.recordings.subspace import accessed_byte_s, most_active, subspaces
from damoos.recordings.working_set import working_set
from tests.records import HEAP, MIB, STACK, recording, stairs

from .test_files import recordings

# Two targets, two aggregations of 0.1 s, then one of 0.3 s of the first target alone; 20 samples each.
TWO = recording(
    (0.0, 0.1, [(0, 100, 20, 5), (100, 300, 0, 9)], 0),
    (0.0, 0.1, [(0, 1000, 2, 0)], 1),
    (0.1, 0.2, [(0, 100, 20, 6), (100, 300, 1, 0)], 0),
    (0.1, 0.2, [(0, 1000, 0, 0)], 1),
    (0.2, 0.5, [(0, 100, 0, 0), (100, 300, 0, 30)], 0),
)


def test_moments_are_of_all_targets() -> None:
    found = moments(TWO)
    assert found.of_snapshot.tolist() == [0, 0, 1, 1, 2]
    assert found.weight_s.tolist() == pytest.approx([0.1, 0.1, 0.3])
    late = recording((0, 0.1, [(0, 1, 0, 0)], 0), (0.2, 0.3, [(0, 1, 0, 0)], 1))
    assert moments(late).of_snapshot.tolist() == [0, 1]


def test_working_set() -> None:
    found = working_set(TWO)
    assert found.size_bytes.tolist() == [1100, 300, 0]
    assert found.mean_bytes == pytest.approx((1100 * 0.1 + 300 * 0.1) / 0.5)
    assert found.percentiles == {0: 0, 25: 0, 50: 0, 75: 300, 100: 1100}
    assert working_set(TWO, 3).size_bytes.tolist() == [100, 100, 0]
    assert found.frame()["working_set_bytes"].tolist() == [1100, 300, 0]
    for wrong in (0, 21):
        with pytest.raises(ConfigError, match="1 to 20"):
            working_set(TWO, wrong)


def test_regions_and_their_bound() -> None:
    found = region_count(TWO)
    assert found.nr_regions.tolist() == [3, 3, 2]
    assert found.bounds == (10, 1000)
    assert found.mean == pytest.approx((3 * 0.2 + 2 * 0.3) / 0.5)
    assert found.frame()["nr_regions"].tolist() == [3, 3, 2]
    foreign = recording((0, 1, [(0, 1, 0, 0)]), about={"assumed": ["nr_regions"]})
    assert region_count(foreign).bounds is None


def test_idle_time() -> None:
    found = idle_time(TWO)
    assert found.edges_s.tolist() == [0, 0.1, 0.2, 0.5, 1, 2, 5]
    frame = found.frame().set_index("idle_to_s")
    mean, end = frame["mean_bytes"], frame["end_bytes"]
    assert mean[0.0] == pytest.approx((1100 * 0.1 + 300 * 0.1) / 0.5)  # accessed
    assert mean[0.1] == pytest.approx((1000 * 0.1 + 100 * 0.3) / 0.5)  # idle since this aggregation
    assert mean[1.0] == pytest.approx(200 * 0.1 / 0.5)  # for 0.9 s
    assert mean[5.0] == pytest.approx(200 * 0.3 / 0.5)  # for 3 s
    assert mean.sum() == pytest.approx((1300 * 0.2 + 300 * 0.3) / 0.5)
    assert end.to_dict() == {0.0: 0, 0.1: 100, 0.2: 0, 0.5: 0, 1.0: 0, 2.0: 0, 5.0: 200}
    # 350 byte-seconds: 140 accessed, 130 idle for 0 s, 20 for 0.9 s, 60 for 3 s.
    assert found.percentiles_s == pytest.approx({0: 0, 25: 0, 50: 0, 75: 0, 100: 3.0})
    assert percentiles(np.array([0.0, 1.0]), np.array([3.0, 1.0]), (75, 76)) == {75: 0, 76: 1}


def test_classes_are_1_2_5() -> None:
    assert classes(0.1, 0.0).tolist() == [0, 0.1]
    assert classes(0.1, 0.1).tolist() == [0, 0.1, 0.2]
    assert classes(0.2, 60).tolist() == [0, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
    assert classes(0.3, 0.4).tolist() == [0, 0.5]


def test_recency() -> None:
    found = recency(TWO)
    assert found.names == ("accessed now", "< 1 s", "< 5 s", "< 30 s", "< 2 min", "longer")
    assert found.size_bytes.tolist() == [[1100, 200, 0, 0, 0, 0], [300, 1000, 0, 0, 0, 0], [0, 100, 200, 0, 0, 0]]
    assert found.mean_bytes["< 5 s"] == pytest.approx(200 * 0.3 / 0.5)
    ages = (9, 10, 49, 50, 299, 300, 1199, 1200)
    edges = recording((0, 1, [(at, at + 1, 0, age) for at, age in enumerate(ages)]))
    assert recency(edges).size_bytes.tolist() == [[0, 1, 2, 2, 2, 1]]
    assert recency(edges).frame().groupby("last_access", sort=False)["size_bytes"].sum().tolist() == [0, 1, 2, 2, 2, 1]


def test_the_stairs_are_found_and_drawn() -> None:
    whole = stairs()
    heap, stack = subspaces(whole, 0)
    assert (heap.low, heap.high, stack.low) == (HEAP, HEAP + 64 * MIB, STACK)
    assert heap.accessed_byte_s == pytest.approx(8 * MIB * 8)
    assert stack.accessed_byte_s == pytest.approx(MIB // 8 * 8 * 3 / 20)
    assert most_active(whole) == heap
    heat = heatmap(whole, nr_times=8, nr_addresses=8)
    assert heat.frequency == pytest.approx(np.eye(8), abs=1e-9)
    assert heat.time_s == pytest.approx(np.arange(9))
    half = heatmap(whole, nr_times=4, nr_addresses=4)
    assert half.frequency == pytest.approx(np.eye(4) / 2, abs=1e-9)
    assert heatmap(whole).frequency.shape == (80, 256)  # no more cells of time than aggregations


def test_cells_are_cut_exactly() -> None:
    """One region of 60 bytes at 50 %, for 0.75 of the time; cells of 40 bytes and 0.5."""
    one = recording((0.0, 0.75, [(10, 70, 10, 0)]), (0.75, 1.0, [(75, 80, 0, 0)]))
    heat = heatmap(one, address=(0, 80), nr_times=2, nr_addresses=2)
    assert heat.accessed_byte_s == pytest.approx(np.array([[7.5, 7.5], [3.75, 3.75]]))
    assert heat.seen_byte_s == pytest.approx(np.array([[15, 15], [7.5, 7.5 + 1.25]]))
    assert heat.frequency == pytest.approx(np.array([[0.5, 0.5], [0.5, 3.75 / 8.75]]))


def test_where_there_is_no_memory_there_is_no_frequency() -> None:
    gap = recording((0.0, 1.0, [(0, 10, 20, 0), (30, 40, 0, 0)]))
    heat = heatmap(gap, address=(0, 40), nr_times=1, nr_addresses=4)
    assert np.isnan(heat.frequency).tolist() == [[False, True, True, False]]
    assert heat.frame()["address_bytes"].tolist() == [0, 30]
    assert heat.frame()["frequency"].tolist() == [1, 0]


@given(recordings(), st.integers(1, 7), st.integers(1, 7))
def test_a_heatmap_conserves_accesses(any_: Recording, nr_times: int, nr_addresses: int) -> None:
    for target in crop.targets(any_):
        mine = crop.of_target(any_, target)
        span = (int(mine.start.min()), int(mine.end.max()))
        heat = heatmap(mine, target=target, address=span, nr_times=nr_times, nr_addresses=nr_addresses)
        assert heat.accessed_byte_s.sum() == pytest.approx(accessed_byte_s(mine).sum(), rel=1e-6)
        weight = mine.weight_s[mine.snapshot]
        assert heat.seen_byte_s.sum() == pytest.approx((mine.sz_bytes * weight).sum(), rel=1e-6)
        frequency = heat.frequency[~np.isnan(heat.frequency)]
        assert np.all((frequency >= 0) & (frequency <= 1 + 1e-9))


@given(recordings(), st.integers(0, 1 << 48), st.integers(1, 1 << 48))
def test_cropped_addresses_are_complementary(any_: Recording, at: int, size: int) -> None:
    parts = ((0, at), (at, at + size), (at + size, 1 << 62))
    found = []
    for low, high in parts:
        try:
            part = crop.by_address(any_, low, high)
        except ConfigError:
            continue
        assert part.nr_snapshots == any_.nr_snapshots
        assert np.all((part.start >= low) & (part.end <= high) & (part.start < part.end))
        found.append(accessed_byte_s(part).sum())
    assert sum(found) == pytest.approx(accessed_byte_s(any_).sum())


def test_cropped_time_cuts_snapshots() -> None:
    part = crop.by_time(TWO, 0.15, 0.3)
    assert part.target.tolist() == [0, 1, 0]
    assert part.weight_s.tolist() == pytest.approx([0.05, 0.05, 0.1])
    assert part.start.tolist() == [0, 100, 0, 0, 100]
    for low, high in ((0.5, 0.6), (0.3, 0.3), (2, 1)):
        with pytest.raises(ConfigError, match=r"lasts 0\.5 s"):
            crop.by_time(TWO, low, high)
    with pytest.raises(ConfigError, match="no target 2 in the recording; it has 0, 1"):
        crop.of_target(TWO, 2)
    with pytest.raises(ConfigError, match="0x0 to 0x3e8"):
        crop.by_address(TWO, 1000, 2000)


def test_the_most_active_target_is_drawn() -> None:
    assert most_active(TWO).target == 0
    assert most_active(TWO, 1).target == 1
    assert heatmap(TWO).subspace.target == 0
    assert heatmap(TWO, address=(200, 900)).subspace.target == 1
    assert heatmap(TWO, address=(200, 900), target=0).subspace.target == 0


def test_idle_ends_are_left_out() -> None:
    wide = recording((0.0, 1.0, [(0, 1000, 0, 0), (1000, 1010, 5, 0), (1010, 5000, 0, 0)]))
    assert (most_active(wide).low, most_active(wide).high) == (990, 1020)
    idle = recording((0.0, 1.0, [(0, 1000, 0, 0)]))
    assert (most_active(idle).low, most_active(idle).high) == (0, 1000)


def test_gaps_part_subspaces() -> None:
    gap = recording((0.0, 1.0, [(0, 10, 1, 0), (30, 40, 1, 0), (61, 62, 1, 0)]))
    assert [(one.low, one.high) for one in subspaces(gap, 0)] == [(0, 62)]  # 21 bytes in all, no gap is wider
    assert [(one.low, one.high) for one in subspaces(gap, 0, 20)] == [(0, 40), (61, 62)]
    assert [(one.low, one.high) for one in subspaces(gap, 0, 0)] == [(0, 10), (30, 40), (61, 62)]


def test_nothing_is_not_a_number() -> None:
    empty = recording((0.0, 1.0, []))
    for analysis in (heatmap, idle_time):
        with pytest.raises(MeasurementError):
            analysis(empty)
    for analysis in (working_set, heatmap):
        with pytest.raises(MeasurementError, match="no duration"):
            analysis(recording((1.0, 1.0, [(0, 1, 1, 0)])))
