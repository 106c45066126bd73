"""Differences of differences, with bounds that hold however often one looks."""

from __future__ import annotations

import math
import random

import pytest

from damoos.rollouts.effect import Track, effect

WINDOW_S = 10.0


def track(
    level: float, added: float = 0.0, seed: int = 0, nr: int = 60, noise: float = 0.1, rise: float = 0.0
) -> Track:
    chance = random.Random(seed)
    values = [level + chance.gauss(0, noise) + rise * nth for nth in range(2 * nr)]
    windows = [{"at_s": WINDOW_S * nth, "x": value + added * (nth >= nr)} for nth, value in enumerate(values)]
    return Track(windows[:nr], windows[nr:])


def found(policy: list[Track], control: list[Track], relative: bool = False, risk: float = 0.05):
    return effect(policy, control, lambda window: window["x"], WINDOW_S, risk, relative=relative)


def test_machines_of_different_size_are_compared_with_themselves() -> None:
    policy, control = [track(10, -2, seed=1), track(20, -4, seed=2)], [track(5, seed=3), track(40, seed=4)]
    assert found(policy, control).mean == pytest.approx(-3, abs=0.1)
    assert found(policy, control, relative=True).mean == pytest.approx(-0.2, abs=0.02)


def test_what_all_of_them_do_is_nobody_s_doing() -> None:
    rising = found([track(10, 1, seed=1, rise=0.05)], [track(10, seed=2, rise=0.05)])
    assert rising.lower < 1 < rising.upper
    assert rising.upper - rising.lower < 0.6
    alone = found([track(10, 1, seed=1, rise=0.05)], [])
    assert math.isinf(alone.lower)  # without others beside it, a rise of all of them is not to be told from the policy


def test_too_little_says_nothing() -> None:
    whole = track(10, 1)
    for few in (Track(whole.before[:5], whole.after), Track(whole.before, []), Track([], whole.after)):
        assert math.isinf(found([few], [track(10, seed=2)]).upper)
    assert math.isinf(found([Track(whole.before, whole.after[:5])], [track(10, seed=2)]).upper)


def test_busy_machines_that_take_longer_are_compared_all_the_same() -> None:
    def late(one: Track, by_s: float) -> Track:
        return Track(
            *([{**window, "at_s": 2.2 * window["at_s"] + by_s} for window in side] for side in (one.before, one.after))
        )

    slow = found([late(track(10, 1, seed=1), 7.0)], [late(track(10, seed=2), 0.0)])
    assert slow.nr_windows > 20
    assert slow.mean == pytest.approx(1, abs=0.1)


def test_a_missing_value_is_left_out() -> None:
    policy = track(10, 1, seed=1)
    gaps = Track([*policy.before, {"at_s": 5.0, "x": None}], [*policy.after, {"at_s": 605.0, "x": None}])
    assert found([gaps], [track(10, seed=2)]) == found([policy], [track(10, seed=2)])


@pytest.mark.parametrize("nr_machines", [1, 4])
def test_the_risk_is_kept_at_all_looks_at_once(nr_machines: int) -> None:
    """Of policies that do nothing, not more than the risk are ever said to do something."""
    wrong = 0
    for nth in range(150):
        policy = [track(10, seed=1000 * nth + one) for one in range(nr_machines)]
        control = [track(10, seed=1000 * nth + 500 + one) for one in range(nr_machines)]
        looks = (
            found([Track(one.before, one.after[:upto]) for one in policy], control, risk=0.1)
            for upto in range(18, 61, 6)
        )
        wrong += any(look.lower > 0 for look in looks)
    assert wrong / 150 <= 0.1
