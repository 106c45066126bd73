from __future__ import annotations

import math

import numpy as np
import pytest

from damoos.model.trial import Measurement
from damoos.scorers.daos import DaosScorer
from damoos.verdict import arms, interval, judge


def rounds(**arm_values: list[tuple[float, float]]) -> list[dict[str, Measurement]]:
    """Runtime and RSS of each arm, round by round."""
    count = len(next(iter(arm_values.values())))
    return [
        {
            arm: Measurement({"runtime_s": values[n][0], "rss_avg_bytes": values[n][1], "net_avg_bytes": values[n][1]})
            for arm, values in arm_values.items()
        }
        for n in range(count)
    ]


BASE = [(100.0, 1000.0), (101.0, 1000.0), (99.5, 1001.0)]


def verdict(**arm_values: list[tuple[float, float]]):
    found = arms(rounds(**arm_values), DaosScorer(), [0.1])
    return judge(found, "maximize"), found


def test_a_clear_winner() -> None:
    said, found = verdict(baseline=BASE, manual=[(103, 700)] * 3, tuned=[(101, 500)] * 3)
    assert said.best == "tuned"
    assert found["tuned"].score > found["manual"].score > 0
    assert abs(found["baseline"].score) < 0.01


def test_equals_are_said_to_be_equals() -> None:
    manual = [(103.0, 500.0), (101.0, 540.0), (102.0, 520.0)]
    tuned = [(101.0, 530.0), (102.5, 510.0), (102.0, 500.0)]
    said, _ = verdict(baseline=BASE, manual=manual, tuned=tuned)
    assert said.best == "indistinguishable"
    assert "cannot be told apart" in said.text
    assert "they beat baseline" in said.text


def test_an_arm_that_breaks_the_limit_cannot_win() -> None:
    said, found = verdict(baseline=BASE, manual=[(150, 10)] * 3, tuned=[(101, 800)] * 3)
    assert said.best == "tuned"
    assert not found["manual"].feasible
    assert "manual breaks the scorer's limit" in said.text


def test_leaving_it_alone_may_be_best() -> None:
    quiet = [(100.0, 1000.0), (100.1, 1000.0), (99.9, 1000.0)]
    said, _ = verdict(baseline=quiet, manual=[(108, 1000)] * 3, tuned=[(109, 1010)] * 3)
    assert said.best == "baseline"


def test_an_arm_with_a_failed_run_is_left_out() -> None:
    table = rounds(baseline=BASE, manual=[(103, 700)] * 3, tuned=[(101, 500)] * 3)
    del table[1]["tuned"]
    said = judge(arms(table, DaosScorer(), []), "maximize")
    assert said.best == "manual"
    assert "tuned has no valid runs" in said.text


def test_students_interval() -> None:
    low, high = interval([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2.0)
    assert high - 2.0 == pytest.approx(4.302652729911275 / math.sqrt(3))
    assert interval([1.0]) == (-math.inf, math.inf)


def test_the_same_scheme_twice_is_never_told_apart() -> None:
    table = rounds(baseline=BASE, manual=[(103, 500.0), (103, 501.0), (103, 500.5)], tuned=[(103, 550.0)] * 3)
    found = arms(table, DaosScorer(), [])
    assert judge(found, "maximize").best == "manual"
    said = judge(found, "maximize", same_scheme=True)
    assert said.best == "tuned"
    assert "manual is the same scheme as tuned" in said.text


def test_false_winners_are_rare() -> None:
    """Three arms that are the same, 2 % noise, three rounds: a winner in at most 5 % of the studies."""
    random = np.random.default_rng(7)
    nr_studies, winners = 600, 0
    for _ in range(nr_studies):
        noise = random.normal(1, 0.02, (3, 3, 2))
        same = {
            arm: [(100 * t, 1000 * m) for t, m in noise[i]] for i, arm in enumerate(("baseline", "manual", "tuned"))
        }
        said = judge(arms(rounds(**same), DaosScorer(), [0.0]), "maximize")
        winners += said.best != "indistinguishable"
    assert winners / nr_studies <= 0.05, winners
