"""Runs and measurements."""

from __future__ import annotations

import pytest

from damoos.errors import MeasurementError
from damoos.model.trial import Measurement, Run


def test_a_run_survives_the_store() -> None:
    run = Run(3, "trial", 2, "", {"min_age_us": 5}, Measurement({"runtime_s": 1.0}, (), {"kernel": "6.12"}), "")
    assert Run.from_json(run.to_json()) == run
    assert run.key == "trial-002"


def test_a_metric_that_is_missing_is_never_a_number() -> None:
    with pytest.raises(MeasurementError, match="no finite metric 'runtime_s'"):
        Measurement({"runtime_s": float("nan")}).metric("runtime_s")
