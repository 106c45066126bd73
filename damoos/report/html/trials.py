"""The trials of a study as tables: what came of each, and what a recording had predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from damoos.model.conditional import ConditionalSpace
from damoos.model.space import Param
from damoos.model.trial import Run, Trial, mean_measurement, orientation
from damoos.report.html import shown
from damoos.report.html.shown import NUMBERS, WORDS, Cell, Table
from damoos.study.study import Study
from damoos.units import format_us


def point_text(study: Study, point: Mapping[str, Any]) -> str:
    """A point as a person would write it: ``min_age=300ms``."""
    known = {param.key: param for param in study.space.params}
    words = []
    for key, value in point.items():
        if param := known.get(key):
            words.append(f"{param.name}={value if param.choices else param.text(value)}")
        else:  # the manual scheme has a min_age also where something else is tuned
            words.append(f"{key.removesuffix('_us')}={format_us(value) if key.endswith('_us') else value}")
    return " ".join(words)


def table(study: Study, trials: Sequence[Trial], runs: Sequence[Run]) -> Table:
    """Every trial; changes are against the mean of all baselines."""
    params = _columns(study)
    bases = [run.measurement for run in runs if run.kind == "baseline" and run.measurement]
    base = mean_measurement(bases).metrics if bases else {}
    columns = {"trial": NUMBERS, **{param.name: WORDS if param.choices else NUMBERS for param in params}}
    columns |= {"parameters": WORDS} if isinstance(study.space, ConditionalSpace) else {}
    columns |= {"outcome": WORDS, "score ± 95 %": NUMBERS, "runtime": NUMBERS, "slowdown": NUMBERS}
    columns |= {"margin": NUMBERS, "RSS": NUMBERS, "RSS saved": NUMBERS, "applied": NUMBERS}
    best = _best(study, trials)
    return Table(columns, [_trial(study, trial, base, trial.number == best) for trial in trials], first="trial")


def _columns(study: Study) -> tuple[Param, ...]:
    """The parameters that have a column each: of several policies only which one it is."""
    return (study.space.policy,) if isinstance(study.space, ConditionalSpace) else study.space.params


def _best(study: Study, trials: Sequence[Trial]) -> int | None:
    good = [trial for trial in trials if trial.score.feasible and trial.score.value is not None]
    sign = orientation(study.scorer.direction)
    return max(good, key=lambda trial: sign * (trial.score.value or 0.0)).number if good else None


def _trial(study: Study, trial: Trial, base: Mapping[str, float], best: bool) -> list[Cell]:
    run = trial.measurement
    metrics = run.metrics if run else {}
    complete = metrics if run and not run.censored else {}
    runtime, rss = complete.get("runtime_s"), complete.get("rss_avg_bytes")
    points = [_value(param, trial.params.get(param.key)) for param in _columns(study)]
    if isinstance(study.space, ConditionalSpace):
        points.append(shown.word(" ".join(study.policy(trial.params).lines), code=True))
    applied = sum(stats.as_dict()["sz_applied_bytes"] for stats in run.damos) if run and run.damos else None
    at_least = Cell(f"≥ {metrics['elapsed_s']:.2f} s", metrics["elapsed_s"], "bad") if run and run.censored else None
    return [
        shown.count(trial.number), *points, outcome(trial, best),
        shown.score(trial.score.value if trial.state == "complete" else None, trial.interval, "good" if best else "",
            study.scorer.shown_in,
        ),
        at_least or shown.seconds(runtime),
        shown.change(runtime / base["runtime_s"] - 1 if runtime and base else None), _margin(trial), shown.size(rss),
        shown.share(1 - rss / base["rss_avg_bytes"] if rss and base else None), shown.size(applied),
    ]  # fmt: skip


def _margin(trial: Trial) -> Cell:
    """How far inside the tightest limit a trial was."""
    margin = trial.score.margin
    cell = shown.change(margin, "bad" if margin is not None and margin < 0 else "")
    return replace(cell, text=f"≤ {cell.text}") if trial.state == "censored" and margin is not None else cell


def _value(param: Param, value: int | None) -> Cell:
    if value is None:
        return shown.word(None)
    text = param.text(value)
    return Cell(text, text if param.choices else value)


def outcome(trial: Trial, best: bool) -> Cell:
    """What became of a trial, with the reason where there is no score to count."""
    if trial.state == "fail":
        return shown.word(f"failed: {trial.error}", "bad")
    if trial.state == "censored":
        return shown.word("limit broken, stopped early", "bad")
    if not trial.score.feasible:
        return shown.word("limit broken", "bad")
    return shown.word("best of the search", "good") if best else shown.word("done")


def says(study: Study, trials: Sequence[Trial]) -> str:
    """The trials in a sentence."""
    states = {"complete": 0, "censored": 0, "fail": 0}
    for trial in trials:
        states[trial.state] += 1
    broken = sum(trial.state == "complete" and not trial.score.feasible for trial in trials)
    words = [f"{states['complete'] - broken} kept the limits of the score"]
    words += [f"{broken} broke them"] if broken else []
    words += (
        [f"{states['censored']} were stopped as soon as they had certainly broken them"] if states["censored"] else []
    )
    words += [f"{states['fail']} failed"] if states["fail"] else []
    return (
        f"{len(trials)} trials by the search '{study.config.searcher}': {shown.listed(words)}."
        f" Score: {study.scorer.unit}, {'more' if study.scorer.direction == 'maximize' else 'less'} is better."
        " Slowdown and saving are against the mean of all baselines here. The margin says how far inside the tightest"
        " limit a trial was, in units of the limit."
    )


def prediction(study: Study, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a recording let one expect of each trial beside what was measured, for the template."""
    forecast = result.get("prediction")
    if not forecast:
        return {"prediction": None}
    columns = {"trial": NUMBERS, "parameters": WORDS, "predicted slowdown": NUMBERS, "measured slowdown": NUMBERS}
    columns |= {"predicted saving": NUMBERS, "measured saving": NUMBERS, "chance to keep limits": NUMBERS}
    columns |= {"limits": WORDS}
    points = {trial["number"]: trial["params"] for trial in result["trials"]}
    rows = [_predicted(study, points[row["number"]], row) for row in forecast["trials"] if row["predicted"]]
    kept = "" if forecast["kept"] else " The trials contradicted the recording, so the search dropped it."
    says = f"Before each trial ran, a recording of what DAMON saw without a scheme let the search expect this.{kept}"
    return {"prediction": Table(columns, rows, first="trial"), "prediction_says": says}


def _predicted(study: Study, point: Mapping[str, Any], row: Mapping[str, Any]) -> list[Cell]:
    expected, came = row["predicted"], row["measured"]
    return [
        shown.count(row["number"]), shown.word(point_text(study, point)),
        shown.change(expected["slowdown"]), shown.change(came["slowdown"]),
        shown.share(expected["memory_saving"]), shown.share(came["memory_saving"]), shown.share(expected.get("chance")),
        shown.word("kept") if came["feasible"] else shown.word("broken, or it failed", "bad"),
    ]  # fmt: skip
