from __future__ import annotations

import math

import numpy as np
import pytest

from damoos.statistics.sequential import LEAST_VALUES, ConfidenceSequence


def test_few_values_show_nothing() -> None:
    sequence = ConfidenceSequence()
    for _ in range(LEAST_VALUES - 1):
        sequence.add(1.0)
    assert (sequence.lower, sequence.upper) == (-math.inf, math.inf)
    sequence.add(1.0)
    assert (sequence.lower, sequence.upper) == (1.0, 1.0)


def test_the_mean_and_its_spread_are_those_of_all_values() -> None:
    values = np.random.default_rng(1).normal(3, 2, 50)
    sequence = ConfidenceSequence()
    for value in values:
        sequence.add(value)
    assert sequence.mean == pytest.approx(values.mean())
    again = ConfidenceSequence()
    for value in 10 * values:
        again.add(value)
    assert again.half_width == pytest.approx(10 * sequence.half_width)


@pytest.mark.parametrize("shape", ["normal", "exponential"])
def test_a_mean_on_the_limit_is_seldom_shown_to_be_beyond_it_however_often_one_looks(shape: str) -> None:
    """400 services of 500 windows each, whose true mean is on the limit: at most 5 % are ever taken off."""
    random = np.random.default_rng(2)
    draw = (lambda: random.normal(1, 0.5, 500)) if shape == "normal" else (lambda: random.exponential(1, 500))
    alarms = 0
    for _ in range(400):
        sequence = ConfidenceSequence(0.05)
        for value in draw():
            sequence.add(value)
            if sequence.lower > 1:
                alarms += 1
                break
    assert alarms <= 0.05 * 400


def test_a_mean_beyond_the_limit_is_shown_soon() -> None:
    random = np.random.default_rng(3)
    needed = []
    for _ in range(100):
        sequence = ConfidenceSequence()
        while not sequence.lower > 1:
            sequence.add(random.normal(1.5, 0.5))
        needed.append(sequence.n)
    assert np.median(needed) <= 15
