"""Subspaces: where a gap parts them, and which of their idle ends are left out."""

from __future__ import annotations

from damoos.recordings.subspace import most_active, subspaces
from tests.records import recording


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
