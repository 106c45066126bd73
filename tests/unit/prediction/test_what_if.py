"""g-swap's rule replayed on recordings whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from damoos.errors import MeasurementError
from damoos.policies.gswap import GswapPolicy
from damoos.prediction import what_if
from damoos.recordings.recording import Recording
from tests.records import ATTRS, MIB, recording

FAST = "interval=1s:grace=0s:window=3s:min_age=2s:max_age=60s"
AGGR_S = ATTRS.aggr_us / 1e6


def half_cold(length_s: float = 20.0, again_s: float | None = None) -> Recording:
    """Of 64 MiB one half is always accessed; of the other nothing, or now and then for an aggregation."""
    snapshots, age = [], 0
    for nth in range(round(length_s / AGGR_S)):
        end_s = (nth + 1) * AGGR_S
        accessed = again_s is not None and nth > 0 and nth % round(again_s / AGGR_S) == 0
        age = 0 if accessed else age + 1
        rows = [(0, 32 * MIB, 20, nth), (32 * MIB, 64 * MIB, int(accessed), age)]
        snapshots.append((nth * AGGR_S, end_s, rows))
    return recording(*snapshots)


def test_what_is_never_accessed_is_cold_from_the_lowest_age_on() -> None:
    found = what_if.gswap(half_cold(), GswapPolicy.parse(FAST))
    assert found.threshold_s[0] == np.inf  # the first decision comes at the end of the first interval
    assert set(found.threshold_s[1:]) == {2.0}
    assert found.cold_bytes[-1] == 32 * MIB
    assert found.cold_bytes[0] == 0
    assert found.saved == pytest.approx(0.5 * 18 / 20, abs=0.06)
    assert found.promoted_mean == found.promoted_p98 == 0


def test_what_comes_back_raises_the_threshold() -> None:
    """Half of the memory is accessed every 5 s: to page it out earlier would promote as much as the working set."""
    found = what_if.gswap(half_cold(60, again_s=5.0), GswapPolicy.parse(f"{FAST}:percentile=100%"))
    assert found.threshold_s[-1] > 4.5
    assert found.promoted[20:].max() == 0
    assert found.cold_bytes[20:].max() == 0


def test_a_lower_percentile_is_more_eager() -> None:
    recorded = half_cold(60, again_s=5.0)
    found = what_if.percentiles(recorded, GswapPolicy.parse(FAST))
    assert [one.percent for one in found] == list(what_if.PERCENTILES)
    saved, promoted = [one.saved for one in found], [one.promoted_mean for one in found]
    assert saved == sorted(saved, reverse=True)
    assert promoted == sorted(promoted, reverse=True)
    assert saved[0] > saved[-1]


def test_too_short_a_recording_is_told_with_what_to_do() -> None:
    with pytest.raises(MeasurementError, match=r"0 intervals of 60 s.*gswap:interval=2s"):
        what_if.gswap(half_cold(), GswapPolicy())
