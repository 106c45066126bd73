"""A study as the paper's Figure 5: measured points, baseline, fitted curve, the chosen peak."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from damoos.model.space import Param
from damoos.searchers.base import feasible, value
from damoos.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, told apart also without colour vision.
BLUE, ORANGE, GREEN, GREY, RED = "#0072b2", "#e69f00", "#009e73", "#666666", "#d55e00"


def draw(study: Study, result: dict[str, Any]) -> list[Path]:
    """Write ``figure.png`` and ``figure.svg`` beside the study's raw data."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    param = study.space.params[0]
    _trials(axes, study, param)
    _estimate(axes, study, param)
    axes.axhline(0.0, color=GREY, linewidth=1, label="baseline (no scheme)")
    if result["recommended"]:
        word = result["recommended"]["params"][param.key]
        chosen = (param.choices.index(word) if param.choices else word) / _per_unit(param)
        text = word if param.choices else param.text(word)
        axes.axvline(chosen, color=GREEN, linestyle="--", linewidth=1, label=f"chosen: {text}")
        _validation(axes, result, _arm_places(study, param, chosen))
    variant = " (model)" if result["variant"] == "model" else ""
    machine = result["machine"]
    axes.set_title(
        f"{result['workload']}{variant} on {machine['name']}: Linux {machine['kernel']}, {machine['accel']}", fontsize=9
    )
    axes.set_xlabel(f"{param.name} [{_AXES[param.unit][1]}]" if param.unit in _AXES else param.name)
    axes.set_ylabel(f"score: {result['score']['unit']}", fontsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    written = []
    for ending in ("png", "svg"):
        written.append(
            study.record.artifacts.write_bytes(
                f"figure.{ending}",
                lambda draft, kind=ending: figure.savefig(draft, format=kind, dpi=150),  # type: ignore[misc]
            )
        )
    return written


def _arm_places(study: Study, param: Param, chosen: float) -> dict[str, float]:
    """Where the validated arms stand on the axis; the hand-made scheme has a place only where its own parameter is."""
    places = {"tuned": chosen}
    if param.key in study.manual:
        places["manual"] = study.manual[param.key] / _per_unit(param)
    return places


# What an axis shows: how many of a parameter's units make one of it, and its name.
_AXES = {"us": (1e6, "s"), "ms": (1.0, "ms"), "bytes": (float(1 << 20), "MiB"), "percent": (1.0, "%")}


def _per_unit(param: Param) -> float:
    return _AXES[param.unit][0] if param.unit in _AXES else 1.0


def _trials(axes: Axes, study: Study, param: Param) -> None:
    trials = study.trials()
    points = [(t.params[param.key] / _per_unit(param), t.score) for t in trials]
    broken = [(x, s.value) for x, s in points if not s.feasible and s.value is not None]
    unscored = [x for x, s in points if s.value is None]
    kept = feasible(trials)
    if kept:
        axes.errorbar(
            [t.params[param.key] / _per_unit(param) for t in kept],
            [value(t) for t in kept],
            yerr=[0.0 if t.interval is None else (t.interval[1] - t.interval[0]) / 2 for t in kept],
            fmt="o",
            color=BLUE,
            elinewidth=0.8,
            label="measured (one run, 95 %)",
        )
    if broken:
        axes.plot(*zip(*broken, strict=True), "x", color=RED, label="limit broken (worst score so far)")
    for number, at in enumerate(unscored):
        label = "limit broken" if number == 0 and not broken else None
        axes.axvline(at, color=RED, linewidth=1, alpha=0.4, label=label)


def _estimate(axes: Axes, study: Study, param: Param) -> None:
    if len(study.space.params) > 1:
        return  # a line through points that differ in other parameters, too, would mean nothing
    values = [param.from_unit(place) for place in np.linspace(0, 1, 200)]
    curve = study.estimate([study.space.point(**{param.key: value}) for value in values])
    if curve is not None:
        axes.plot([value / _per_unit(param) for value in values], curve, color=ORANGE, label="estimated")


def _validation(axes: Axes, result: dict[str, Any], places: dict[str, float]) -> None:
    for arm, marker in (("manual", "s"), ("tuned", "D")):
        found = (result["validation"] or {}).get(arm)
        if arm not in places or not found:
            continue
        if found["score"] is None:
            continue
        if not found["feasible"]:
            label = f"{arm}, validated: limit broken"
            axes.plot([places[arm]], [found["score"]], "X", color=RED, markersize=8, label=label)
            continue
        low, high = found["score_ci95"]
        reach = [[found["score"] - low], [high - found["score"]]]
        axes.errorbar(
            [places[arm]],
            [found["score"]],
            yerr=reach,
            fmt=marker,
            color=GREEN if arm == "tuned" else GREY,
            capsize=3,
            markersize=5,
            label=f"{arm}, validated ({found['repeats']} runs, 95 %)",
        )
