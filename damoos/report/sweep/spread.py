"""Sweeps with more machines than eyes can tell apart: what the many have in common, and how far they spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from damoos.comparison import manual_tuned
from damoos.report.charts import Chart, Layer, Level, Line, Panel
from damoos.report.charts.layers import Floats
from damoos.report.charts.style import BLUE
from damoos.report.names import short
from damoos.report.study.tuning import axis, place, score_axis
from damoos.searchers.base import feasible, value
from damoos.statistics.arms import MANUAL, TUNED
from damoos.statistics.limits import Standing
from damoos.study.study import Study
from damoos.units import show_count

Machine = Mapping[str, Any]
# Points of a curve, and the quantiles between which its band lies.
NR_BINS, LOW, HIGH = 10, 0.1, 0.9


def curves(title: str, studies: Sequence[Study]) -> Chart:
    """A panel for each workload: the median of what all machines measured, and where the middle 80 % of it lies."""
    groups: dict[str, list[Study]] = {}
    for study in studies:
        groups.setdefault(study.config.target, []).append(study)
    panels = [_panel(workload, group) for workload, group in groups.items()]
    return Chart(title, panels, columns=min(3, len(panels)), panel_name="workload")


def _panel(workload: str, studies: Sequence[Study]) -> Panel:
    param = studies[0].space.params[0]
    kept = [(place(param, trial.params), value(trial)) for study in studies for trial in feasible(study.trials())]
    layers: list[Layer] = [Level("baseline (no scheme)", 0.0)]
    if kept:
        x, median, low, high = _binned(np.array(sorted(kept)))
        layers.append(Line("median of all machines (band: the middle 80 %)", x, median, low, high, BLUE))
    return Panel(axis(param), score_axis(studies[0]), layers, short(workload))


def _binned(points: Floats) -> tuple[list[float], list[float], list[float], list[float]]:
    """Medians of places, and medians and quantiles of scores, of as many bins of equally many points."""
    bins = np.array_split(points, min(NR_BINS, len(points)))
    medians = [np.median(chunk, axis=0) for chunk in bins]
    ends = [np.quantile(chunk[:, 1], [LOW, HIGH]) for chunk in bins]
    return (
        [float(median[0]) for median in medians], [float(median[1]) for median in medians],
        [float(quantiles[0]) for quantiles in ends], [float(quantiles[1]) for quantiles in ends],
    )  # fmt: skip


def averages(found: Sequence[Machine], direction: str) -> list[dict[str, Any]]:
    """Hand-made and tuned schemes averaged over the machines of each workload, or the other way, whatever is fewer.

    Returns
    -------
    list of dict
        One entry of the form of `damoos.comparison.manual_tuned.compare`; the ``limits`` of an arm
        that broke one once are broken.
    """
    pairs = [(machine["machine"], pair) for machine in found for pair in machine["studies"] if not pair["error"]]
    workloads = {pair["workload"] for _, pair in pairs}
    by_workload = len(workloads) <= len(found)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for machine, pair in pairs:
        groups.setdefault(pair["workload"] if by_workload else machine, []).append(pair)
    studies = []
    for name, group in groups.items():
        average = manual_tuned.summary(group, direction)
        assert average
        arms = {
            arm: {
                **average[arm],
                "limits": Standing.BROKEN if average[arm]["broken"] else Standing.KEPT,
                "scheme": None,
            }
            for arm in (MANUAL, TUNED)
        }
        studies.append({"study": None, "workload": name, "variant": group[0]["variant"], "error": "", **arms})
    title = f"means over {show_count(len(found), 'machine') if by_workload else show_count(len(workloads), 'workload')}"
    return [{"machine": title, "studies": studies, "average": manual_tuned.summary(studies, direction), "paper": None}]
