"""The number of regions, against truths computed by hand."""

from __future__ import annotations

import pytest

from damoos.recordings.region_count import region_count
from tests.records import TWO_TARGETS, recording


def test_regions_and_their_bound() -> None:
    found = region_count(TWO_TARGETS)
    assert found.nr_regions.tolist() == [3, 3, 2]
    assert found.bounds == (10, 1000)
    assert found.mean == pytest.approx((3 * 0.2 + 2 * 0.3) / 0.5)
    assert found.frame()["nr_regions"].tolist() == [3, 3, 2]
    foreign = recording((0, 1, [(0, 1, 0, 0)]), about={"assumed": ["nr_regions"]})
    assert region_count(foreign).bounds is None
