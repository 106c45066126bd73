"""Memory by idle time and by its last access, against truths computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from damoos.recordings.aggregations import percentiles
from damoos.recordings.idle import classes, idle_time, recency
from tests.records import TWO_TARGETS, recording


def test_idle_time() -> None:
    found = idle_time(TWO_TARGETS)
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
    found = recency(TWO_TARGETS)
    assert found.names == ("accessed now", "< 1 s", "< 5 s", "< 30 s", "< 2 min", "longer")
    assert found.size_bytes.tolist() == [[1100, 200, 0, 0, 0, 0], [300, 1000, 0, 0, 0, 0], [0, 100, 200, 0, 0, 0]]
    assert found.mean_bytes["< 5 s"] == pytest.approx(200 * 0.3 / 0.5)
    ages = (9, 10, 49, 50, 299, 300, 1199, 1200)
    edges = recording((0, 1, [(at, at + 1, 0, age) for at, age in enumerate(ages)]))
    assert recency(edges).size_bytes.tolist() == [[0, 1, 2, 2, 2, 1]]
    assert recency(edges).frame().groupby("last_access", sort=False)["size_bytes"].sum().tolist() == [0, 1, 2, 2, 2, 1]
