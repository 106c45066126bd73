"""How good the searchers are: `make bench`. Rewrites the tables and the figure of docs/searchers.md.

The measured curves are not part of damoos; they are public in awslabs/damoos (scheme_adapters/polyfit_adapter/store).
They are taken from the folder that DAMOOS_CURVES names; without it only made curves race, and nothing is rewritten.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from damoos import __version__
from damoos.bench.curves import Curve, generate, load
from damoos.bench.searchers import names, search, table
from damoos.model import space
from damoos.report.charts.style import BLUE, GREEN, GREY, RED
from damoos.searchers import border, searcher, surrogate

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/searchers.md"
TRIALS = (5, 10, 20)
BARS = {5: 0.03, 10: 0.008, 20: 0.004}
NR_MADE = 1000
# What leaving one curve out chooses from; damoos's own setting is one of them.
SETTINGS = tuple(product(((0.05, 0.15, 0.45), (0.1, 0.3), (0.2,), (0.05, 0.2)), (0.1, 0.2, 0.4), (5, 6)))
NR_CHOOSING = 60
# Other places for the points: where the scale turns from linear to logarithmic, in steps of the paper's range.
KNEES = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0)
NOISY = ("parsec3/x264", "splash2x/ocean_cp", "splash2x/fft")


def markdown(rows: Sequence[dict], note: str) -> str:
    """One line per searcher."""
    lines = [
        note,
        "",
        "| searcher | " + " | ".join(f"{n} trials" for n in TRIALS) + " | limit broken | ms/ask |",
        "| --- " * (len(TRIALS) + 3) + "|",
    ]
    for name in dict.fromkeys(row["searcher"] for row in rows):
        mine = [row for row in rows if row["searcher"] == name]
        cells = ["{:.4f} [{:.4f}, {:.4f}]".format(row["regret"], *row["regret_ci95"]) for row in mine]
        broken = " / ".join(f"{row['infeasible_rate']:.1%}" for row in mine)
        ask_ms = max(row["ask_ms"] for row in mine)
        lines.append(f"| {name} | {' | '.join(cells)} | {broken} | {ask_ms:.1f} |")
    return "\n".join(lines)


def regrets(curves: Sequence[Curve]) -> np.ndarray:
    """Regrets of `auto`, shape (numbers of trials, curves)."""
    found = []
    for count in TRIALS:
        row = []
        for curve in curves:
            made = searcher("auto", curve.space, count, 0)
            row.append(curve.regret(made.recommend(search(made, curve)[0])["min_age_us"]))
        found.append(row)
    return np.array(found)


@contextmanager
def setting(scales: tuple[float, ...], own_share: float, fill_from: int) -> Iterator[None]:
    """`auto` with other constants."""
    with (
        mock.patch.dict(surrogate.LENGTH_SCALES, {1: scales}),
        mock.patch.object(surrogate, "OWN_SHARE", own_share),
        mock.patch.object(border, "FILL_FROM", fill_from),
    ):
        surrogate.settings.cache_clear()
        yield
    surrogate.settings.cache_clear()


def left_out(curves: Sequence[Curve]) -> np.ndarray:
    """Regrets on each curve with the constants that are best on the others and on made ones, shape (trials, curves)."""
    made = generate(NR_CHOOSING, seed=99)
    on_curves, on_made = [], []
    for one in SETTINGS:
        with setting(*one):
            on_curves.append(regrets(curves))
            on_made.append(regrets(made).mean(axis=1))
    by_setting, weight = np.array(on_curves), np.array([1 / BARS[count] for count in TRIALS])
    chosen = []
    for n in range(len(curves)):
        others = np.delete(by_setting, n, axis=2).mean(axis=2)
        best = int(np.argmin(((others + np.array(on_made)) * weight).sum(axis=1)))
        chosen.append(by_setting[best, :, n])
    return np.transpose(chosen)


def elsewhere(curves: Sequence[Curve]) -> np.ndarray:
    """Regrets averaged over places of the points, shape (numbers of trials, curves)."""
    found = []
    for knee in KNEES:
        with mock.patch.object(space, "KNEE", knee / 60):
            found.append(regrets(curves))
    return np.mean(found, axis=0)


def draw(curves: Sequence[Curve]) -> None:
    """The points that `auto` asks on three curves, numbered."""
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, name in zip(panels, ("parsec3/raytrace", "parsec3/dedup", "splash2x/fft"), strict=True):
        curve = next(one for one in curves if one.name == name)
        made = searcher("auto", curve.space, 10, 0)
        history, _ = search(made, curve)
        axes.plot(curve.ages_s, curve.score, ".", color=GREY, markersize=3, label="measured curve")
        low = np.nanmin(curve.score)
        for trial in history:
            age = trial.params["min_age_us"] / 1e6
            value = low if trial.score.value is None else trial.score.value
            axes.plot([age], [value], "o" if trial.score.feasible else "x", color=BLUE if trial.score.feasible else RED)
            axes.annotate(str(trial.number + 1), (age, value), textcoords="offset points", xytext=(3, 4), fontsize=7)
        axes.axvline(made.recommend(history)["min_age_us"] / 1e6, color=GREEN, linestyle="--", label="recommended")
        axes.set_xlim(-0.3, 66)
        axes.set_xscale("function", functions=(np.log1p, np.expm1))
        axes.set_xticks([0, 1, 2, 4, 7, 12, 21, 35, 60], [0, 1, 2, 4, 7, 12, 21, 35, 60], fontsize=7)
        axes.minorticks_off()
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("min_age [s]", fontsize=8)
    panels[0].set_ylabel("score [percent points]", fontsize=8)
    panels[0].legend(fontsize=7)
    figure.savefig(PAGE.with_suffix(".png"), dpi=130)


def luck(curves: Sequence[Curve]) -> str:
    """What the constants and the places of the points have to do with the figures."""
    out, moved, own = left_out(curves), elsewhere(curves), regrets(curves)
    plain = [n for n, curve in enumerate(curves) if curve.name not in NOISY]
    lines = [
        "| `auto` on the published curves | " + " | ".join(f"{n} trials" for n in TRIALS) + " |",
        "| --- " * (len(TRIALS) + 1) + "|",
        "| bar | " + " | ".join(f"{BARS[n]:g}" for n in TRIALS) + " |",
    ]
    for says, values in (
        ("all 11", own.mean(axis=1)),
        ("all 11, each left out of the choice of the constants", out.mean(axis=1)),
        ("the same without x264", np.delete(out, [c.name for c in curves].index(NOISY[0]), axis=1).mean(axis=1)),
        (f"the {len(plain)} with a structure", own[:, plain].mean(axis=1)),
        ("all 11, points elsewhere (mean of 6 scales)", moved.mean(axis=1)),
        (f"the {len(plain)} with a structure, points elsewhere", moved[:, plain].mean(axis=1)),
        *((f"{name}, points elsewhere", moved[:, [c.name for c in curves].index(name)]) for name in NOISY),
    ):
        lines.append(f"| {says} | " + " | ".join(f"{value:.4f}" for value in values) + " |")
    return "\n".join(lines)


def main() -> None:
    """Race, and write."""
    made = generate(NR_MADE, seed=0)
    host = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    parts = [f"damoos {__version__}, {date.today()}, {host}. Regret with its 95 % interval over the curves."]
    folder = os.environ.get("DAMOOS_CURVES")
    if folder:
        measured = load(Path(folder))
        rows = table(measured, names("all"), TRIALS, 100)
        parts.append(markdown(rows, f"**{len(measured)} published curves**, 100 seeds:"))
        with threadpool_limits(1):
            parts.append(luck(measured))
        draw(measured)
    rows = table(made, ["auto", "daos", "grid", "random", "optuna:tpe"], TRIALS, 3)
    parts.append(
        markdown(rows, f"**{NR_MADE} made curves** of the six shapes, noise 0.5 to 5 % of the range, 3 seeds:")
    )
    text = "\n\n".join(parts)
    print(text)
    if not folder:
        return
    block = f"<!-- make bench writes from here -->\n{text}\n<!-- to here -->"
    page = PAGE.read_text()
    PAGE.write_text(re.sub(r"<!-- make bench writes.*?<!-- to here -->", lambda _: block, page, flags=re.DOTALL))


if __name__ == "__main__":
    main()
