"""Many studies at a glance: a matrix of workloads and machines, and their curves as the paper's Figure 4 has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from damoos.model.trial import orientation
from damoos.report.charts import Axis, Cells, Chart, Layer, Level, Panel
from damoos.report.charts.layers import Floats
from damoos.report.charts.style import nth
from damoos.report.names import short
from damoos.report.study.tuning import axis, estimate, measured
from damoos.statistics.arms import MANUAL, TUNED
from damoos.statistics.limits import Standing
from damoos.statistics.verdict import INDISTINGUISHABLE, NOT_COMPARABLE
from damoos.study.damage import names_damage
from damoos.study.study import Study

Machine = Mapping[str, Any]
# Machines beside each other that have room for numbers.
MOST_TEXTS = 12


def matrix(title: str, found: Sequence[Machine], direction: str = "maximize") -> Chart:
    """Workloads by machines, coloured by how much better than the manual scheme the tuned one scores.

    Parameters
    ----------
    found : sequence of mapping
        What `damoos.comparison.manual_tuned.compare` says of the studies.
    direction : {"maximize", "minimize"}
        Of the score; a gain is positive where tuning is better.
    """
    machines = [machine["machine"] for machine in found]
    pairs = {(pair["workload"], machine["machine"]): pair for machine in found for pair in machine["studies"]}
    workloads = list(dict.fromkeys(workload for workload, _ in pairs))[::-1]  # the first one on top
    sign = orientation(direction)
    gains = [[_gain(pairs.get((workload, name)), sign) for workload in workloads] for name in machines]
    values = np.array([[gain for gain, _ in column] for column in gains])
    name = "score gain: tuned - by hand; in brackets: cannot be told apart; grey: no number"
    texts = [[text for _, text in column] for column in gains]
    cells = Cells(
        name, _edges(len(machines)), _edges(len(workloads)), values, texts if len(machines) <= MOST_TEXTS else (),
        is_diverging=True,
    )  # fmt: skip
    x, y = Axis("machine", "machine", machines), Axis("", "workload", list(map(short, workloads)))
    return Chart(title, [Panel(x, y, [cells])])


def _edges(count: int) -> Floats:
    return np.arange(count + 1, dtype=np.float64) - 0.5


def _gain(pair: Mapping[str, Any] | None, sign: float) -> tuple[float, str]:
    """What tuning has won, and how it is written: in brackets if by chance, without a number if a limit was broken."""
    if pair is None:
        return np.nan, ""
    if pair["error"]:
        return np.nan, "no result"
    manual, tuned = pair[MANUAL], pair[TUNED]
    if tuned["limits"] == Standing.BROKEN:
        return np.nan, "tuned breaks limit"
    if manual["limits"] == Standing.BROKEN:
        return np.nan, "manual breaks limit"
    if not manual["score"] or not tuned["score"]:
        return np.nan, "no score"
    gain = sign * (tuned["score"]["mean"] - manual["score"]["mean"])
    return gain, f"({gain:+.3f})" if pair["verdict"] in (INDISTINGUISHABLE, NOT_COMPARABLE) else f"{gain:+.3f}"


def curves(title: str, studies: Sequence[Study]) -> Chart:
    """A panel for each workload, in it each machine's measured points and what their searcher makes of them."""
    machines = list(dict.fromkeys(study.config.machine for study in studies))
    workloads = list(dict.fromkeys(study.config.target for study in studies))
    panels = []
    for workload in workloads:
        group = [study for study in studies if study.config.target == workload]
        layers: list[Layer] = [Level("baseline (no scheme)", 0.0)]
        for study in group:
            layers += _curve(study, machines.index(study.config.machine))
        panels.append(Panel(axis(group[0].space.params[0]), Axis("score", "score"), layers, short(workload)))
    units = ", ".join(dict.fromkeys(study.scorer.unit for study in studies))
    return Chart(f"{title}; score: {units}", panels, columns=min(3, len(panels)), panel_name="workload")


@names_damage
def _curve(study: Study, number: int) -> list[Layer]:
    param, name = study.space.params[0], study.config.machine
    colour, marker, dash = nth(number)
    layers: list[Layer] = []
    if len(study.space.params) == 1:
        layers += estimate(study, param, None, colour, dash, f"{name}: estimated")
    return layers + measured(study.trials(), param, colour, marker, name)
