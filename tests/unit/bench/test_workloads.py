"""How a model is held against what has been published."""

from __future__ import annotations

import math

import pytest

from damoos.bench.workloads import _correlation, _same, chosen
from damoos.errors import ConfigError


@pytest.mark.parametrize(
    ("model", "real", "same"),
    [
        (0.30, 0.28, True),
        (0.56, 0.28, False),  # twice
        (0.14, 0.28, False),  # half
        (0.15, 0.28, True),
        (0.02, 0.007, True),  # within 3 points, however small
        (0.025, -0.07, False),
        (-0.01, 0.01, True),
    ],
)
def test_half_or_twice_the_saving_is_not_following(model: float, real: float, same: bool) -> None:
    assert _same(model, real) is same


def test_the_shape_of_a_curve() -> None:
    """A broken limit is as bad as the worst score that kept it, and a flat curve is like no other."""
    falling = [3.0, 2.0, 1.0, 0.0]
    assert _correlation([30.0, 20.0, 10.0, 0.0], falling) == pytest.approx(1)
    assert _correlation([math.nan, 3.0, 2.0, 1.0], [math.nan, 30.0, 20.0, 10.0]) == pytest.approx(1)
    assert _correlation(falling[::-1], falling) == pytest.approx(-1)
    assert _correlation([1.0] * 4, falling) == 0
    assert _correlation([math.nan] * 4, falling) == 0


def test_patterns_choose_workloads() -> None:
    assert chosen(["redis/*", "redis/idle", "parsec3/vips"]) == [
        "redis/cache",
        "redis/idle",
        "redis/peak",
        "redis/snapshots",
        "parsec3/vips",
    ]
    with pytest.raises(ConfigError, match=r"no workload matches 'radis/\*'"):
        chosen(["radis/*"])
