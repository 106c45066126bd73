"""What the judge of a validation promises, counted where the truth is known: `make bench-judge`.

Whole studies of made schemes are played by damoos's own code. Rewrites the tables and the figure of docs/studies.md,
and exits with 1 where a promise is not kept.
"""

from __future__ import annotations

import math
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import product
from pathlib import Path

import numpy as np

from damoos import __version__
from damoos.bench import simulated, surfaces
from damoos.bench.duels import NOISES, SLOWDOWNS, Duel, Judged, Noise, Scheme, false_winners, play
from damoos.common.interpreter import process_pool
from damoos.report.charts import Axis, Chart, Level, Panel, Points
from damoos.report.charts.style import BLUE, GREEN, ORANGE, RED, SKY
from damoos.searchers.auto import AutoSearcher
from damoos.searchers.base import feasible
from damoos.statistics.arms import MANUAL, TUNED
from damoos.study.scoring import score_trials

ROOT = Path(__file__).parents[2]
PAGE, FIGURE = ROOT / "docs/studies.md", ROOT / "docs/judge.svg"
NR_STUDIES, NR_SURFACES, SEED = 400, 60, 52
RISK = 0.05
LOOKS = ((BLUE, "circle"), (GREEN, "square"), (ORANGE, "diamond"), (RED, "x"), (SKY, "triangle-down"))
# True schemes with a gain of ten points of the tuned one over the manual one.
WORSE, BETTER = Scheme(0.01, 0.10), Scheme(0.03, 0.32)
BROKEN = Scheme(0.111, 0.4)


def share(studies: Sequence[Judged], held: Sequence[bool]) -> float:
    """The share of studies in which something holds."""
    return sum(held) / len(studies)


def head(*cells: str) -> list[str]:
    return [f"| {' | '.join(cells)} |", "| --- " * len(cells) + "|"]


def winners(rows: Sequence[dict[str, float]]) -> Iterator[str]:
    """Two identical schemes."""
    yield from head("true slowdown, of 10 % allowed", *(f"noise {noise:.1%}" for noise in NOISES))
    for slowdown in SLOWDOWNS:
        cells = [
            "{false_winners:.1%}, kept in {kept:.0%}, {runs:.1f} runs".format(**row)
            for row in rows
            if row["slowdown"] == slowdown
        ]
        yield f"| {slowdown:.0%} | {' | '.join(cells)} |"


def drifts() -> tuple[list[str], float]:
    """Two identical schemes on a machine that becomes slower and slower."""
    rates, cells = (0.0, 0.002, 0.004, 0.01), ((0.02, 0.002), (0.05, 0.005), (0.07, 0.002))
    duels = [
        Duel(Scheme(slow, 0.3), [Scheme(slow, 0.3)], Noise(noise, drift=drift))
        for drift, (slow, noise) in product(rates, cells)
    ]
    found = iter(play(duels, NR_STUDIES))
    lines, worst = head("drift", *(f"slowdown {slow:.0%}, noise {noise:.1%}" for slow, noise in cells)), 0.0
    for drift in rates:
        row = [next(found) for _ in cells]
        shares = [share(studies, [one.best in (MANUAL, TUNED) for one in studies]) for studies in row]
        worst = max(worst, *shares)
        lines.append(f"| {drift:.1%} a run | {' | '.join(f'{one:.1%}' for one in shares)} |")
    return lines, worst


def outliers() -> tuple[list[str], float]:
    """The tuned scheme is better by ten points, and some runs take three times as long."""
    rates, noises = (0.0, 0.02, 0.05), (0.002, 0.005, 0.01)
    found = iter(
        play([Duel(WORSE, [BETTER], Noise(noise, outliers=rate)) for rate, noise in product(rates, noises)], NR_STUDIES)
    )
    lines, worst = head("runs that take three times as long", *(f"noise {noise:.1%}" for noise in noises)), 1.0
    for rate in rates:
        cells = []
        for studies in (next(found) for _ in noises):
            power = share(studies, [one.best == TUNED for one in studies])
            worst = min(worst, power)
            cells.append(f"{power:.1%}, {np.mean([one.nr_runs for one in studies]):.1f} runs")
        lines.append(f"| {rate:.0%} | {' | '.join(cells)} |")
    return lines, worst


def broken_limits() -> tuple[list[str], float]:
    """All schemes break the limit by 11 % of it."""
    noises, ratios = (0.001, 0.002, 0.005, 0.01, 0.02), (1.0, 5.0)
    duels = [Duel(BROKEN, [BROKEN] * 3, Noise(noise, of_schemes=ratio)) for ratio, noise in product(ratios, noises)]
    found = iter(play(duels, NR_STUDIES))
    lines, worst = head("noise of runs under a scheme", *(f"noise {noise:.1%}" for noise in noises)), 0.0
    for ratio in ratios:
        shares = [share(studies, [one.keeps for one in studies]) for studies in (next(found) for _ in noises)]
        worst = max(worst, *shares)
        lines.append(f"| {ratio:.0f} times as large | {' | '.join(f'{one:.1%}' for one in shares)} |")
    return lines, worst


def coverage() -> tuple[list[str], float]:
    """How often intervals of scores hold the true ones."""
    noises, ratios = (0.001, 0.005, 0.01), (1.0, 3.0, 10.0)
    duels = [Duel(WORSE, [BETTER], Noise(noise, of_schemes=ratio)) for ratio, noise in product(ratios, noises)]
    found = iter(play(duels, NR_STUDIES))
    lines, worst = head("noise of runs under a scheme", *(f"noise {noise:.1%}" for noise in noises)), 1.0
    for ratio in ratios:
        cells = []
        for studies in (next(found) for _ in noises):
            shares = [
                np.mean([one.covered[name] for one in studies if name in one.covered]) for name in (MANUAL, TUNED)
            ]
            worst = min(worst, *map(float, shares))
            cells.append(" and ".join(f"{one:.1%}" for one in shares))
        lines.append(f"| {ratio:.0f} times as large | {' | '.join(cells)} |")
    return lines, worst


def two_modes() -> list[str]:
    """What two runs often do not show: half of the runs under a scheme take longer, beside quiet baselines."""
    noise, modes = 0.001, (0.0, 0.01, 0.02, 0.04)
    lines = head(
        "half of the runs longer, half shorter by", "false winners", "broken limit kept", "intervals that hold"
    )
    equal = [Duel(Scheme(0.05, 0.3), [Scheme(0.05, 0.3)], Noise(noise, modes=mode)) for mode in modes]
    broken = [Duel(BROKEN, [BROKEN] * 3, Noise(noise, modes=mode)) for mode in modes]
    for mode, same, wrong in zip(modes, play(equal, NR_STUDIES), play(broken, NR_STUDIES), strict=True):
        winners = share(same, [one.best in (MANUAL, TUNED) for one in same])
        kept = share(wrong, [one.keeps for one in wrong])
        held = np.mean([hold for one in same for name, hold in one.covered.items() if name in (MANUAL, TUNED)])
        lines.append(f"| {mode:.0%} | {winners:.1%} | {kept:.1%} | {held:.1%} |")
    return lines


def chances_of(noise: float, nr_params: int, number: int) -> list[tuple[float, bool]]:
    """What a search says of the chance to keep the limit, and whether it is kept, at points all over the space."""
    surface = surfaces.generate(number + 1, SEED, nr_params)[number]
    assert surface.groups
    surface = surfaces.made(surface.name, surface.groups, noise, nr_params)
    study, runs = simulated.simulate(surface, "auto", 10 * nr_params, seed=number)
    history = study.known(score_trials(runs, study.scorer))
    if not feasible(history) or not isinstance(study.searcher, AutoSearcher):
        return []
    points = surface.space.distinct(np.random.default_rng(number).random((60, nr_params)))
    base = surface.mean(None)
    margins = [study.scorer.score(surface.mean(point), base, ()).margin or 0.0 for point in points]
    return list(zip(map(float, study.searcher.outlook(history, points)[1]), (one >= 0 for one in margins), strict=True))


def calibration() -> list[str]:
    """How many points keep the limit, of those that are said to keep it with some chance."""
    noises, bands = (0.001, 0.005, 0.01, 0.02), ((0.4, 0.6), (0.85, 0.95))
    lines = head("parameters", "said", *(f"noise {noise:.1%}" for noise in noises))
    with process_pool() as pool:
        for nr_params in (1, 2):
            jobs = list(product(noises, range(NR_SURFACES)))
            found = list(
                pool.map(chances_of, [n for n, _ in jobs], [nr_params] * len(jobs), [k for _, k in jobs], chunksize=4)
            )
            for low, high in bands:
                cells = []
                for nth, _ in enumerate(noises):
                    of_noise = [one for study in found[nth * NR_SURFACES : (nth + 1) * NR_SURFACES] for one in study]
                    kept = [kept for chance, kept in of_noise if low <= chance <= high]
                    cells.append(f"{np.mean(kept):.0%} of {len(kept)}" if kept else "-")
                lines.append(f"| {nr_params} | {low:.0%} to {high:.0%} | {' | '.join(cells)} |")
    return lines


def figure(rows: Sequence[dict[str, float]]) -> Chart:
    """False winners by noise, a series for each slowdown."""
    layers: list[object] = [Level("promised", RISK, RED)]
    for slowdown, (colour, marker) in zip(SLOWDOWNS, LOOKS, strict=False):
        own = [row for row in rows if row["slowdown"] == slowdown]
        shares = [row["false_winners"] for row in own]
        halves = [1.96 * math.sqrt(max(one * (1 - one), 1e-9) / NR_STUDIES) for one in shares]
        layers.append(
            Points(
                f"both slow down by {slowdown:.0%}", [100 * row["noise"] for row in own], shares,
                [max(0.0, one - half) for one, half in zip(shares, halves, strict=True)],
                [one + half for one, half in zip(shares, halves, strict=True)], colour, marker,
            )
        )  # fmt: skip
    return Chart(
        f"How often one of two identical schemes is called best ({NR_STUDIES} made studies each)",
        [Panel(Axis("noise of a run [%]", "noise_percent"), Axis("false winners", "false_winners"), layers)],
    )  # fmt: skip


def main() -> int:
    rows = false_winners(NR_STUDIES)
    (drift, worst_drift), (outlying, power) = drifts(), outliers()
    (limits, falsely_kept), (held, least_held) = broken_limits(), coverage()
    note = (
        f"Made by `make bench-judge` on {date.today()}: damoos {__version__}, Python {platform.python_version()},"
        f" {NR_STUDIES} studies a cell; a model of runs, not a machine."
    )
    parts = {
        "**Two identical schemes**: how often one is called best (promised: at most 5 %).": list(winners(rows)),
        "**The same on a machine that becomes slower with each run.**": drift,
        "**Power**: how often a scheme is found that is better by ten points.": outlying,
        "**A limit that all schemes break by 11 % of it**: studies in which one is said to keep it.": limits,
        "**Intervals of 95 %**: how often they hold the true score, of the manual and of the tuned scheme.": held,
        "**Runs in two modes**, beside baselines that differ by 0.1 % (nothing is promised).": two_modes(),
        "**The chance to keep the limit** that `auto` says of points all over the space, and how many of them keep it"
        f" ({NR_SURFACES} made workloads each).": calibration(),
    }
    text = "\n".join([note, *(line for title, lines in parts.items() for line in ("", title, "", *lines))])
    print(text)
    page = PAGE.read_text()
    marked = re.compile(r"(<!-- judge: begin -->\n).*?(\n<!-- judge: end -->)", re.DOTALL)
    page, nr_replaced = marked.subn(lambda found: found[1] + text + found[2], page)
    assert nr_replaced == 1, f"{PAGE} has no place for the tables"
    PAGE.write_text(page)
    figure(rows).save(FIGURE)
    kept = {
        "false winners": max(row["false_winners"] for row in rows) <= RISK,
        "false winners under drift": worst_drift <= RISK,
        "power": power >= 0.9,
        "falsely kept": falsely_kept <= RISK,
        "coverage": least_held >= 0.92,
    }
    for what, is_kept in kept.items():
        print(f"{what}: {'as promised' if is_kept else 'NOT as promised'}")
    return 0 if all(kept.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
