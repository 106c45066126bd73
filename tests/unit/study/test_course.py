"""What the validation of a study does next: rounds until the verdict is clear, retreat, the budget of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from damoos import api
from damoos.bench.simulated import simulate
from damoos.bench.surfaces import generate
from damoos.errors import ConfigError, WorkloadError
from damoos.model.trial import Run, Score, Trial
from damoos.study.course import candidates, outcome
from damoos.study.frontier import frontier
from damoos.study.plan import least_runs, plan, samples_within
from damoos.study.scoring import tightened
from damoos.testing.fake import FakeMachine

Use = Callable[[FakeMachine], FakeMachine]
NR_SEARCH = len(plan(10))


def tune(results: Path, **words: Any) -> api.TunedStudy:
    return api.tune(command="true", machine="fake", results=results, **{"trials": 10, "seed": 1, **words})


def rounds(found: api.TunedStudy) -> list[list[str]]:
    """The arms of each round of the validation, in their order."""
    runs = [run for run in found.study.runs() if run.kind == "validation"]
    return [[run.arm for run in runs if run.number == number] for number in range(runs[-1].number + 1)]


def undisturbed(fake: Use, results: Path, noise: float = 0.002) -> list[Run]:
    """The runs of a study on a machine that does not change."""
    fake(FakeMachine(noise=noise))
    return tune(results / "undisturbed").study.runs()


def nr_searched(runs: Sequence[Run]) -> int:
    """How many runs come before the validation."""
    return sum(run.kind != "validation" for run in runs)


def later(fake: Use, results: Path, slowdown: float, below_s: float) -> None:
    """Use a machine on which schemes below an age slow down more in the validation than they did in the search."""
    before = nr_searched(undisturbed(fake, results))
    machine = fake(FakeMachine(noise=0.002))
    curve = machine.curve

    def changed(age_s: float) -> tuple[float, float]:
        slower, saving = curve(age_s)
        return (slowdown if age_s < below_s and machine.nr_runs > before else slower), saving

    machine.curve = changed


def test_a_clear_verdict_takes_two_rounds(fake: Use, tmp_path: Path) -> None:
    machine = fake(FakeMachine(noise=0.0002))
    found = tune(tmp_path)
    assert rounds(found) == [["baseline", "manual", "candidate-1"], ["candidate-1", "manual", "baseline"]]
    assert found.result["verdict"] == "tuned"
    assert machine.nr_runs == nr_searched(undisturbed(fake, tmp_path, noise=0.0002)) + 2 * 3 < least_runs(10)


def test_rounds_go_on_with_those_in_question_only(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.02, seed=3))
    found = tune(tmp_path)
    assert len(rounds(found)) > 2
    assert {"manual", "candidate-1"} <= set(rounds(found)[0])
    assert all("baseline" in arms for arms in rounds(found)[:2])
    repeats = {name: arm["repeats"] for name, arm in found.result["validation"].items()}
    assert max(repeats.values()) == len(rounds(found)) <= 6


def test_from_the_third_round_on_there_is_a_baseline_only_if_it_is_in_question(fake: Use, tmp_path: Path) -> None:
    """Two rounds have shown that both schemes are better than none, but not yet which one is the better."""
    fake(FakeMachine(noise=0.01, seed=1))
    found = tune(tmp_path, tune=["min_age=4s:9s"])
    first, second, third = rounds(found)
    assert sorted(first) == sorted(second) == ["baseline", "candidate-1", "manual"]
    assert sorted(third) == ["candidate-1", "manual"]
    arms = found.result["validation"]
    assert (arms["baseline"]["repeats"], arms["manual"]["repeats"]) == (2, 3)
    # It is scored against the baseline of the round before.
    assert len(arms["manual"]["scores"]) == 3
    assert found.result["verdict"] == "indistinguishable"


def test_a_candidate_that_breaks_the_limit_gives_way_to_a_more_prudent_one(fake: Use, tmp_path: Path) -> None:
    later(fake, tmp_path, slowdown=0.3, below_s=4)
    found = tune(tmp_path)
    validation = found.result["validation"]
    assert list(validation)[:4] == ["baseline", "manual", "tuned", "rejected"]
    assert (validation["rejected"]["limits"], validation["rejected"]["feasible"]) == ("broken", False)
    assert validation["rejected"]["params"]["min_age_us"] < 4_000_000
    assert validation["tuned"]["feasible"]
    assert found.best["params"] == validation["tuned"]["params"]
    assert found.best["params"]["min_age_us"] >= 4_000_000
    assert found.result["verdict"] in ("tuned", "manual", "indistinguishable")
    assert "rejected breaks the scorer's limit" in found.result["verdict_text"]
    # The hand-made scheme may still be the best, so it runs beside the second one, too.
    assert sorted(rounds(found)[2]) == ["baseline", "candidate-2", "manual"]


def test_candidates_are_as_many_as_were_asked_for(fake: Use, tmp_path: Path) -> None:
    later(fake, tmp_path, slowdown=0.3, below_s=100)
    found = tune(tmp_path, candidates=2)
    assert list(found.result["validation"]) == ["baseline", "manual", "tuned", "rejected"]
    assert found.result["verdict"] == "baseline"
    assert not found.result["validation"]["tuned"]["feasible"]


def test_a_candidate_that_crashes_gives_way_at_once(fake: Use, tmp_path: Path) -> None:
    order = [run.key for run in undisturbed(fake, tmp_path)]
    fake(FakeMachine(noise=0.002, failures={order.index("validation-000-candidate-1"): WorkloadError("it crashed")}))
    found = tune(tmp_path)
    assert rounds(found)[:2] == [["baseline", "manual", "candidate-1"], ["candidate-2", "manual", "baseline"]]
    assert found.result["validation"]["tuned"]["feasible"]
    # It has no arm, but it is told, and nothing recommends its point again.
    (failure,) = found.result["failures"]
    assert (failure["run"], failure["arm"]) == ("validation-000-candidate-1", "candidate-1")
    assert found.result["verdict_text"].endswith("; candidate-1 failed in its first run")
    assert "validation-000-candidate-1 failed: it crashed" in repr(found)
    points = [point.params["min_age_us"] for point in frontier(found.study).values() if point]
    assert points
    assert failure["params"]["min_age_us"] not in points


def test_a_candidate_that_crashes_in_its_second_run_is_rejected(fake: Use, tmp_path: Path) -> None:
    order = [run.key for run in undisturbed(fake, tmp_path)]
    fake(FakeMachine(noise=0.002, failures={order.index("validation-001-candidate-1"): WorkloadError("it crashed")}))
    found = tune(tmp_path)
    rejected = found.result["validation"]["rejected"]
    assert (rejected["limits"], rejected["repeats"], rejected["failures"]) == ("broken", 1, 1)
    assert [one["arm"] for one in found.result["failures"]] == ["rejected"]
    assert "; rejected failed in a run" in found.result["verdict_text"]
    assert "(1 run)  failed in 1 run" in repr(found)


def test_a_manual_scheme_that_lost_runs_no_more(fake: Use, tmp_path: Path) -> None:
    """It breaks the limit, so that further rounds are of the others."""
    later(fake, tmp_path, slowdown=0.3, below_s=6)
    found = tune(tmp_path)
    assert "manual breaks the scorer's limit" in found.result["verdict_text"]
    assert all("manual" not in arms for arms in rounds(found)[2:])


def test_the_budget_of_runs_is_kept(fake: Use, tmp_path: Path) -> None:
    machine = fake(FakeMachine(noise=0.03, seed=6))
    found = tune(tmp_path, runs=20, searcher="grid")
    assert machine.nr_runs <= 20
    assert len(found.result["trials"]) == 10
    assert len(rounds(found)) == 2


def test_trials_give_way_to_the_validation(fake: Use, tmp_path: Path) -> None:
    machine = fake(FakeMachine(noise=0.0002))
    found = tune(tmp_path, runs=15)
    assert machine.nr_runs == 15
    assert len(found.result["trials"]) == 6
    assert found.result["verdict"] == "tuned"


def test_the_search_ends_where_no_trial_is_expected_to_pay(fake: Use, tmp_path: Path) -> None:
    class Flat(FakeMachine):
        """All schemes do the same."""

    machine = fake(Flat(curve=lambda age_s: (0.0, 0.3), noise=0.0002))
    found = tune(tmp_path, trials=20)
    assert 3 <= len(found.result["trials"]) < 10
    assert machine.nr_runs < least_runs(10)
    kinds = [run.kind for run in found.study.runs() if run.kind != "validation"]
    assert kinds[-1] == "trial"  # the baseline behind it is the validation's
    assert len(tune(tmp_path, trials=20, searcher="grid").result["trials"]) == 20


def test_too_few_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--runs 10: no room for a validation; give 11 or more"):
        tune(tmp_path, runs=10)


def test_how_many_trials_fit() -> None:
    assert samples_within(10, None) == samples_within(10, least_runs(10)) == 10
    assert samples_within(10, least_runs(10) - 1) == 9
    assert samples_within(10, least_runs(2)) == 2


def test_limits_that_are_tightened_break_sooner() -> None:
    def trial(number: int, margin: float) -> Trial:
        return Trial(number, {"min_age_us": 1e6 * number}, "complete", Score(0.2, True, {"slowdown<=0.1": margin}))

    history = (trial(1, 0.4), trial(2, 0.1))
    assert tightened(history, 1.0) == history
    found = tightened(history, 0.8)
    # A slowdown of 6 % is 2 % below 8 %, which is a quarter of that; one of 9 % is beyond it.
    assert [one.score.margins["slowdown<=0.1"] for one in found] == pytest.approx([0.25, -0.125])
    assert [(one.score.feasible, one.score.value) for one in found] == [(True, 0.2), (False, None)]


def test_each_candidate_aims_further_inside_the_limits() -> None:
    """On a made workload of which the first two cannot be shown to keep them."""
    study, runs = simulate(generate(4, 2, 1)[3], "auto", 8, seed=3)
    ages = [point["min_age_us"] for point in candidates(runs).values()]
    assert len(ages) == 3
    assert ages == sorted(set(ages))
    assert outcome(study, runs).arms["tuned"].feasible
