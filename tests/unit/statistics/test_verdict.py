from __future__ import annotations

import numpy as np
import pytest

from damoos.bench.aa import false_winners
from damoos.model.trial import Measurement
from damoos.scorers.daos import DaosScorer
from damoos.scorers.sla import SlaScorer
from damoos.statistics.arms import Arm
from damoos.statistics.limits import Standing
from damoos.statistics.verdict import Verdict, settle, wants_baseline
from tests.unit.statistics.samples import BASE, Values, judge_of, noisy, rounds

QUIET = [(100.0, 1000.0), (100.1, 1000.0), (99.9, 1000.0)]


def verdict(**arm_values: Values) -> tuple[Verdict, dict[str, Arm]]:
    table = rounds(**arm_values)
    judge = judge_of(table)
    found = judge.arms(table)
    return judge.verdict(found), found


def in_question(max_rounds: int = 6, same_scheme: bool = False, **arm_values: Values) -> list[str]:
    table = rounds(baseline=BASE, **arm_values)
    judge = judge_of(table, max_rounds=max_rounds)
    return judge.in_question(judge.arms(table), same_scheme)


def test_a_clear_winner() -> None:
    said, found = verdict(baseline=BASE, manual=[(103, 700)] * 3, tuned=[(101, 500)] * 3)
    assert said.best == "tuned"
    assert found["tuned"].score > found["manual"].score > 0
    assert abs(found["baseline"].score) < 0.01


def test_two_rounds_are_enough_for_what_is_clear() -> None:
    said, _ = verdict(baseline=BASE[:2], manual=[(103, 700)] * 2, tuned=[(101, 500)] * 2)
    assert said.best == "tuned"


def test_equals_are_said_to_be_equals() -> None:
    manual = [(103.0, 500.0), (101.0, 540.0), (102.0, 520.0)]
    tuned = [(101.0, 530.0), (102.5, 510.0), (102.0, 500.0)]
    said, _ = verdict(baseline=BASE, manual=manual, tuned=tuned)
    assert said.best == "indistinguishable"
    assert "cannot be told apart" in said.text
    assert "they beat baseline" in said.text


def test_who_beats_whom_is_said_of_those_that_do() -> None:
    manual, tuned = [(99, 990), (99, 965), (99, 995)], [(99, 975), (99, 970), (99, 972)]
    said, found = verdict(baseline=QUIET, manual=manual, tuned=tuned)
    judge = judge_of(rounds(baseline=QUIET, manual=manual, tuned=tuned))
    assert not judge.beats(found["manual"], found["baseline"], found)
    assert said.text.startswith("tuned and manual cannot be told apart")
    assert "; tuned beats baseline" in said.text


def test_an_arm_that_failed_in_a_run_cannot_win_and_is_said_to_have_failed() -> None:
    table = rounds(baseline=BASE, manual=[(101, 800)] * 3, tuned=[(101, 500)] * 3)
    table[1] = {**table[1], "tuned": None}
    judge = judge_of(table)
    found = judge.arms(table)
    assert (found["tuned"].standing, found["tuned"].has_failed) == (Standing.BROKEN, True)
    said = judge.verdict(found)
    assert said.best == "manual"
    assert said.text.endswith("; tuned failed in a run")


def test_an_arm_that_breaks_the_limit_cannot_win() -> None:
    said, found = verdict(baseline=BASE, manual=[(150, 10)] * 3, tuned=[(101, 800)] * 3)
    assert said.best == "tuned"
    assert not found["manual"].feasible
    assert "manual breaks the scorer's limit" in said.text


def test_an_arm_that_is_not_shown_to_keep_the_limit_cannot_win() -> None:
    unclear = [(109.0, 400.0), (101.0, 400.0), (112.0, 400.0)]
    said, found = verdict(baseline=QUIET, manual=[(95, 300)] * 3, tuned=[(one, rss + 300) for one, rss in unclear])
    assert found["tuned"].standing is Standing.NOT_SHOWN
    assert said.best == "manual"
    assert "tuned is not shown to keep the scorer's limit" in said.text


def test_nothing_wins_over_an_arm_that_may_be_better() -> None:
    """It is not shown to keep the limit, nor to break it, and gains more than the one that does."""
    said, _ = verdict(baseline=QUIET, manual=[(95, 900)] * 3, tuned=[(109, 400), (101, 400), (112, 400)])
    assert said.best == "not comparable"
    assert said.text.startswith("manual and tuned are not comparable (manual +0.0")
    assert "tuned is not shown to keep the scorer's limit" in said.text


def test_leaving_it_alone_may_be_best() -> None:
    said, _ = verdict(baseline=QUIET, manual=[(108, 1000)] * 3, tuned=[(109, 1010)] * 3)
    assert said.best == "baseline"


def test_an_arm_that_never_ran_is_named() -> None:
    said, _ = verdict(baseline=BASE, manual=[(103, 700)] * 3)
    assert said.best == "manual"
    assert "tuned has no valid runs" in said.text


def test_the_same_scheme_twice_is_never_told_apart() -> None:
    table = rounds(baseline=BASE, manual=[(103, 500.0), (103, 501.0), (103, 500.5)], tuned=[(103, 550.0)] * 3)
    judge = judge_of(table)
    assert judge.verdict(judge.arms(table)).best == "manual"
    said = judge.verdict(judge.arms(table), same_scheme=True)
    assert said.best == "tuned"
    assert "manual is the same scheme as tuned" in said.text


def test_an_arm_without_scores_is_not_lost_but_broken() -> None:
    scorer = SlaScorer("memory_saving", limits=["slowdown<=0.05 every"])
    table = rounds(baseline=BASE, manual=[(101, 700)] * 3, tuned=[(101, 300), (101, 300), (120, 300)])
    judge = judge_of(table, scorer)
    found = judge.arms(table)
    assert not found["tuned"].feasible
    said = judge.verdict(found)
    assert said.best == "manual"
    assert "tuned breaks the scorer's limit" in said.text


def test_more_rounds_only_where_they_can_change_the_decision() -> None:
    close = {"manual": noisy([0.50, 0.52, 0.51], 1), "tuned": noisy([0.48, 0.50, 0.495], 2)}
    assert in_question(**close) == ["tuned", "manual"]
    assert in_question(3, **close) == []
    assert in_question(same_scheme=True, **close) == []
    # A rejected candidate is no rival, however close it is.
    assert in_question(tuned=noisy([0.50, 0.52, 0.51], 1), rejected=noisy([0.48, 0.50, 0.495], 2)) == []
    # A difference this small against the noise would not come out of it by three more rounds.
    assert in_question(manual=noisy([0.50, 0.54, 0.46], 1), tuned=noisy([0.54, 0.45, 0.50], 2)) == []
    # Decided already.
    assert in_question(manual=noisy([0.8, 0.8, 0.8], 1), tuned=noisy([0.4, 0.4, 0.4], 2)) == []


def test_the_best_arm_goes_on_until_it_is_shown_to_keep_the_limit() -> None:
    unclear = {"manual": noisy([0.9] * 3, 1), "tuned": [(108.0, 400.0), (105.5, 400.0), (108.5, 400.0)]}
    assert in_question(**unclear) == ["tuned"]
    assert in_question(3, **unclear) == []
    # It lies too close to the limit, or too far apart, to be shown by three rounds more.
    assert in_question(manual=noisy([0.9] * 3, 1), tuned=[(109.0, 400.0), (101.0, 400.0), (112.0, 400.0)]) == []


def test_an_arm_that_may_be_better_goes_on_until_it_is_shown_to_keep_the_limit() -> None:
    """Its gain cannot be told from that of the other, which needs no more rounds itself."""
    unclear = [(108.0, 400.0), (105.5, 405.0), (108.5, 395.0)]
    assert in_question(manual=unclear, tuned=[(101.0, 470.0), (102.5, 475.0), (101.0, 465.0)]) == ["manual"]


def test_an_arm_whose_rounds_are_used_up_does_not_stand_in_the_way() -> None:
    """The tuned one is not shown to keep the limit, so the question is between the others."""
    unclear = [(109.0, 400.0), (101.0, 400.0), (112.0, 400.0), (100.0, 400.0)]
    base = noisy([1.0] * 4, 4)
    table = rounds(baseline=base, manual=noisy([0.9965] * 4, 1), tuned=unclear)
    for late in table[2:]:
        del late["manual"]
    judge = judge_of(table, max_rounds=4)
    found = judge.arms(table)
    assert judge.is_rejected(found["tuned"])
    assert judge.in_question(found) == ["manual", "baseline"]


def test_arms_that_never_met_are_compared_by_what_they_gained() -> None:
    table = rounds(baseline=noisy([1.0] * 4, 4), manual=noisy([1.1] * 4, 1), tuned=noisy([0.5] * 4, 2))
    for number, one in enumerate(table):
        del one["tuned" if number < 2 else "manual"]
    judge = judge_of(table)
    found = judge.arms(table)
    assert judge.verdict(found).best == "tuned"
    assert not judge.is_live(found, "manual")
    assert judge.is_live(found, "tuned")


def test_which_rounds_have_a_baseline() -> None:
    table = rounds(baseline=BASE, manual=BASE, tuned=BASE)
    schemes = ["tuned", "manual"]
    assert wants_baseline([], schemes)
    assert wants_baseline(table[:1], schemes)
    assert not wants_baseline(table[:2], schemes)
    assert wants_baseline(table[:2], [*schemes, "baseline"])
    del table[2]["baseline"]
    assert wants_baseline(table, schemes)


def test_a_round_without_a_baseline_is_scored_against_those_beside_it() -> None:
    table = rounds(baseline=[(100, 1000), (100, 800), (100, 600)], tuned=[(100, 500)] * 3)
    del table[1]["baseline"]
    found = judge_of(table).arms(table)
    assert found["tuned"].scores == pytest.approx({0: 0.25, 1: 0.5 * (1 - 500 / 800), 2: 0.5 * (1 - 500 / 600)})
    assert sorted(found["baseline"].scores) == [0, 2]
    del table[2]["baseline"]
    assert judge_of(table).arms(table)["tuned"].scores == pytest.approx({0: 0.25, 1: 0.25, 2: 0.25})


def test_the_candidate_that_keeps_the_limits_becomes_the_tuned_one() -> None:
    arms = {
        "candidate-1": [(150.0, 300.0)] * 3,
        "candidate-2": [(150.0, 200.0)] * 3,
        "candidate-3": noisy([0.5] * 3, 2),
    }
    table = rounds(baseline=BASE, manual=noisy([0.7] * 3, 1), **arms)
    judge = judge_of(table)
    named, names = settle(judge.arms(table))
    assert names == {"candidate-3": "tuned", "candidate-1": "rejected", "candidate-2": "rejected-2"}
    assert list(named) == ["baseline", "manual", "tuned", "rejected", "rejected-2"]
    said = judge.verdict(named)
    assert said.best == "tuned"
    assert "rejected breaks the scorer's limit" in said.text
    assert judge.is_rejected(named["rejected"])
    assert not judge.is_rejected(named["tuned"])


@pytest.mark.parametrize("ratio", [1, 3, 20])
def test_false_winners_are_rare(ratio: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arms that are the same, looked at after each round; runs under a scheme are noisier than baselines, or not."""
    monkeypatch.setattr("damoos.bench.aa.NR_STUDIES", 300)
    random = np.random.default_rng(3)

    def runs(slowdown: float, rss: float, noise: float) -> list[Measurement]:
        return [
            Measurement({"runtime_s": 10 * (1 + slowdown + noise * a), "rss_avg_bytes": rss * (1 + noise * b)})
            for a, b in random.standard_normal((40, 2))
        ]

    found = false_winners(runs(0, 100, 0.002), runs(0.03, 70, 0.002 * ratio), DaosScorer(), 6)
    for question in ("schemes", "baselines"):
        assert found[question]["false_winners"] <= 0.05
