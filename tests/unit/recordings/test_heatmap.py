"""Heatmaps, against truths computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.recordings import crop
from damoos.recordings.heatmap import heatmap
from damoos.recordings.recording import Recording
from damoos.recordings.subspace import accessed_byte_s, most_active, subspaces
from tests.records import HEAP, MIB, STACK, TWO_TARGETS, recording, stairs

from .test_files import recordings


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


def test_the_most_active_target_is_drawn() -> None:
    assert most_active(TWO_TARGETS).target == 0
    assert most_active(TWO_TARGETS, 1).target == 1
    assert heatmap(TWO_TARGETS).subspace.target == 0
    assert heatmap(TWO_TARGETS, address=(200, 900)).subspace.target == 1
    assert heatmap(TWO_TARGETS, address=(200, 900), target=0).subspace.target == 0
