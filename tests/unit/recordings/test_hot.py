"""The hottest parts of memory, against truths computed by hand."""

from __future__ import annotations

import pytest

from damoos.recordings.hot import hot_ranges
from tests.records import recording

# 0 to 100 is always accessed, 100 to 300 half of the time, 1000 to 1100 in one sample of 20, and the rest never.
HOT = recording(
    (0.0, 0.1, [(0, 100, 20, 5), (100, 300, 20, 9), (300, 1000, 0, 9), (1000, 1100, 2, 0)]),
    (0.1, 0.2, [(0, 100, 20, 6), (100, 1000, 0, 0), (1000, 1100, 0, 0)]),
)


@pytest.mark.parametrize(
    ("share", "ranges"),
    [
        (0.4, [(0, 100)]),  # 20 of 41 parts of all accesses
        (0.9, [(0, 300)]),
        (1.0, [(0, 300), (1000, 1100)]),
    ],
)
def test_the_hottest_come_first(share: float, ranges: list[tuple[int, int]]) -> None:
    assert hot_ranges(HOT, share) == ranges


def test_neighbours_are_joined_until_there_are_few_enough() -> None:
    at = [0, 200, 1000, 1300, 5000]
    parts = recording((0.0, 0.1, [(start, start + 100, 20, 0) for start in at]))
    assert len(hot_ranges(parts, 1.0)) == 5
    assert hot_ranges(parts, 1.0, most=3) == [(0, 300), (1000, 1400), (5000, 5100)]
    assert hot_ranges(parts, 1.0, most=2) == [(0, 1400), (5000, 5100)]
    assert hot_ranges(parts, 1.0, most=1) == [(0, 5100)]


def test_of_what_is_never_accessed_nothing_is_hot() -> None:
    assert hot_ranges(recording((0.0, 0.1, [(0, 100, 0, 5)]))) == []
