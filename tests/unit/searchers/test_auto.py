"""The default search: what it asks and why, and how good it is on curves that nobody tuned it on."""

from collections.abc import Sequence

import numpy as np
import pytest

from damoos.bench.curves import Curve, generate, load
from damoos.bench.searchers import search, table
from damoos.bench.simulated import play
from damoos.bench.surfaces import generate as generate_surfaces
from damoos.model.space import Params, Space, parse_param
from damoos.model.trial import History, Score, Trial
from damoos.searchers.auto import AutoSearcher
from damoos.searchers.base import Expectation, Prior
from damoos.searchers.surrogate import NR_SETTINGS, believe, chance_feasible, used
from damoos.testing.contracts import SPACE

SPACE_OF_AN_AGE = Space("4K max  min min  MIN_AGE max  pageout", (parse_param("min_age=0s:60s", 100_000),))


def history(points: dict[int, float | None]) -> tuple[Trial, ...]:
    return tuple(
        Trial(n, {"min_age_us": age * 1_000_000}, "complete", Score(score, feasible=score is not None))
        for n, (age, score) in enumerate(points.items())
    )


def asked(points: dict[int, float | None], nr_samples: int = 10) -> int:
    return AutoSearcher(SPACE, nr_samples, 0).ask(history(points))["min_age_us"] // 1_000_000


def test_the_first_points_are_the_middle_and_the_quarters() -> None:
    assert [asked(dict.fromkeys((7, 21, 2)[:n], 0.1)) for n in range(3)] == [7, 21, 2]


def test_the_border_of_the_limit_is_halved() -> None:
    # Infeasible at 2 s, best at 7 s: the optimum of a binding limit is beside it.
    assert asked({7: 0.3, 21: 0.2, 2: None}) == 4
    assert asked({7: 0.3, 21: 0.2, 2: None, 4: None}) == 5
    # The best point is far from the border, so there is no reason to look there.
    assert asked({7: 0.1, 21: 0.5, 2: None}) != 4


def test_two_stopped_runs_in_a_row_halve_the_border() -> None:
    # A run that was stopped does not say by how much it broke the limit, so the models alone would ask beside it.
    kept = Score(0.1, True, {"slowdown": 0.9}, {"saving": 0.1}), "complete"
    stopped = Score(None, False, {"slowdown": -0.1}), "censored"
    trials = [
        Trial(n, {"min_age_us": age * 1_000_000}, state, score)
        for n, (age, (score, state)) in enumerate([(60, kept), (57, kept), (2, stopped), (3, stopped)])
    ]
    assert 10 <= AutoSearcher(SPACE, 10, 0).ask(tuple(trials))["min_age_us"] / 1e6 <= 20


def test_without_a_feasible_point_the_likeliest_gap_is_asked() -> None:
    assert asked({7: None, 21: None, 2: None}) in (0, 60)


def test_every_second_ask_fills_the_widest_gap() -> None:
    assert asked({7: 0.3, 21: 0.2, 2: 0.35, 0: 0.36, 1: 0.36}) == 60


def test_a_lucky_run_is_not_recommended() -> None:
    flat = {age: 0.30 + 0.01 * (age % 2) for age in (0, 1, 2, 3, 4, 5, 6)}
    found = AutoSearcher(SPACE, 20, 0).recommend(history({**flat, 20: 0.0, 25: 0.02, 30: 0.32, 35: 0.0, 45: 0.01}))
    assert found["min_age_us"] <= 6_000_000


def test_a_point_that_also_broke_the_limit_is_not_recommended() -> None:
    twice = (*history({7: 0.3, 4: 0.35}), *history({4: None}))
    assert AutoSearcher(SPACE, 10, 0).recommend(twice)["min_age_us"] == 7_000_000


def test_the_second_candidate_is_a_prudent_one() -> None:
    beside_the_border = {2: None, 3: 0.30, 4: 0.295, 5: 0.293, 7: 0.292, 9: 0.29, 21: 0.1, 35: 0.05}
    first, second = AutoSearcher(SPACE, 10, 0).shortlist(history(beside_the_border), 2)
    assert first["min_age_us"] == 3_000_000
    assert second["min_age_us"] >= 5_000_000


def test_a_repeated_point_is_believed_more() -> None:
    once = believe(np.array([[0.2], [0.5], [0.8]]), np.array([0.0, 1.0, 0.2]), np.array([[0.5]]))
    often = believe(
        np.array([[0.2], [0.5], [0.5], [0.5], [0.8]]), np.array([0.0, 1.0, 1.1, 0.9, 0.2]), np.array([[0.5]])
    )
    deviation = [float(np.sqrt(one.weights @ one.deviations**2)[0]) for one in (once, often)]
    assert deviation[1] < deviation[0]


def test_between_both_sides_of_a_border_the_chance_is_even() -> None:
    x, kept = np.array([[0.2], [0.6]]), np.array([False, True])
    low, middle, high = chance_feasible(x, kept, np.array([[0.2], [0.4], [0.6]]))
    assert low < 0.15
    assert 0.35 < middle < 0.65
    assert high > 0.85


def test_many_parameters_are_searched_better_than_by_chance() -> None:
    space = Space(
        "4K max  min MAX_FREQ  MIN_AGE max  pageout",
        (parse_param("min_age=0s:60s", 100_000), parse_param("max_freq=0:20", 1)),
    )

    def score(point) -> Score:
        age = space.to_unit(point)[0]
        value = 1 - (age - 0.3) ** 2 - (point["max_freq_percent"] / 20 - 0.7) ** 2
        return Score(value, feasible=True) if age > 0.2 else Score(None, feasible=False)

    from damoos.searchers.random import RandomSearcher

    def found(kind, seed: int) -> float:
        made, trials = kind(space, 15, seed), ()
        for number in range(15):
            point = made.ask(trials)
            trials += (Trial(number, point, "complete", score(point)),)
        return score(made.recommend(trials)).value or 0.0

    by_chance = [found(RandomSearcher, seed) for seed in range(20)]
    assert found(AutoSearcher, 0) > np.quantile(by_chance, 0.8)


@pytest.fixture(scope="module")
def made() -> list[Curve]:
    return generate(120, seed=2026)


@pytest.mark.parametrize(("trials", "bar"), [(5, 0.03), (10, 0.008), (20, 0.004)])
@pytest.mark.slow
def test_the_bars_on_curves_it_has_never_seen(made: list[Curve], trials: int, bar: float) -> None:
    regrets, broken = [], 0
    for curve in made if trials < 20 else made[:60]:
        searcher = AutoSearcher(curve.space, trials, 0)
        age_us = searcher.recommend(search(searcher, curve)[0])["min_age_us"]
        regrets.append(curve.regret(age_us))
        broken += not curve.query(age_us).feasible
    assert broken == 0
    assert np.mean(regrets) <= bar


@pytest.mark.slow
def test_it_beats_the_paper_and_the_others(made: list[Curve]) -> None:
    rows = table(made[:60], ["auto", "daos", "random", "optuna:tpe"], [10], 3)
    regret = {row["searcher"]: row["regret"] for row in rows}
    assert regret["auto"] * 10 < min(regret["daos"], regret["random"], regret["optuna:tpe"])
    assert next(row for row in rows if row["searcher"] == "auto")["infeasible_rate"] == 0
    assert set(rows[0]) == {"searcher", "trials", "regret", "regret_ci95", "infeasible_rate", "ask_ms"}


def test_the_band_of_the_estimate_holds_the_truth_and_is_not_wide(made: list[Curve]) -> None:
    inside, reach = [], []
    for curve in made[:18]:  # three of each shape
        one = AutoSearcher(curve.space, 10, 0)
        found, _ = search(one, curve)
        if not any(trial.score.feasible for trial in found):
            continue
        seen = ~np.isnan(curve.score)
        points = [{"min_age_us": int(age_s) * 1_000_000} for age_s in curve.ages_s[seen]]
        off = np.abs(np.array(one.estimate(found, points)) - curve.truth[seen])
        half = 1.96 * np.array(one.deviation(found, points))
        inside.append((off <= half).mean())
        reach.append(np.median(half) / np.ptp(curve.truth))
    assert len(inside) > 15
    assert np.mean(inside) >= 0.93
    assert np.median(reach) < 0.2  # it does not hold it by being wide


def test_curves_that_are_none(tmp_path) -> None:
    from damoos.errors import ConfigError

    with pytest.raises(ConfigError, match="no curves"):
        load(tmp_path)
    file = tmp_path / "a.json"
    for text, message in (
        ("{}", "not a response curve"),
        ('{"workload": "a", "unit": "ms", "values": [0, 1, 2], "score": [1, 2, 3]}', "unit 'ms'"),
        ('{"workload": "a", "unit": "s", "values": [0, 1, 3], "score": [1, 2, 3]}', "evenly spaced"),
        ('{"workload": "a", "unit": "s", "values": [0, 1, 2], "score": [null, null, null]}', "nothing to find"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            load(tmp_path)


def test_truth_is_smoothed_but_not_across_broken_limits(tmp_path) -> None:
    (tmp_path / "a.json").write_text(
        '{"workload": "a", "unit": "s", "values": [0, 1, 2, 3, 4], "score": [null, 9, null, 1, 3]}'
    )
    (curve,) = load(tmp_path)
    weight = np.exp(-0.5)
    three, four = (1 + 3 * weight) / (1 + weight), (3 + weight) / (1 + weight)
    assert curve.truth == pytest.approx([three, 9, three, three, four])
    assert curve.regret(1_000_000) == 0
    assert curve.regret(0) == 1
    assert not curve.query(2_000_000).feasible


def test_made_curves_have_the_six_shapes() -> None:
    curves = generate(600, seed=1)
    assert {curve.name.split("/")[0] for curve in curves} == {f"shape-{n}" for n in range(1, 7)}
    again = generate(600, seed=1)
    assert all(np.array_equal(a.score, b.score, equal_nan=True) for a, b in zip(curves, again, strict=True))
    plain = [curve for curve in curves if not np.isnan(curve.score).any()]
    rising = [curve for curve in plain if curve.name.startswith("shape-1/")]
    # Shape 1 is best where the scheme is most aggressive, its mirror image 4 where it does nothing.
    assert all(curve.truth[0] > curve.truth[-1] for curve in rising)
    assert all(curve.truth[0] < curve.truth[-1] for curve in plain if curve.name.startswith("shape-4/"))


def told(points: dict[int, tuple[float | None, float]]) -> tuple[Trial, ...]:
    """Trials that say by how much they kept the limit: age in seconds to objective and margin."""
    return tuple(
        Trial(
            n, {"min_age_us": age * 1_000_000}, "censored" if objective is None else "complete",
            Score(objective if margin >= 0 else None, margin >= 0, {"slowdown<=0.1": margin},
                  {} if objective is None else {"memory": objective}),
        )
        for n, (age, (objective, margin)) in enumerate(points.items())
    )  # fmt: skip


def test_margins_tell_where_the_limit_lies() -> None:
    """The saving rises and the margin falls towards small ages: the next point lies near the limit."""
    trials = told({7: (0.30, 0.60), 21: (0.20, 0.85), 2: (0.40, -0.30), 60: (0.05, 0.95)})
    age_s = AutoSearcher(SPACE, 10, 0).ask(trials)["min_age_us"] / 1e6
    assert 2 < age_s < 7


def test_what_the_validation_will_refuse_is_not_recommended() -> None:
    trials = told({3: (0.41, -0.1), 4: (0.39, 0.15), 7: (0.30, 0.40), 21: (0.20, 0.80), 2: (None, -0.4)})
    ranked = [point["min_age_us"] // 1_000_000 for point in AutoSearcher(SPACE, 10, 0).shortlist(trials, 4)]
    assert ranked[0] == 4
    assert 2 not in ranked


def test_a_candidate_that_broke_the_limit_on_fresh_runs_gives_way() -> None:
    trials = told({3: (0.41, 0.05), 4: (0.39, 0.10), 7: (0.30, 0.40), 21: (0.20, 0.80), 2: (None, -0.4)})
    assert AutoSearcher(SPACE, 10, 0).recommend(trials)["min_age_us"] <= 4_000_000
    fresh = (*told({3: (0.41, -0.15)}), *told({3: (0.40, -0.20)}), *told({4: (0.39, -0.2)}), *told({4: (0.39, -0.15)}))
    assert AutoSearcher(SPACE, 10, 0).recommend((*trials, *fresh))["min_age_us"] >= 5_000_000


def test_it_is_done_when_the_best_bet_gains_next_to_nothing() -> None:
    searcher = AutoSearcher(SPACE, 20, 0)
    steep = {7: (0.30, 0.60), 21: (0.20, 0.85), 2: (0.40, -0.30), 60: (0.05, 0.95)}
    assert not searcher.is_done(told(steep))
    # The limit is met to the step, and inside it the score is known.
    ages_s = (1, 2, 3, 4, 5, 7, 10, 15, 21, 30, 60)
    closed = {age_s: (0.45 - 0.1 * np.log(age_s + 1), 1 - 2.6 / (age_s + 0.5)) for age_s in ages_s}
    assert searcher.is_done(told(closed))
    # Without margins nobody knows what a trial may gain.
    assert not searcher.is_done(history(dict.fromkeys((7, 21, 2, 60, 30, 10, 4, 3, 5), 0.1)))


def test_a_parameter_that_does_not_matter_is_not_in_the_way() -> None:
    random = np.random.default_rng(3)
    x = random.random((14, 3))
    y = np.sin(4 * x[:, 1])
    at = random.random((50, 3))
    own, common = (np.abs(believe(x, y, at, words).mean - np.sin(4 * at[:, 1])).mean() for words in ((0, 1, 2), None))
    assert own < 0.1
    assert own < common / 3


@pytest.mark.parametrize(("nr_params", "nr_trials", "bar"), [(1, 10, 0.04), (2, 20, 0.08), (3, 20, 0.08)])
@pytest.mark.slow
def test_whole_studies_lose_little(nr_params: int, nr_trials: int, bar: float) -> None:
    """After the validation, on made workloads; `make bench-search` measures many more."""
    endings = [play(surface, "auto", nr_trials) for surface in generate_surfaces(8, 2026, nr_params)]
    assert np.mean([ending.lost for ending in endings]) <= bar
    assert not any(ending.broken for ending in endings)


def test_an_ask_is_quick() -> None:
    """Counted in settings that are predicted with, as seconds depend on the machine."""
    random = np.random.default_rng(5)
    belief = believe(random.random((40, 4)), random.random(40), random.random((300, 4)), columns=range(4))
    assert len(belief.weights) <= NR_SETTINGS


class Recorded(Prior):
    """What the recording of raytrace's model let one expect: the less age, the more is saved, at half of the limit."""

    def expected(self, history: History, points: Sequence[Params]) -> Expectation:
        ages_s = np.array([[point["min_age_us"] / 1e6 for point in points]])
        scores, margins = 0.19 + 0.12 * np.exp(-ages_s), np.where(ages_s < 2, 0.5 + 0.05 * ages_s, 0.99)
        return Expectation(scores, np.ones_like(scores), np.ones(1), 0.01, np.vectorize(used)(margins))


def test_a_point_that_failed_in_one_of_its_runs_is_not_recommended() -> None:
    """It may hang again."""
    kept = Score(0.2, True, {"slowdown": 0.5}, {"saving": 0.2}), "complete"
    best = Score(0.3, True, {"slowdown": 0.4}, {"saving": 0.3}), "complete"
    failed = Score(None, feasible=False), "fail"
    before = [(60, kept), (30, kept), (12, kept), (1, best)]
    searcher = AutoSearcher(SPACE_OF_AN_AGE, 10, 0)
    found = []
    for runs in (before, [*before, (1, failed)]):
        known = [
            Trial(n, {"min_age_us": age_s * 1_000_000}, state, score) for n, (age_s, (score, state)) in enumerate(runs)
        ]
        found.append(searcher.recommend(tuple(known))["min_age_us"])
    assert found[0] == 1_000_000
    assert found[1] != 1_000_000


def test_nothing_beside_a_stopped_run_is_recommended() -> None:
    """What is paged out within a second is soon back, at a loss of a quarter, which a stopped run does not tell."""

    def kept(objective: float, margin: float) -> tuple[Score, str]:
        return Score(objective, True, {"slowdown": margin}, {"saving": objective}), "complete"

    stopped = Score(None, False, {"slowdown": -0.002}), "censored"
    runs = [(2, stopped), (188, kept(0.187, 1)), (63, kept(0.217, 1)), (3, stopped), (4, stopped),
            (22, kept(0.227, 1)), (1, stopped), (5, kept(0.228, 0.03)), (0, stopped)]  # fmt: skip
    trials = tuple(
        Trial(n, {"min_age_us": tenths * 100_000}, state, score) for n, (tenths, (score, state)) in enumerate(runs)
    )
    searcher = AutoSearcher(SPACE_OF_AN_AGE, 10, 0)
    searcher.prior = Recorded()
    for point in searcher.shortlist(trials, 5):
        assert point["min_age_us"] >= 500_000
