"""What a recording lets a search expect, how trials correct it, and what the default searcher makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from damoos import scorers
from damoos.errors import ConfigError
from damoos.model.space import Params, Space, parse_param
from damoos.model.trial import History, Measurement, Score, Trial
from damoos.prediction.prior import Prediction, RecordedPrior, can_predict
from damoos.prediction.reclaim import Cost, Reclaim
from damoos.searchers.auto import AutoSearcher
from damoos.searchers.base import Expectation, Prior
from damoos.study.config import PRCL, StudyConfig, space_of
from damoos.study.plan import plan
from damoos.testing.contracts import SPACE, grown, hill
from damoos.workloads.base import Tuning

S = 1_000_000
BASE = Measurement({"runtime_s": 10.0, "rss_avg_bytes": 100e6, "rss_max_bytes": 120e6})
AGES = np.arange(0, 121) * 0.5 * S
# At 0 s half of the runtime is lost, at 9 s a twentieth of that.
FOUND = Reclaim(
    AGES, 0.6 - AGES / S / 100, 1 - AGES / S / 100, 2e5 * np.exp(-AGES / S / 3), 1e5 * np.exp(-AGES / S / 3), 20.0
)
COST = Cost(0, 50)
RESOLUTION_US = 2e5


def prior(scorer: str = "daos", runtime_s: float = 10.0, **options: object) -> RecordedPrior:
    return RecordedPrior(Prediction(FOUND, COST, runtime_s, RESOLUTION_US), BASE, scorers.scorer(scorer, options))


def at(age_s: float) -> Params:
    return {"min_age_us": round(age_s * S)}


def trial(age_s: float, slowdown: float, saving: float, state: str = "complete") -> Trial:
    run = Measurement({"runtime_s": 10 * (1 + slowdown), "rss_avg_bytes": 100e6 * (1 - saving)})
    if state == "censored":
        run = Measurement({"elapsed_s": 11.0}, censored=True)
    return Trial(0, at(age_s), state, Score((saving - slowdown) / 2, feasible=slowdown < 0.1), run)


def expected(one: RecordedPrior, age_s: float, *history: Trial) -> dict[str, float]:
    found = one.predicted(history, at(age_s))
    assert found is not None
    return found


def space(*tune: str, scheme: str = PRCL) -> Space:
    return Space(scheme, tuple(parse_param(one, 100_000) for one in tune or ("min_age=0s:60s",)))


@pytest.mark.parametrize(
    ("wanted", "scheme", "tune", "scorer", "options"),
    [
        (True, PRCL, (), "daos", {}),
        (True, PRCL, (), "weighted", {}),
        (True, PRCL, (), "sla", {"minimize": "rss_max_bytes"}),
        (True, "4K 2M  min min  MIN_AGE max  pageout", (), "daos", {}),
        (True, PRCL + "\n4K max  min min  9s max  pageout", (), "daos", {}),
        (False, PRCL, (), "sla", {"maximize": "net_saving"}),
        (False, PRCL, (), "sla", {"limits": ["p99_ms<=1.2x"]}),
        (False, PRCL, (), "psi", {}),
        (False, "4K max  min min  MIN_AGE max  cold", (), "daos", {}),
        (False, "4K max  min 20%  MIN_AGE max  pageout", (), "daos", {}),
        (False, "4K max  min max  MIN_AGE max  pageout", (), "daos", {}),
        (False, PRCL + "\n4K max  80% max  1s max  hugepage", (), "daos", {}),
        (False, "4K max  min min  min MAX_AGE  pageout", ("max_age=1s:60s",), "daos", {}),
        (False, PRCL, ("min_age=0s:60s", "quota_sz=1M:9M"), "daos", {}),
        (False, "MIN_SIZE max  min min  MIN_AGE max  pageout", ("min_age=0s:60s", "min_size=4K:2M"), "daos", {}),
    ],
)
def test_what_a_recording_says_something_of(wanted, scheme, tune, scorer, options) -> None:
    assert can_predict(space(*tune, scheme=scheme), scorers.scorer(scorer, options)) is wanted


def config(**words: object) -> StudyConfig:
    return StudyConfig(**{"workload": None, "command": "true", "machine": "local", "nr_samples": 10, **words})  # type: ignore[arg-type]


def wants(one: StudyConfig) -> bool:
    return one.wants_record(space_of(one, Tuning()))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (True, {}),
        (True, {"nr_samples": 4}),
        (False, {"nr_samples": 3}),
        (True, {"nr_samples": 3, "prior": "record"}),
        (False, {"prior": "none"}),
        (False, {"searcher": "random"}),
        (False, {"scorer": "psi"}),
        (False, {"operations": "paddr"}),
        (False, {"command": None, "pid": 1}),
        (False, {"tune": ["min_age=0s:60s", "quota_sz=1M:9M"]}),
    ],
)
def test_whether_a_study_begins_with_a_recording(wanted: bool, words: dict) -> None:
    assert wants(config(**words)) is wanted


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"searcher": "random"}, "searcher 'random' takes no prior; 'auto' does"),
        ({"command": None, "pid": 1}, "a running process has no runtime to predict"),
        ({"operations": "paddr"}, "operations 'paddr' see more than the workload's memory"),
        ({"scorer": "psi"}, "a recording predicts min_age of a pageout scheme"),
        ({"scheme": "4K max  min min  MIN_AGE max  cold"}, "a recording predicts min_age of a pageout scheme"),
    ],
)
def test_a_recording_of_no_use_is_refused_where_it_is_asked_for(words: dict, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^--prior record: {why}") as refusal:
        config(prior="record", **words).check()
    assert "\n" not in str(refusal.value)


def test_another_word_for_a_prior() -> None:
    with pytest.raises(ConfigError, match="unknown prior 'recrod'; did you mean 'record'"):
        config(prior="recrod")


@pytest.mark.parametrize("nr_samples", [2, 3, 5, 10, 11])
def test_a_recording_takes_the_place_of_the_first_trial(nr_samples: int) -> None:
    plain, recorded = plan(nr_samples), plan(nr_samples, record=True)
    assert recorded[2].key == "record-000"
    assert [run.index for run in recorded] == [run.index for run in plain]
    kinds = [("trial" if run.kind == "record" else run.kind) for run in recorded]
    assert kinds == [run.kind for run in plain]
    assert [run.number for run in recorded if run.kind == "trial"] == list(range(nr_samples - 1))
    assert [run.key for run in recorded if run.kind == "baseline"] == [r.key for r in plain if r.kind == "baseline"]


def test_a_prediction_survives_json() -> None:
    one = Prediction(FOUND, Cost(3, 50, shared=0.5), 12.5, RESOLUTION_US)
    back = Prediction.from_json(json.loads(json.dumps(one.to_json())))
    assert (back.cost, back.runtime_s, back.found.span_s) == (one.cost, one.runtime_s, 20.0)
    ages = np.geomspace(1, 60 * S, 50)
    np.testing.assert_array_equal(back.at(ages), one.at(ages))


def test_between_known_ages_a_prediction_is_smooth() -> None:
    one = Prediction(FOUND, COST, 10.0, RESOLUTION_US)
    saving, peak, longer_s = (float(column[0]) for column in one.at(np.array([3.25 * S])))
    assert saving == pytest.approx(0.6 - 0.0325, abs=1e-3)
    assert peak == pytest.approx(1 - 0.0325, abs=1e-3)
    assert longer_s == pytest.approx(5 * np.exp(-3.25 / 3), rel=0.02)
    # Ages that run twice as fast are reached by half of the recorded time.
    np.testing.assert_allclose(one.at(np.array([8.0 * S]), 2.0), one.at(np.array([4.0 * S])))


def test_before_any_trial_all_accounts_count() -> None:
    early, late = (expected(prior(), age_s) for age_s in (1, 40))
    assert early["slowdown"] > 0.2 > 0.01 > late["slowdown"]
    assert early["memory_saving"] == pytest.approx(0.59, abs=0.06)
    assert late["memory_saving"] == pytest.approx(0.2, abs=0.03)
    assert late["chance"] == pytest.approx(1)
    assert early["chance"] < 0.3
    for low, middle, high in prior().reach(at(5), (0.1, 0.5, 0.9)):
        assert 0 < low < middle < high


def test_what_monitoring_costs_is_in_the_recorded_run() -> None:
    # Its share of the expected slowdown is there where nothing is paged out.
    assert expected(prior(runtime_s=10.5), 59)["slowdown"] == pytest.approx(0.05, abs=0.002)
    assert expected(prior(runtime_s=9.0), 59)["slowdown"] == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_measured_slowdown_moves_what_is_expected_elsewhere(factor: float) -> None:
    one = prior()
    said = {age_s: expected(one, age_s) for age_s in (4, 8)}
    ran = trial(4, factor * said[4]["slowdown"], said[4]["memory_saving"])
    for age_s, before in said.items():
        learnt = expected(one, age_s, ran)
        assert learnt["slowdown"] == pytest.approx(factor * before["slowdown"], rel=0.35)
        assert learnt["memory_saving"] == pytest.approx(before["memory_saving"], rel=0.1)


def test_what_is_not_resident_is_learnt() -> None:
    said = expected(prior(), 20)
    ran = [trial(10, expected(prior(), 10)["slowdown"], 0.7 * 0.5)] * 3
    assert expected(prior(), 20, *ran)["memory_saving"] < 0.9 * said["memory_saving"]


def test_a_run_that_was_stopped_says_that_it_was_too_slow() -> None:
    one = prior()
    said = expected(one, 9)
    assert said["slowdown"] < 0.1
    learnt = expected(one, 9, trial(9, 0.0, 0.0, "censored"))
    assert learnt["slowdown"] > 1.5 * said["slowdown"]
    assert learnt["chance"] < said["chance"]
    # What it tells is when it was stopped, under whatever limit it is looked at.
    strict = prior("sla", maximize="memory_saving", limits=["slowdown<=0.01"])
    assert expected(strict, 9, trial(9, 0.0, 0.0, "censored"))["slowdown"] == pytest.approx(learnt["slowdown"])
    # Of one that was expected to be that slow nothing is learnt.
    assert expected(one, 9, trial(0, 0.0, 0.0, "censored"))["slowdown"] == pytest.approx(said["slowdown"], rel=0.1)


def test_a_run_that_measured_nothing_says_nothing() -> None:
    nothing = Trial(0, at(5), "fail", Score(None, feasible=False))
    assert expected(prior(), 5, nothing) == expected(prior(), 5)


@pytest.mark.parametrize("ran", [trial(5, 3.5, 0.55), trial(5, 0.05, 0.0), trial(20, 0.5, 0.4)])
def test_a_prior_that_is_contradicted_is_dropped(ran: Trial) -> None:
    one = prior()
    assert one.expected((ran,), [at(5)]) is None
    assert one.predicted((ran,), at(5)) is None
    # One of many is bad luck, though.
    right = [trial(age_s, *(expected(one, age_s)[n] for n in ("slowdown", "memory_saving"))) for age_s in (8, 12, 30)]
    assert one.predicted((*right * 9, ran), at(5)) is not None


def test_weights_are_chances() -> None:
    found = prior().expected((), [at(1), at(5), at(50)])
    assert found is not None
    assert found.weights.sum() == pytest.approx(1)
    assert found.scores.shape == found.kept.shape == (len(found.weights), 3)
    assert np.all((found.chance >= 0) & (found.chance <= 1 + 1e-9))
    assert found.deviation >= 0.01


def test_a_score_to_be_minimised_is_turned_round() -> None:
    one = prior("sla", minimize="rss_avg_bytes")
    found = one.expected((), [at(20), at(50)])
    assert found is not None
    assert found.mean[0] > found.mean[1]
    assert np.all(found.mean < 0)
    assert expected(one, 50)["score"] == pytest.approx(100e6 * (1 - expected(one, 50)["memory_saving"]))
    assert expected(one, 50)["score"] == pytest.approx(-found.mean[1])


def test_what_breaks_the_limits_has_no_chance() -> None:
    assert expected(prior(), 1)["chance"] < 0.2 < 0.9 < expected(prior(), 30)["chance"]
    # Of a limit that all ages break nothing is expected, though the baseline breaks it, too.
    assert prior("sla", minimize="rss_avg_bytes", limits=["memory_saving>=0.999"]).predicted((), at(10)) is None
    some = prior("sla", minimize="rss_avg_bytes", limits=["memory_saving>=0.4"]).expected((), [at(5), at(50)])
    assert some is not None
    assert some.chance[1] < 0.01
    assert np.isfinite(some.scores).all()


def test_below_its_resolution_a_recording_bets_on_nothing() -> None:
    assert expected(prior(), 0.1)["chance"] == 0
    assert expected(prior(), 60)["chance"] > 0.99


class Told(Prior):
    """Expects what a test says, until it has been told to drop it."""

    def __init__(self, score: Callable[[float], float], kept: Callable[[float], bool], dropped_from: int = 99) -> None:
        self.score, self.kept, self.dropped_from = score, kept, dropped_from

    def expected(self, history: History, points: Sequence[Params]) -> Expectation | None:
        if len(history) >= self.dropped_from:
            return None
        ages = [point["min_age_us"] / S for point in points]
        scores, kept = np.array([[self.score(age) for age in ages]]), np.array([[self.kept(age) for age in ages]])
        return Expectation(scores, kept.astype(float), np.array([1.0]), 0.01)


def searcher(believed: Prior | None, nr_samples: int = 10) -> AutoSearcher:
    made = AutoSearcher(SPACE, nr_samples, 0)
    made.prior = believed
    return made


def told(best_s: float, **words: object) -> Told:
    return Told(lambda age_s: 0.3 - abs(age_s - best_s) / 100, lambda age_s: True, **words)  # type: ignore[arg-type]


def tried(*runs: tuple[float, float | None]) -> History:
    return tuple(
        Trial(n, at(age_s), "complete", Score(score, feasible=score is not None))
        for n, (age_s, score) in enumerate(runs)
    )


def age_of(point: Params) -> float:
    return point["min_age_us"] / S


def test_the_first_ask_is_where_the_prior_expects_most() -> None:
    assert age_of(searcher(told(11)).ask(())) == 11
    # The best of those that keep the limits.
    cliff = Told(lambda age_s: 0.3 - age_s / 100, lambda age_s: age_s >= 5)
    assert age_of(searcher(cliff).ask(())) == 5


def test_the_next_ask_is_where_it_expects_more_than_is_known() -> None:
    assert abs(age_of(searcher(told(11)).ask(tried((30, 0.1)))) - 11) <= 1
    # Beside one that broke the limit another would, too.
    assert abs(age_of(searcher(told(11)).ask(tried((11, None)))) - 11) > 1
    cliff = Told(lambda age_s: 0.3 - age_s / 100, lambda age_s: age_s >= 5)
    assert age_of(searcher(cliff).ask(tried((7, 0.23)))) == 5


@pytest.mark.parametrize("dropped_from", [0, 1, 2])
def test_when_the_prior_is_gone_its_own_first_points_are_left(dropped_from: int) -> None:
    made = searcher(told(40, dropped_from=dropped_from))
    history = grown(made, hill)
    first = [age_of(one.params) for one in history[:3]]
    assert all(abs(age_s - 40) <= 2 for age_s in first[:dropped_from])
    assert first[dropped_from:] == [7, 21, 2][dropped_from:]


def test_without_a_prior_it_asks_what_it_always_has() -> None:
    never = told(40, dropped_from=0)
    plain, dropped = grown(searcher(None), hill), grown(searcher(never), hill)
    assert [one.params for one in plain] == [one.params for one in dropped]
    assert [age_of(one.params) for one in plain[:3]] == [7, 21, 2]
    assert searcher(None).shortlist(plain, 3) == searcher(never).shortlist(dropped, 3)
    points = [at(age_s) for age_s in range(61)]
    assert searcher(None).estimate(plain, points) == searcher(never).estimate(dropped, points)


@pytest.mark.slow
def test_the_same_history_gives_the_same_ask() -> None:
    believed = prior()
    history = grown(searcher(believed), hill)
    for nth, one in enumerate(history):
        assert searcher(prior()).ask(history[:nth]) == one.params
    assert len({age_of(one.params) for one in history}) == len(history)


def test_a_prior_that_is_right_is_what_is_believed() -> None:
    made = searcher(told(11))
    history = tried((11, 0.3), (30, 0.11), (3, 0.22))
    points = [at(age_s) for age_s in (0, 6, 20, 60)]
    assert made.estimate(history, points) == pytest.approx([0.19, 0.25, 0.21, -0.19], abs=1e-6)


def test_with_a_prior_that_is_right_the_first_trial_is_a_good_one() -> None:
    # Slower than allowed below 1.3 s, and best at about 3 s.
    faults = 1e5 * np.exp(-AGES / S / 0.8)
    found = Reclaim(AGES, FOUND.saving, FOUND.peak, faults, faults, 20.0)
    believed = RecordedPrior(Prediction(found, COST, 10.0, RESOLUTION_US), BASE, scorers.scorer("daos", {}))

    def value(point: Params) -> float:
        return 0.5 * (0.6 - age_of(point) / 100 - 0.5 * np.exp(-age_of(point) / 0.8))

    ages = np.arange(2, 60)
    best = max(value(at(age_s)) for age_s in ages)
    assert value(searcher(believed).ask(())) > best - 0.01
    assert value(searcher(None).ask(())) < best - 0.01


def test_after_two_broken_limits_the_safest_point_is_asked() -> None:
    never_minds = Told(lambda age_s: 0.3 - age_s / 100, lambda age_s: age_s > 0)
    history = tried((1, None), (8, None))
    assert age_of(searcher(never_minds).ask(history)) == 60
    assert age_of(searcher(never_minds).ask(tried((1, 0.2), (8, None)))) < 60
