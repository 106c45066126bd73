"""A run's metrics by role."""

import pytest

from damoos.errors import MeasurementError
from damoos.model.roles import by_role, part
from damoos.model.trial import Measurement

RUN = Measurement({"runtime_s": 9.0, "memory_avg_bytes": 10.0, "memory_avg_bytes.tax": 3.0, "rss_avg_bytes": 8.0})


def test_a_part_of_a_run_has_the_metrics_of_its_role() -> None:
    tax = part(RUN, "tax")
    assert tax.metric("memory_avg_bytes") == 3
    assert tax.metric("runtime_s") == 9
    with pytest.raises(MeasurementError):
        tax.metric("rss_avg_bytes")  # not that of all


def test_what_is_told_of_roles() -> None:
    names = by_role(["runtime_s", "net_avg_bytes", "p99_ms"], ["tax", "sidecar"])
    assert names == {"net_avg_bytes.tax", "net_avg_bytes.sidecar"}
