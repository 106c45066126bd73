from __future__ import annotations

import math

import numpy as np
import pytest

from damoos.bench.aa import false_winners
from damoos.model.trial import Measurement
from damoos.scorers.daos import DaosScorer
from damoos.scorers.sla import SlaScorer
from damoos.statistics.verdict import arms, in_question, interval, judge, scheme_noise, settle


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


def noisy(arm: list[float], seed: int) -> list[tuple[float, float]]:
    random = np.random.default_rng(seed)
    return [(100.0, 1000 * one + random.normal(0, 1)) for one in arm]


def test_more_rounds_only_where_they_can_change_the_decision() -> None:
    close = {"manual": noisy([0.50, 0.52, 0.51], 1), "tuned": noisy([0.47, 0.50, 0.495], 2)}
    found = arms(rounds(baseline=BASE, **close), DaosScorer(), [])
    assert in_question(found, "maximize", 3) == ["tuned", "manual"]
    assert in_question(found, "maximize", 0) == []
    assert in_question(found, "maximize", 3, same_scheme=True) == []
    # A runner-up is no rival, however close it is.
    rivals = {"tuned": noisy([0.50, 0.52, 0.51], 1), "runner-up": noisy([0.47, 0.50, 0.495], 2)}
    assert in_question(arms(rounds(baseline=BASE, **rivals), DaosScorer(), []), "maximize", 3) == []
    # A difference this small against the noise would not come out of it by three more rounds.
    even = {"manual": noisy([0.50, 0.54, 0.46], 1), "tuned": noisy([0.54, 0.45, 0.50], 2)}
    assert in_question(arms(rounds(baseline=BASE, **even), DaosScorer(), []), "maximize", 3) == []
    # Decided already.
    clear = {"manual": noisy([0.8, 0.8, 0.8], 1), "tuned": noisy([0.4, 0.4, 0.4], 2)}
    assert in_question(arms(rounds(baseline=BASE, **clear), DaosScorer(), []), "maximize", 3) == []


def test_later_rounds_hold_only_the_arms_in_question() -> None:
    table = rounds(baseline=BASE * 2, manual=noisy([0.8] * 6, 1), tuned=noisy([0.5] * 6, 2))
    for late in table[3:]:
        del late["manual"]
    found = arms(table, DaosScorer(), [], planned=3)
    assert (len(found["manual"].scores), len(found["tuned"].scores)) == (3, 6)
    assert judge(found, "maximize").best == "tuned"


def test_the_better_candidate_becomes_the_tuned_one() -> None:
    table = rounds(
        baseline=BASE,
        manual=noisy([0.7] * 3, 1),
        **{"candidate-1": [(150.0, 300.0)] * 3, "candidate-2": noisy([0.5] * 3, 2)},
    )
    told, names = settle(table, DaosScorer(), [], 3)
    assert names == {"candidate-2": "tuned", "candidate-1": "runner-up"}
    assert list(told) == ["baseline", "manual", "tuned", "runner-up"]
    said = judge(told, "maximize")
    assert said.best == "tuned"
    assert "runner-up breaks the scorer's limit" in said.text


def three_more_of_the_first(candidate_1: list[tuple[float, float]]) -> list[dict[str, Measurement]]:
    """Three planned rounds of all arms, and three more without the second candidate."""
    candidates = {"candidate-1": candidate_1, "candidate-2": noisy([0.52] * 6, 3)}
    table = rounds(baseline=BASE * 2, manual=noisy([0.7] * 6, 1), **candidates)
    for late in table[3:]:
        del late["candidate-2"]
    return table


def test_later_rounds_do_not_swap_the_candidates() -> None:
    table = three_more_of_the_first(noisy([0.5] * 3 + [0.6] * 3, 2))
    told, names = settle(table, DaosScorer(), [], 3)
    assert names["candidate-1"] == "tuned"
    assert told["tuned"].score < told["runner-up"].score


def test_an_arm_without_scores_is_not_lost_but_broken() -> None:
    scorer = SlaScorer("memory_saving", limits=["slowdown<=0.05"])
    found = arms(rounds(baseline=BASE, manual=[(101, 700)] * 3, tuned=[(120, 300)] * 3), scorer, [])
    assert not found["tuned"].feasible
    assert math.isnan(found["tuned"].score)
    said = judge(found, "maximize")
    assert said.best == "manual"
    assert "tuned breaks the scorer's limit" in said.text


def test_the_noise_of_schemes_is_that_of_their_repeats() -> None:
    table = rounds(baseline=BASE, manual=noisy([0.5] * 3, 1), **{"candidate-1": noisy([0.4] * 3, 2)})
    found = arms(table, DaosScorer(), [])
    noise = scheme_noise(table, DaosScorer(), [])
    spread = [np.var(list(found[name].scores.values()), ddof=1) for name in ("manual", "candidate-1")]
    assert noise.freedom == 4
    assert noise.deviation == pytest.approx(math.sqrt(np.mean(spread)))
    high = noise.around(0.25)[1]
    assert high - 0.25 == pytest.approx(2.7764451 * noise.deviation)
    assert scheme_noise(rounds(baseline=BASE), DaosScorer(), []) is None


@pytest.mark.parametrize("count", [3, 6, 8, 12])
def test_intervals_hold_the_truth_as_often_as_they_say(count: int) -> None:
    random = np.random.default_rng(7)
    held = [low <= 0 <= high for low, high in (interval(random.normal(size=count)) for _ in range(600))]
    assert 0.92 <= np.mean(held) <= 0.975


def test_verdicts_on_equal_runs_stay_under_five_percent() -> None:
    random = np.random.default_rng(3)

    def runs(rss: float) -> list[Measurement]:
        return [
            Measurement({"runtime_s": 10 + 0.02 * a, "rss_avg_bytes": rss * (1 + 0.03 * b)})
            for a, b in random.standard_normal((40, 2))
        ]

    found = false_winners(runs(100), runs(40), DaosScorer(), planned=3)
    for question in ("schemes", "baselines"):
        assert 0.005 < found[question]["false_winners"] < 0.05


def test_a_limit_that_is_broken_once_is_broken() -> None:
    once = [(101.0, 400.0), (112.0, 300.0), (101.0, 400.0)]
    said, found = verdict(baseline=BASE, manual=[(103, 700)] * 3, tuned=once)
    assert not found["tuned"].feasible
    assert said.best == "manual"


def test_a_candidate_that_breaks_the_limit_later_gives_way() -> None:
    table = three_more_of_the_first([(101.0, 400.0)] * 3 + [(115.0, 400.0)] * 3)
    told, names = settle(table, DaosScorer(), [], 3)
    assert names["candidate-2"] == "tuned"
    assert not told["runner-up"].feasible
    assert judge(told, "maximize").best == "tuned"


def test_a_candidate_that_fails_later_has_broken_the_limits() -> None:
    table = rounds(baseline=BASE * 2, manual=noisy([0.7] * 6, 1), **{"candidate-1": noisy([0.5] * 6, 2)})
    assert settle(table, DaosScorer(), [], 3)[0]["tuned"].feasible
    table[4]["candidate-1"] = None
    assert not settle(table, DaosScorer(), [], 3)[0]["tuned"].feasible


def test_rounds_that_are_under_way_break_nothing() -> None:
    assert arms([{"manual": Measurement({"runtime_s": 1.0})}], DaosScorer(), [], 0) == {}
    assert scheme_noise([{"manual": Measurement({"runtime_s": 1.0})}], DaosScorer(), []) is None
