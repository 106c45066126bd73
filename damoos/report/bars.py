"""Groups of bars with intervals, as the paper's Figures 7 and 8 have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.store.artifacts import Artifacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart also without colour vision; after the last one it begins anew, hatched.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#666666")
ABSENT = "no value"
MARK = "#d55e00"
# A bar takes at least so much of the figure's width.
BAR_INCHES = 0.16

Cell = Mapping[str, Any] | None


def sized(groups: int, series: int, panels: int, captions: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure that is wide enough for its bars, with panels one over the other."""
    from matplotlib.figure import Figure

    width = max(6.0, 1.5 + groups * (series + 1.2) * BAR_INCHES)
    figure = Figure(figsize=(width, 2.4 * panels + 0.4 * captions), layout="constrained")
    return figure, list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0])


def bars(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[Cell]], neutral: float, label: str) -> None:
    """Draw a group of bars for each name, one of each series, from the neutral value.

    Parameters
    ----------
    series : mapping of str to sequence
        A cell for each group: ``mean`` and ``ci95`` (a pair or null); None where there is no value. One with ``broken``
        set gets a cross.
    neutral : float
        Where nothing has changed.
    """
    width = 0.84 / len(series)
    for nth, (name, cells) in enumerate(series.items()):
        places = [at + (nth - (len(series) - 1) / 2) * width for at in range(len(groups))]
        known = [(at, cell) for at, cell in zip(places, cells, strict=True) if cell is not None]
        means = [cell["mean"] for _, cell in known]
        ends = [cell["ci95"] or (cell["mean"], cell["mean"]) for _, cell in known]
        reach = [[mean - low for mean, (low, _) in zip(means, ends, strict=True)]]
        reach += [[high - mean for mean, (_, high) in zip(means, ends, strict=True)]]
        axes.bar(
            [at for at, _ in known], [mean - neutral for mean in means], width, bottom=neutral,
            yerr=reach if known else None, label=name, color=PALETTE[nth % len(PALETTE)],
            hatch="//" if nth >= len(PALETTE) else None, error_kw={"elinewidth": 0.8, "capsize": 1.5},
        )  # fmt: skip
        crosses = [(at, cell["mean"]) for at, cell in known if cell.get("broken")]
        if crosses:
            axes.plot(*zip(*crosses, strict=True), "X", color=MARK, markeredgecolor="white", markersize=9, zorder=4)
        for at in (at for at, cell in zip(places, cells, strict=True) if cell is None):
            axes.text(at, neutral, ABSENT, rotation=90, ha="center", va="bottom", fontsize=6, color="#666666")
    axes.axhline(neutral, color="#666666", linewidth=0.8)
    axes.set_ylabel(label, fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.margins(y=0.12)
    slanted = len(groups) > 3
    axes.set_xticks(
        range(len(groups)), groups, fontsize=8, rotation=30 if slanted else 0, ha="right" if slanted else "center"
    )


def save(figure: Figure, artifacts: Artifacts, stem: str) -> list[Path]:
    """Write the figure as PNG and as SVG."""
    return [
        artifacts.write_bytes(
            f"{stem}.{ending}",
            lambda draft, kind=ending: figure.savefig(draft, format=kind, dpi=150),  # type: ignore[misc]
        )
        for ending in ("png", "svg")
    ]


def short(workload: str) -> str:
    """A workload's name as the paper shortens it: ``P/raytrace``, ``S/fft``."""
    suite, slash, name = workload.rpartition("/")
    letters = {"parsec3": "P", "splash2x": "S"}
    return f"{letters[suite]}/{name}" if slash and suite in letters else name or workload
