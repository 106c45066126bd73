"""What Optuna is told of limits."""

from __future__ import annotations

import pytest

from damoos.model.trial import Score
from damoos.store.studies import constraints


@pytest.mark.parametrize(
    ("score", "told"),
    [
        (Score(0.1, True, {"a": 0.5, "b": 0.0}), [-0.5, 0.0]),
        (Score(None, False, {"a": 0.5, "b": -0.25}), [-0.5, 0.25]),
        # No margins, or a limit that none of them tells of.
        (Score(0.1, True), [0.0]),
        (Score(None, False), [1.0]),
        (Score(None, False, {"a": 0.5}), [-0.5, 1.0]),
    ],
)
def test_a_broken_limit_is_a_positive_number(score: Score, told: list[float]) -> None:
    assert constraints(score) == told
