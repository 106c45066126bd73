from __future__ import annotations

import math

import numpy as np
import pytest

from damoos.statistics.intervals import Noise, alpha_of_a_look, interval, moderated, of_difference, student


def test_students_interval() -> None:
    low, high = interval([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2.0)
    assert high - 2.0 == pytest.approx(4.302652729911275 / math.sqrt(3))
    assert interval([1.0]) == (-math.inf, math.inf)


@pytest.mark.parametrize("count", [3, 6, 8, 12])
@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say(count: int) -> None:
    random = np.random.default_rng(7)
    held = [low <= 0 <= high for low, high in (interval(random.normal(size=count)) for _ in range(600))]
    assert 0.92 <= np.mean(held) <= 0.975


def test_without_known_noise_it_is_students() -> None:
    mean = moderated([1.0, 2.0, 3.0])
    assert (mean.mean - mean.half(0.95), mean.mean + mean.half(0.95)) == pytest.approx(interval([1.0, 2.0, 3.0]))
    assert moderated([1.0]).half(0.95) == math.inf


def test_known_noise_makes_two_values_enough() -> None:
    alone, helped = moderated([1.0, 1.02]), moderated([1.0, 1.02], [Noise(0.015, 2)])
    assert helped.freedom == pytest.approx(3)
    assert helped.half(0.98) < alone.half(0.98) / 5
    # Two values that happen to be the same are not without noise.
    assert moderated([1.0, 1.0], [Noise(0.015, 2)]).half(0.98) > 0.02


def test_values_that_lie_further_apart_than_the_known_noise_have_their_own() -> None:
    mean = moderated([1.0, 1.2], [Noise(0.01, 2)])
    assert mean.variance == pytest.approx(0.02)
    assert mean.freedom == pytest.approx(1, abs=0.01)


def test_the_noise_of_a_difference_is_that_of_both() -> None:
    noise = of_difference([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert noise.deviation == pytest.approx(math.sqrt(2))
    assert noise.freedom == pytest.approx(4)
    # One that has none does not count.
    assert of_difference([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]) == Noise(1.0, 2.0)
    assert of_difference([1.0, 1.0], [0.0, 0.0]) == Noise(0.0, 1)


def test_what_is_known_of_their_own_noise_is_the_least() -> None:
    own = Noise(0.5, 3.5)
    assert moderated([1.0, 1.0, 1.0], (), own).variance == 0.25
    assert moderated([1.0, 1.0, 1.0], (), own).freedom == 3.5
    assert moderated([1.0, 2.0], (), own).variance == 0.5


def test_more_values_make_it_narrower() -> None:
    mean = moderated([1.0, 2.0])
    assert mean.half(0.95, more=1) == pytest.approx(student(0.95, 2) * math.sqrt(0.5 / 3))


@pytest.mark.parametrize("freedom", [1, 3])
def test_several_looks_take_the_chance_of_one(freedom: int) -> None:
    """With the noise as it is known from a few baselines."""
    random = np.random.default_rng(11)
    nr_studies, nr_looks = 1500, 5
    level = 1 - alpha_of_a_look(nr_looks)
    alarms = 0
    for _ in range(nr_studies):
        noise = Noise(float(np.std(random.normal(size=freedom + 1), ddof=1)), freedom)
        values = random.normal(size=nr_looks + 1)
        looks = (moderated(values[:count], [noise]) for count in range(2, nr_looks + 2))
        alarms += any(abs(mean.mean) > mean.half(level) for mean in looks)
    assert 0.01 < alarms / nr_studies < 0.05


def test_the_levels_of_looks() -> None:
    assert [alpha_of_a_look(count) for count in (1, 2, 10, 20)] == [0.05, 0.0294, 0.0106, 0.0053]
