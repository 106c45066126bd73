"""A study as the paper's Figure 5: measured points, what broke the limits, the estimate, the chosen point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from damoos.model.conditional import ConditionalSpace
from damoos.model.space import Param, Params
from damoos.model.trial import History, Trial
from damoos.report.charts import Axis, Chart, Layer, Level, Line, Panel, Points, Span, Upright
from damoos.report.charts.chart import save
from damoos.report.charts.layers import NONE
from damoos.report.charts.style import BLUE, GREEN, GREY, ORANGE, RED
from damoos.report.tables import STANDINGS
from damoos.searchers.base import feasible, value
from damoos.study.damage import names_damage
from damoos.study.study import Study
from damoos.units import MIB, show_count

Result = Mapping[str, Any]
# What an axis shows: how many of a parameter's units make one of it, and its name.
_AXES = {"us": (1e6, "s"), "ms": (1.0, "ms"), "bytes": (MIB, "MiB"), "percent": (1.0, "%")}
NR_PLACES = 200
# Standard deviations on both sides of an estimate that are drawn: 95 % of a normal distribution.
REACH = 1.96


@names_damage
def chart(study: Study) -> Chart:
    """A panel for each tuned parameter; what a study has not come to yet is not there.

    Of several policies, one for the policies, and one for each parameter of the policy that was chosen.
    """
    result, trials = study.record.result or {}, study.trials()
    params: Sequence[Param] = study.space.params
    if isinstance(study.space, ConditionalSpace):
        chosen = chosen_point(study, result)
        params = study.space.params_of(chosen) if chosen else [study.space.policy]
    return Chart(
        title=title(study),
        panels=[
            Panel(axis(param), score_axis(study), list(_layers(study, _with(param, trials), param, result)))
            for param in params
        ],
        columns=min(2, len(params)),
        panel_name="param",
        text=[result["verdict_text"]] if result else [f"{show_count(len(trials), 'trial')} so far"],
    )


def _with(param: Param, trials: History) -> History:
    """The trials that have a parameter."""
    return tuple(trial for trial in trials if param.key in trial.params)


def draw(study: Study) -> list[Path]:
    """Write ``figure.png`` and ``figure.svg`` beside the study's raw data."""
    figure = chart(study)
    return [save(figure, study.record.artifacts.path / f"figure.{ending}") for ending in ("png", "svg")]


def title(study: Study) -> str:
    """Workload (and whether it is a model), machine, kernel, and how it ran."""
    facts = study.setting.facts
    model = " (model)" if study.setting.variant == "model" else ""
    where = f"{study.config.target}{model} on {study.config.machine}"
    return f"{where}: Linux {facts.get('kernel')}, {facts.get('accel')}"


def axis(param: Param) -> Axis:
    """A parameter's axis, in a unit that people read."""
    if param.unit not in _AXES:
        return Axis(param.name, param.name, param.choices)
    unit = _AXES[param.unit][1]
    return Axis(f"{param.name} [{unit}]", f"{param.name}_{unit.replace('%', 'percent').lower()}")


def score_axis(study: Study) -> Axis:
    """The axis of a study's score."""
    return Axis(f"score: {study.scorer.unit}", "score")


def place(param: Param, point: Params) -> float:
    """Where a point stands on a parameter's axis."""
    return point[param.key] / (_AXES[param.unit][0] if param.unit in _AXES else 1.0)


def _layers(study: Study, trials: History, param: Param, result: Result) -> list[Layer]:
    chosen = chosen_point(study, result)
    layers: list[Layer] = []
    if len(study.space.params) == 1 and not param.choices:
        layers += border(trials, param)
    layers += [Level("baseline (no scheme)", 0.0)]
    layers += estimate(study, param, chosen)
    layers += measured(trials, param)
    if chosen:
        text = param.text(chosen[param.key])
        layers.append(Upright(f"chosen: {param.name} {text}", [place(param, chosen)], GREEN))
        layers += list(_validated(study, param, chosen, result))
    return layers


def chosen_point(study: Study, result: Result) -> Params | None:
    """The recommended point; None where there is none, or not yet."""
    if not result.get("recommended"):
        return None
    words = result["recommended"]["params"]
    return {
        param.key: param.choices.index(words[param.key]) if param.choices else words[param.key]
        for param in study.space.params
        if param.key in words
    }


def measured(trials: History, param: Param, colour: str = BLUE, marker: str = "circle", of: str = "") -> list[Layer]:
    """What trials measured: scores that kept the limits with their intervals, and those that did not."""
    kept = feasible(trials)
    ends = [trial.interval or NONE for trial in kept]
    broken = [trial for trial in trials if not trial.score.feasible and trial.state != "fail"]
    scored = [trial for trial in broken if trial.score.value is not None]
    layers: list[Layer] = []
    if kept:
        at, scores = [place(param, trial.params) for trial in kept], list(map(value, kept))
        low, high = zip(*ends, strict=True)
        words = of or ("measured (one run, 95 %)" if any(trial.interval for trial in kept) else "measured (one run)")
        notes = list(map(_note, kept))
        layers.append(Points(words, at, scores, low, high, colour, marker, notes))
    if scored:
        at = [place(param, trial.params) for trial in scored]
        notes = list(map(_note, scored))
        word = f"{of}: limit broken" if of else "limit broken (worst score so far)"
        layers.append(Points(word, at, list(map(value, scored)), (), (), colour if of else RED, "x", notes))
    for words, group, dash in (
        ("limit broken, stopped", [trial for trial in broken if trial.score.value is None], "dot"),
        ("failed", [trial for trial in trials if trial.state == "fail"], "dashdot"),
    ):
        if group and not of:
            layers.append(Upright(words, [place(param, trial.params) for trial in group], RED, dash))
    return layers


def _note(trial: Trial) -> str:
    return f"trial {trial.number}"


def border(trials: History, param: Param) -> list[Layer]:
    """Where limits break, between points that broke them, and the gap to the next one that kept them."""
    over = [trial for trial in trials if trial.state in ("complete", "censored")]
    places = sorted((place(param, trial.params), trial.score.feasible) for trial in over)
    if all(kept for _, kept in places):
        return []
    low, high = (place(param, {param.key: end}) for end in (param.low, param.high))
    ends = [(min(low, places[0][0]), places[0][1]), *places, (max(high, places[-1][0]), places[-1][1])]
    inside: list[tuple[float, float]] = []
    between: list[tuple[float, float]] = []
    for (left, left_kept), (right, right_kept) in pairwise(ends):
        if left < right and not (left_kept and right_kept):
            (between if left_kept or right_kept else inside).append((left, right))
    layers: list[Layer] = [Span("breaks the limit", _joined(inside))] if inside else []
    return layers + ([Span("the limit lies in here", between, is_faint=True)] if between else [])


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for low, high in spans:
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def estimate(
    study: Study, param: Param, chosen: Params | None, colour: str = ORANGE, dash: str = "solid", name: str = ""
) -> list[Layer]:
    """What the searcher makes of the points, along one parameter; the others are as chosen."""
    if isinstance(study.space, ConditionalSpace):
        return []
    if param.choices or (len(study.space.params) > 1 and chosen is None):
        return []
    values = list(dict.fromkeys(param.from_unit(unit) for unit in np.linspace(0, 1, NR_PLACES)))
    points = [study.space.point(**{**(chosen or {}), param.key: number}) for number in values]
    means = study.estimate(points)
    if means is None:
        return []
    deviations = study.deviation(points) if not name else None
    reach = REACH * np.array(deviations if deviations is not None else [])
    low, high = (np.array(means) - reach, np.array(means) + reach) if len(reach) else ((), ())
    words = name or f"estimated by {study.config.searcher}" + (" (95 % of what it believes)" if len(reach) else "")
    return [Line(words, [place(param, point) for point in points], means, low, high, colour, dash)]


def _validated(study: Study, param: Param, chosen: Params, result: Result) -> list[Layer]:
    """The validated arms; the manual scheme has a place only where its own parameter is."""
    places = {"tuned": place(param, chosen)}
    if param.key in study.manual:
        places["manual"] = place(param, study.manual)
    layers: list[Layer] = []
    for arm, marker, colour in (("manual", "square", GREY), ("tuned", "diamond", GREEN)):
        validated = (result["validation"] or {}).get(arm)
        if arm not in places or not validated or validated["score"] is None:
            continue
        at, score = [places[arm]], [validated["score"]]
        if not validated["feasible"]:
            words = f"{arm}, validated: {STANDINGS[validated['limits']]}"
            layers.append(Points(words, at, score, colour=RED, marker="x-thick"))
            continue
        low, high = validated["score_ci95"] or NONE
        words = f"{arm}, validated ({show_count(validated['repeats'], 'run')}, 95 %)"
        layers.append(Points(words, at, score, [low], [high], colour, marker))
    return layers
