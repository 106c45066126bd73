"""A study as the paper's Figure 5: measured points, baseline, fitted curve, the chosen peak."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.model.space import Param
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
        chosen = result["recommended"]["params"][param.key] / _per_unit(param)
        axes.axvline(
            chosen,
            color=GREEN,
            linestyle="--",
            linewidth=1,
            label=f"chosen: {param.text(result['recommended']['params'][param.key])}",
        )
        _validation(axes, result, _arm_places(study, param, chosen))
    variant = " (model)" if result["variant"] == "model" else ""
    machine = result["machine"]
    axes.set_title(
        f"{result['workload']}{variant} on {machine['name']}: Linux {machine['kernel']}, {machine['accel']}", fontsize=9
    )
    axes.set_xlabel(f"{param.name} [{'s' if param.unit == 'us' else 'MiB'}]")
    axes.set_ylabel("score")
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


def _per_unit(param: Param) -> float:
    return 1e6 if param.unit == "us" else float(1 << 20)


def _trials(axes: Axes, study: Study, param: Param) -> None:
    points = [(t.params[param.key] / _per_unit(param), t.score) for t in study.trials()]
    kept = [(x, s.value) for x, s in points if s.feasible]
    broken = [(x, s.value) for x, s in points if not s.feasible and s.value is not None]
    unscored = [x for x, s in points if s.value is None]
    if kept:
        axes.plot(*zip(*kept, strict=True), "o", color=BLUE, label="measured")
    if broken:
        axes.plot(*zip(*broken, strict=True), "x", color=RED, label="limit broken (worst score so far)")
    for at in unscored:
        axes.axvline(at, color=RED, linewidth=1, alpha=0.4)


def _estimate(axes: Axes, study: Study, param: Param) -> None:
    history = study.trials()
    if not any(trial.score.feasible for trial in history):
        return
    values = list(param.values)
    curve = study.searcher.estimate(history, [study.space.point(**{param.key: value}) for value in values])
    if curve is not None:
        axes.plot([value / _per_unit(param) for value in values], curve, color=ORANGE, label="estimated")


def _validation(axes: Axes, result: dict[str, Any], places: dict[str, float]) -> None:
    for arm, marker in (("manual", "s"), ("tuned", "D")):
        found = (result["validation"] or {}).get(arm)
        if arm not in places or not found:
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
