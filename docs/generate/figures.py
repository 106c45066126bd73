"""Figures of the documentation that show how a search and a validation go, by damoos's own code on a made workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from damoos.bench.simulated import SimulatedStudy, simulate
from damoos.bench.surfaces import Surface, generate
from damoos.model.space import Params
from damoos.model.trial import History, Measurement, Run, Score, mean_measurement
from damoos.report.charts import Axis, Chart, Layer, Level, Line, Panel, Points, Upright
from damoos.report.charts.style import BLUE, GREEN, GREY, ORANGE, RED, SKY
from damoos.scorers.base import Scorer
from damoos.searchers.auto import AutoSearcher
from damoos.searchers.base import feasible
from damoos.statistics.arms import BASELINE, CANDIDATE, MANUAL, beside, rounds_of
from damoos.statistics.intervals import Estimate, alpha_of_a_look, moderated
from damoos.statistics.limits import MIN_ROUNDS, TOLERANCE
from damoos.statistics.noise import GAIN, Repeats, of_baselines
from damoos.study.scoring import score_trials

# Workloads of which a search, after so many trials, and a validation are shown, in which the first candidate gives way.
SEED, SEARCHED, VALIDATED, NR_TRIALS, SHOWN_AFTER = 2, 12, 59, 8, 5
AGES = Axis("log10(min_age [s])", "log10_min_age_s")
COLOURS = {
    **{f"{CANDIDATE}{n}": look for n, look in ((1, (RED, "x")), (2, (BLUE, "circle")), (3, (GREEN, "diamond")))},
    MANUAL: (ORANGE, "square"),
}


def example(number: int) -> tuple[Surface, SimulatedStudy, list[Run]]:
    """A workload, and a whole study of it."""
    surface = generate(number + 1, SEED, 1)[number]
    return surface, *simulate(surface, "auto", NR_TRIALS, seed=number)


def search_chart(surface: Surface, study: SimulatedStudy, runs: Sequence[Run]) -> Chart:
    """What `auto` knows after some trials, and what it asks next."""
    searcher, history = study.searcher, study.known(score_trials(runs, study.scorer))[:SHOWN_AFTER]
    assert isinstance(searcher, AutoSearcher)
    points = list(surface.grid())
    belief, chance = searcher.outlook(history, points)
    tried, _ = searcher.outlook(history, [trial.params for trial in feasible(history)])
    gain = belief.expected_improvement(float(tried.mean.max())) * chance
    ages = [_place(point) for point in points]
    asked = Upright("asked next", [_place(searcher.ask(history))], GREEN)
    low, high = belief.mean - 2 * belief.deviation, belief.mean + 2 * belief.deviation
    return Chart(
        f"A made workload (a model): what auto knows after {SHOWN_AFTER} trials, and asks next",
        [
            _panel("margin to the limit", [Level("limit", 0.0, GREY), *_measured(history, "margin"), asked]),
            _panel(
                "score without the limit",
                [Line("believed", ages, belief.mean, low, high, SKY), *_measured(history, "objective"), asked],
            ),
            _panel("chance to keep the limit", [Line("chance", ages, chance, colour=SKY, dash="dash"), asked]),
            _panel("expected gain times chance", [Line("worth of a trial", ages, gain, dash="dot"), asked]),
        ],
        columns=2,
    )


def _panel(label: str, layers: list[Layer]) -> Panel:
    return Panel(AGES, Axis(label, label.replace(" ", "_")), layers)


def _place(point: Params) -> float:
    """Where a point stands on `AGES`."""
    return math.log10(point["min_age_us"] / 1e6)


def _measured(history: History, what: str) -> list[Points]:
    """Trials by what they measured: those that kept the limit, those that broke it, those that were stopped."""
    groups = {
        "kept the limit": ([trial for trial in history if trial.score.feasible], BLUE, "circle"),
        "broke the limit": ([t for t in history if not t.score.feasible and t.state != "censored"], RED, "x"),
        "was stopped (at most)": ([trial for trial in history if trial.state == "censored"], RED, "triangle-down"),
    }
    found = []
    for name, (trials, colour, marker) in groups.items():
        values = [(trial, getattr(trial.score, what)) for trial in trials]
        known = [(_place(trial.params), number) for trial, number in values if number is not None]
        if known:
            x, y = [at for at, _ in known], [number for _, number in known]
            found.append(Points(name, x, y, colour=colour, marker=marker))
    return found


def validation_chart(study: SimulatedStudy, runs: Sequence[Run]) -> Chart:
    """How the arms of a validation stand after each of their rounds: their limit, and their gain."""
    rounds, scorer = rounds_of(runs), study.scorer
    left_alone = [run.measurement for run in runs if run.params is None and run.arm in ("", BASELINE)]
    repeats = of_baselines([one for one in left_alone if one])
    level = 1 - alpha_of_a_look(study.config.repeats - MIN_ROUNDS + 1)
    margins: list[Layer] = []
    gains: list[Layer] = []
    for name, (colour, marker) in COLOURS.items():
        looks = _looks(rounds, name, scorer, repeats)
        for layers, nth in ((margins, 0), (gains, 1)):
            found = [(number, of[nth]) for number, of in looks.items()]
            halves = [of.half(level) for _, of in found]
            means = [of.mean for _, of in found]
            layers.append(
                Points(
                    name, [number for number, _ in found], means,
                    [mean - half for mean, half in zip(means, halves, strict=True)],
                    [mean + half for mean, half in zip(means, halves, strict=True)],
                    colour, marker,
                )
            )  # fmt: skip
    rounds_axis = Axis("round", "round")
    return Chart(
        f"A made workload: how its validation stands after each round, with the intervals of a look ({level:.1%})",
        [
            Panel(
                rounds_axis,
                Axis("mean margin so far", "margin"),
                [Level("limit", 0.0, GREY), Level("a tenth beyond it", -TOLERANCE, RED, "dash"), *margins],
            ),
            Panel(rounds_axis, Axis("mean gain so far", "gain"), [Level("left alone", 0.0, GREY), *gains]),
        ],
        columns=2,
    )


def _looks(
    rounds: Sequence[Mapping[str, Measurement | None]], name: str, scorer: Scorer, repeats: Repeats | None
) -> dict[int, tuple[Estimate, Estimate]]:
    """Margin and gain of an arm over its rounds up to each of them, from the second of its rounds on."""
    margins: list[float] = []
    gains: list[float] = []
    runs: list[Measurement] = []
    looks = {}
    bases = beside(rounds)
    for number, measured in enumerate(rounds):
        if (run := measured.get(name)) is None:
            continue
        score, gain = _against(bases[number], scorer)(run)
        runs.append(run)
        margins.append(score.margin or 0.0)
        gains.append(gain)
        if len(margins) >= MIN_ROUNDS and repeats:
            noise = repeats.noise(mean_measurement(runs), _against(bases[number], scorer))
            (limit,) = score.margins
            looks[number + 1] = moderated(margins, [noise[limit]]), moderated(gains, [noise[GAIN]])
    return looks


def _against(base: Measurement, scorer: Scorer) -> Callable[[Measurement], tuple[Score, float]]:
    """Scores of runs against a baseline, and what they gain over it."""
    usual = scorer.score(base, base, ()).objective or 0.0

    def scored(run: Measurement) -> tuple[Score, float]:
        score = scorer.score(run, base, ())
        return score, (score.objective or 0.0) - usual

    return scored


def draw(folder: Path) -> None:
    """Write the figures."""
    search_chart(*example(SEARCHED)).save(folder / "auto.svg")
    validation_chart(*example(VALIDATED)[1:]).save(folder / "validation.svg")
