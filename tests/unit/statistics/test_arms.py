from __future__ import annotations

import math

import numpy as np
import pytest

from damoos.model.trial import Measurement
from damoos.scorers.daos import DaosScorer
from damoos.scorers.sla import SlaScorer
from damoos.statistics.arms import GAIN, arms, noise_of, scheme_noise
from damoos.statistics.limits import Standing
from tests.unit.statistics.samples import BASE, judge_of, noisy, rounds, run


def test_scores_are_against_the_baseline_of_the_round() -> None:
    table = rounds(baseline=BASE, manual=[(103, 700), (103, 700), (103, 700)])
    manual = judge_of(table).arms(table)["manual"]
    assert manual.scores[1] == pytest.approx(0.5 * (1 - 103 / 101) + 0.5 * 0.3)
    assert manual.gains == pytest.approx(manual.scores)


def test_a_baseline_is_scored_against_the_others() -> None:
    table = rounds(baseline=BASE, manual=[(103, 700)] * 3)
    base = judge_of(table).arms(table)["baseline"]
    assert base.scores[0] == pytest.approx(0.5 * (1 - 100 / 100.25) + 0.5 * (1 - 1000 / 1000.5))
    assert base.gains == {0: 0.0, 1: 0.0, 2: 0.0}


def test_a_run_beyond_the_limit_counts_with_its_own_score() -> None:
    table = rounds(baseline=BASE, manual=[(101, 400), (112, 400), (101, 400)])
    manual = judge_of(table).arms(table)["manual"]
    assert manual.scores[1] == pytest.approx(0.5 * (1 - 112 / 101) + 0.5 * 0.6)
    assert manual.standing is Standing.NOT_SHOWN


def test_a_score_to_be_minimised_gains_when_it_falls() -> None:
    scorer = SlaScorer(minimize="rss_avg_bytes")
    table = rounds(baseline=BASE, manual=[(100, 700)] * 3)
    manual = judge_of(table, scorer).arms(table)["manual"]
    assert manual.score == 700
    assert manual.gain == pytest.approx(np.mean([300, 300, 301]))


def test_a_failed_run_has_broken_the_limits() -> None:
    table = rounds(baseline=BASE, manual=[(103, 700)] * 3, tuned=[(101, 500)] * 3)
    table[1]["tuned"] = None
    found = judge_of(table).arms(table)
    assert (found["tuned"].standing, found["manual"].standing) == (Standing.BROKEN, Standing.KEPT)
    assert list(found["tuned"].scores) == [0, 2]


def test_rounds_that_are_under_way_break_nothing() -> None:
    table = [{"manual": Measurement({"runtime_s": 1.0})}]
    assert arms(table, DaosScorer(), [], {}, 0.05) == {}
    assert scheme_noise({}) is None


def test_the_noise_of_schemes_is_that_of_their_repeats() -> None:
    table = rounds(baseline=BASE, manual=noisy([0.5] * 3, 1), **{"candidate-1": noisy([0.4] * 3, 2)})
    found = judge_of(table).arms(table)
    noise = scheme_noise(found)
    spread = [np.var(list(found[name].scores.values()), ddof=1) for name in ("manual", "candidate-1")]
    assert noise is not None
    assert noise.freedom == 4
    assert noise.deviation == pytest.approx(math.sqrt(np.mean(spread)))
    high = noise.around(0.25)[1]
    assert high - 0.25 == pytest.approx(2.7764451 * noise.deviation)
    assert scheme_noise({"baseline": found["baseline"]}) is None


@pytest.mark.parametrize("scorer", [DaosScorer(), SlaScorer(minimize="rss_avg_bytes")], ids=["relative", "absolute"])
def test_the_noise_of_baselines_is_that_of_a_gain(scorer: DaosScorer | SlaScorer) -> None:
    """A gain is of two runs that differ in nothing but chance."""
    random = np.random.default_rng(9)

    def runs(count: int) -> list[Measurement]:
        return [run(100 * (1 + 0.01 * a), 1000 * (1 + 0.002 * b)) for a, b in random.standard_normal((count, 2))]

    pairs = zip(runs(2000), runs(2000), strict=True)
    gains = [scorer.score(one, other, ()).objective - scorer.score(other, other, ()).objective for one, other in pairs]
    variances = [noise_of(runs(4), scorer)[GAIN].deviation ** 2 for _ in range(400)]
    assert math.sqrt(np.mean(variances)) == pytest.approx(np.std(gains), rel=0.1)
    assert noise_of(runs(4), scorer)[GAIN].freedom == 3
    assert noise_of(runs(1), scorer) == {}


def test_margins_have_a_noise_of_their_own() -> None:
    found = noise_of([run(*values) for values in BASE], DaosScorer())
    assert set(found) == {GAIN, "slowdown<=0.1"}
    # 0.76 % of the runtime are 7.6 % of a limit of 10 %; of two runs it is the root of 2 more.
    assert found["slowdown<=0.1"].deviation == pytest.approx(math.sqrt(2) * 0.076, rel=0.05)
