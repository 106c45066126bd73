"""Snapshots of all targets by aggregation, against truths computed by hand."""

from __future__ import annotations

import pytest

from damoos.errors import MeasurementError
from damoos.recordings.aggregations import moments
from damoos.recordings.heatmap import heatmap
from damoos.recordings.idle import idle_time
from damoos.recordings.working_set import working_set
from tests.records import TWO_TARGETS, recording


def test_moments_are_of_all_targets() -> None:
    found = moments(TWO_TARGETS)
    assert found.of_snapshot.tolist() == [0, 0, 1, 1, 2]
    assert found.weight_s.tolist() == pytest.approx([0.1, 0.1, 0.3])
    late = recording((0, 0.1, [(0, 1, 0, 0)], 0), (0.2, 0.3, [(0, 1, 0, 0)], 1))
    assert moments(late).of_snapshot.tolist() == [0, 1]


def test_nothing_is_not_a_number() -> None:
    empty = recording((0.0, 1.0, []))
    for analysis in (heatmap, idle_time):
        with pytest.raises(MeasurementError):
            analysis(empty)
    for analysis in (working_set, heatmap):
        with pytest.raises(MeasurementError, match="no duration"):
            analysis(recording((1.0, 1.0, [(0, 1, 1, 0)])))
