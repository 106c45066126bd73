"""What a recording predicts of proactive reclaim, and what trials measured beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from damoos.model.trial import Trial, mean_measurement
from damoos.report.charts import Axis, Chart, Layer, Line, Panel, Points
from damoos.report.charts.style import BLUE, ORANGE, RED
from damoos.scorers.terms import term
from damoos.study.study import Study

if TYPE_CHECKING:
    from damoos.prediction.forecast import Forecast

_AGE = Axis("min_age [s]", "min_age_s")


def chart(title: str, rows: Sequence[Forecast], study: Study | None = None) -> Chart:
    """Predicted saving and slowdown for every ``min_age``, and what a study's trials measured of them."""
    saving, slowdown = (_predicted(rows, name) for name in ("memory_saving", "slowdown"))
    if study is not None:
        saving += _measured(study, "memory_saving")
        slowdown += _measured(study, "slowdown")
    return Chart(
        title,
        [
            Panel(_AGE, Axis("RSS saving", "memory_saving", is_share=True), saving),
            Panel(_AGE, Axis("slowdown", "slowdown", is_share=True), slowdown),
        ],
        shares_x=True,
        panel_name="quantity",
    )


def _predicted(rows: Sequence[Forecast], name: str) -> list[Layer]:
    values, low, high = ([getattr(row, f"{name}{end}") for row in rows] for end in ("", "_low", "_high"))
    return [Line("predicted (80 % of what is believed)", [row.min_age_s for row in rows], values, low, high, ORANGE)]


def _measured(study: Study, name: str) -> list[Layer]:
    """What trials that ran to their end measured, against the mean of the study's baselines."""
    bases = [run.measurement for run in study.runs() if run.kind == "baseline" and run.measurement]
    ran = [trial for trial in study.trials() if trial.measurement and not trial.measurement.censored]
    layers: list[Layer] = []
    for words, trials, colour, marker in (
        ("measured", [trial for trial in ran if trial.score.feasible], BLUE, "circle"),
        ("measured, limit broken", [trial for trial in ran if not trial.score.feasible], RED, "x"),
    ):
        if trials:
            ages = [trial.params["min_age_us"] / 1e6 for trial in trials]
            values = [
                term(name).of(trial.measurement, mean_measurement(bases)) for trial in trials if trial.measurement
            ]
            layers.append(Points(words, ages, values, colour=colour, marker=marker, notes=list(map(_note, trials))))
    return layers


def _note(trial: Trial) -> str:
    return f"trial {trial.number}"
