from __future__ import annotations

import math

import numpy as np
import pytest

from damoos.model.trial import Measurement
from damoos.scorers.daos import DaosScorer
from damoos.scorers.sla import SlaScorer
from damoos.statistics.arms import arms, scheme_noise
from damoos.statistics.limits import Standing
from tests.unit.statistics.samples import BASE, judge_of, noisy, rounds


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
    assert arms(table, DaosScorer(), [], None, lambda _: 0.05, 6) == {}
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
