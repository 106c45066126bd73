"""When something is no longer what it was."""

from __future__ import annotations

import random

import pytest

from damoos.statistics.drift import LEARNED_VALUES, Drift


def first_alarm(drift: Drift, values: list[float]) -> int:
    return next((nth for nth, value in enumerate(values) if drift.add(value)), -1)


@pytest.mark.parametrize("shift", [-4.0, 4.0])
def test_a_shift_beyond_the_noise_is_seen_within_some_values(shift: float) -> None:
    found = []
    for seed in range(50):
        noise = random.Random(seed)
        before = [noise.gauss(100, 1) for _ in range(60)]
        after = [noise.gauss(100 + shift, 1) for _ in range(20)]
        found.append(first_alarm(Drift(least_share=0.0), before + after))
    assert sum(nth < 60 for nth in found) <= 1
    assert sorted(found)[25] <= 66


def test_noise_alone_seldom_alarms() -> None:
    """Although twelve values tell little of it."""
    alarms = 0
    for seed in range(100):
        noise = random.Random(seed)
        alarms += first_alarm(Drift(least_share=0.0), [noise.gauss(0, 1) for _ in range(500)]) >= 0
    assert alarms <= 2


def test_what_is_too_little_to_matter_is_no_change() -> None:
    assert first_alarm(Drift(least_spread=16.0), [0.0] * LEARNED_VALUES + [15.0] * 1000) == -1
    assert first_alarm(Drift(), [100.0] * LEARNED_VALUES + [104.0] * 1000) == -1
    assert first_alarm(Drift(), [100.0] * LEARNED_VALUES + [120.0] * 10) >= LEARNED_VALUES + 2


def test_one_value_is_none() -> None:
    assert first_alarm(Drift(), [1.0] * LEARNED_VALUES + [1e9] + [1.0] * 100) == -1
