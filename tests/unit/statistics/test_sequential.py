from __future__ import annotations

import math

import numpy as np
import pytest

from damoos.statistics.sequential import LEAST_VALUES, ConfidenceSequence


def correlated(rho: float, nr: int, length: int) -> np.ndarray:
    """Series of windows around 1, each of which remembers the one before it."""
    random = np.random.default_rng(2)
    noise = random.normal(size=(nr, length))
    for nth in range(1, length):
        noise[:, nth] = rho * noise[:, nth - 1] + math.sqrt(1 - rho**2) * noise[:, nth]
    return 1 + 0.3 * noise


def is_shown(values: list[float], bound: float = 1.0) -> bool:
    sequence = ConfidenceSequence()
    for value in values:
        sequence.add(value)
        if sequence.lower > bound:
            return True
    return False


def test_few_values_show_nothing() -> None:
    sequence = ConfidenceSequence(most=0.0)
    for _ in range(LEAST_VALUES - 1):
        sequence.add(1.0)
    assert (sequence.lower, sequence.upper) == (-math.inf, math.inf)
    sequence.add(1.0)
    assert (sequence.lower, sequence.upper) == (1.0, 1.0)


def test_bounds_scale_with_the_values() -> None:
    values = np.random.default_rng(1).normal(3, 2, 50)
    one, ten = ConfidenceSequence(), ConfidenceSequence()
    for value in values:
        one.add(value)
        ten.add(10 * value + 1000)
    assert one.mean == pytest.approx(values.mean())
    assert one.lower < values.mean()
    assert ten.lower == pytest.approx(10 * one.lower + 1000)


@pytest.mark.parametrize("shape", ["normal", "exponential"])
def test_a_mean_on_the_limit_is_seldom_shown_to_be_beyond_it_however_often_one_looks(shape: str) -> None:
    """150 services of 300 windows each, whose true mean is on the limit: at most 5 % are ever taken off."""
    random = np.random.default_rng(2)
    draw = (lambda: random.normal(1, 0.5, 300)) if shape == "normal" else (lambda: random.exponential(1, 300))
    assert sum(is_shown(draw().tolist()) for _ in range(150)) <= 0.05 * 150


@pytest.mark.parametrize("rho", [0.7, 0.95])
def test_windows_that_remember_those_before_raise_no_more_false_alarms(rho: float) -> None:
    """Taken for independent, 52 to 82 % of such services were shown to break a limit on which their mean is."""
    assert sum(map(is_shown, correlated(rho, 100, 500).tolist())) <= 0.05 * 100


def test_a_burst_that_has_not_come_yet_is_not_taken_for_none() -> None:
    """5 % of the windows are ten times the others, and the mean is on the limit: 72 % were shown to lie below it."""
    random = np.random.default_rng(3)
    shown = 0
    for _ in range(100):
        sequence = ConfidenceSequence()
        for is_burst, value in zip(random.random(300) < 0.05, random.normal(1, 0.1, 300), strict=True):
            sequence.add(value * (10 if is_burst else 1))
            if sequence.upper < 1.45:
                shown += 1
                break
    assert shown <= 0.05 * 100


def test_how_large_a_burst_may_be_bounds_what_those_that_have_not_come_add() -> None:
    bounds = []
    for most in (0.0, 1.0):
        sequence = ConfidenceSequence(0.05, most)
        for value in np.random.default_rng(1).normal(1, 0.1, 50):
            sequence.add(value)
        bounds.append(sequence.upper)
    assert bounds[1] - bounds[0] == pytest.approx(math.log(20) / 50)


def test_a_mean_beyond_the_limit_is_shown_soon() -> None:
    random = np.random.default_rng(3)
    needed = []
    for _ in range(100):
        sequence = ConfidenceSequence()
        while not sequence.lower > 1:
            sequence.add(random.normal(1.5, 0.5))
        needed.append(sequence.n)
    assert np.median(needed) <= 25
