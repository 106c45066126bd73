"""What finished studies let one expect, and what becomes of that where trials contradict it."""

from __future__ import annotations

import numpy as np
import pytest

from damoos.bench.simulated import learn, play
from damoos.bench.surfaces import elsewhere, generate
from damoos.model.space import Param, Params, Space
from damoos.model.trial import Score, Trial
from damoos.prediction.transfer import Experience, TransferPrior, gain
from damoos.searchers.auto import AutoSearcher

SPACE = Space("4K max  min min  MIN_AGE max  pageout", (Param("min_age", "us", 0, 60_000_000, 100_000),))
AGES_S = (0.5, 1, 2, 4, 8, 15, 30, 60)


def response(age_s: float, cost: float = 1.0, stretch: float = 1.0, saved: float = 1.0) -> tuple[float, float]:
    """Gain and margin at an age."""
    age_s = age_s / stretch
    slowdown = cost * 0.3 / (1 + age_s)
    return saved * 0.3 / (1 + age_s / 20), (0.1 - slowdown) / 0.1


def trial(number: int, age_s: float, stopped: bool = False, **how: float) -> Trial:
    objective, margin = response(age_s, **how)
    score = Score(None, False, {"slowdown<=0.1": margin}) if stopped else Score(
        objective if margin >= 0 else None, margin >= 0, {"slowdown<=0.1": margin}, {"all": objective}
    )  # fmt: skip
    return Trial(number, point(age_s), "censored" if stopped else "complete", score)


def point(age_s: float) -> Params:
    return {"min_age_us": round(age_s * 1_000_000)}


def experience(name: str = "there-1", **how: float) -> Experience:
    return Experience.of(name, "there", "real", tuple(trial(n, age_s, **how) for n, age_s in enumerate(AGES_S)), 0.0)


def test_it_comes_back_from_a_store_as_it_was() -> None:
    known = experience()
    assert Experience.from_json(known.to_json()) == known
    assert known.is_enough
    assert not Experience.of("none", "there", "real", (trial(0, 1, stopped=True),) * 9, 0.0).is_enough


def test_gains_are_in_units_of_leaving_it_alone_where_that_is_a_unit() -> None:
    assert gain(0.3, 0.0) == 0.3
    assert gain(-8.0, -10.0) == pytest.approx(0.2)  # a score to be minimised, turned round


def test_before_any_trial_it_expects_what_was_there() -> None:
    prior = TransferPrior([experience()], SPACE, 0.0)
    ages_s = (1.0, 3.0, 10.0, 40.0)
    found = prior.expected((), [point(age_s) for age_s in ages_s])
    assert found is not None
    gains, margins = zip(*map(response, ages_s), strict=True)
    assert found.mean == pytest.approx(gains, rel=0.2)
    assert list(found.chance) == sorted(found.chance)
    assert found.chance[0] < 0.4
    assert found.chance[-1] > 0.9
    assert np.argmin(np.abs(margins)) == 1
    assert found.scores.shape == found.kept.shape == (len(found.weights), 4)
    assert prior.shares(()) == [pytest.approx(1.0)]


@pytest.mark.parametrize("how", [{"cost": 2.5}, {"cost": 0.4}, {"stretch": 1.5}, {"saved": 0.75}])
def test_trials_tell_what_is_different_here(how: dict[str, float]) -> None:
    prior = TransferPrior([experience()], SPACE, 0.0)
    history = tuple(trial(n, age_s, **how) for n, age_s in enumerate((2.0, 6.0, 20.0)))
    ages_s = (1.0, 3.5, 10.0, 40.0)
    found = prior.expected(history, [point(age_s) for age_s in ages_s])
    assert found is not None
    gains, margins = zip(*(response(age_s, **how) for age_s in ages_s), strict=True)
    assert found.mean == pytest.approx(gains, rel=0.1)
    before = prior.expected((), [point(age_s) for age_s in ages_s])
    assert before is not None
    kept = np.array(margins) >= 0
    assert np.abs(found.chance - kept).sum() <= np.abs(before.chance - kept).sum() + 0.05


def test_the_study_that_fits_is_believed() -> None:
    prior = TransferPrior([experience("like"), experience("unlike", cost=8, saved=0.3)], SPACE, 0.0)
    shares = prior.shares(tuple(trial(n, age_s) for n, age_s in enumerate((2.0, 6.0, 20.0))))
    assert shares is not None
    assert shares[0] > 0.9
    assert sum(shares) == pytest.approx(1)


def test_it_is_dropped_where_no_account_fits() -> None:
    prior = TransferPrior([experience()], SPACE, 0.0)
    upside_down = tuple(
        Trial(n, point(age_s), "complete", Score(0.01 * age_s, True, {"slowdown<=0.1": 0.9}, {"all": 0.01 * age_s}))
        for n, age_s in enumerate((2.0, 20.0, 60.0))
    )
    assert prior.expected(upside_down, [point(3)]) is None
    assert prior.shares(upside_down) is None
    plain, dropped = AutoSearcher(SPACE, 10, 0), AutoSearcher(SPACE, 10, 0)
    dropped.prior = prior
    assert plain.ask(upside_down) == dropped.ask(upside_down)


def test_a_run_that_was_stopped_tells_a_bound() -> None:
    """Whatever used more than it had used by then contradicts nothing."""
    prior = TransferPrior([experience()], SPACE, 0.0)
    bound = Trial(0, point(0.5), "censored", Score(None, False, {"slowdown<=0.1": -0.02}))
    before, after = (prior.expected(history, [point(3)]) for history in ((), (bound,)))
    assert before is not None
    assert after is not None
    assert after.chance[0] <= before.chance[0] + 1e-9


def test_asks_are_the_same_whatever_was_asked_before() -> None:
    history = tuple(trial(n, age_s) for n, age_s in enumerate((2.0, 6.0, 20.0, 9.0)))
    asked = AutoSearcher(SPACE, 10, 0)
    asked.prior = TransferPrior([experience()], SPACE, 0.0)
    for number in (0, 3, 1, 4, 2):
        fresh = AutoSearcher(SPACE, 10, 0)
        fresh.prior = TransferPrior([experience()], SPACE, 0.0)
        assert fresh.ask(history[:number]) == asked.ask(history[:number])


def test_few_trials_do_where_it_is_like_there() -> None:
    """On made workloads; `make bench-search` measures many more."""
    lost = {"nothing": [], "like": []}
    for number, surface in enumerate(generate(8, 31, 1)):
        there = elsewhere(surface, number)
        known = learn(surface, 10, number)
        lost["nothing"].append(play(there, "auto", 4, number).lost)
        lost["like"].append(play(there, "auto", 4, number, like=[known] if known.is_enough else []).lost)
    assert np.mean(lost["like"]) < np.mean(lost["nothing"])
    assert np.mean(lost["like"]) <= 0.06
