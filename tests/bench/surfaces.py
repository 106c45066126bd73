"""What whole studies come to on made workloads, after the validation: `make bench-search`.

Rewrites the table of docs/searchers.md. Three disjoint seeds of the generator are played, as many workloads of each.
"""

from __future__ import annotations

import os
import platform
import re
from datetime import date
from pathlib import Path

from damoos import __version__
from damoos.bench.simulated import table
from damoos.bench.surfaces import generate

PAGE = Path(__file__).parents[2] / "docs/searchers.md"
SEEDS = (11, 12, 13)
NR_SURFACES = 29
# Parameters and trials; the paper's search tunes one parameter only.
KINDS = ((1, (10, 20)), (2, (20, 40)), (3, (20, 40)), (4, (20, 40)), (6, (40,)))
RACERS = ("auto", "optuna:qmc", "optuna:tpe", "daos")


def main() -> None:
    """Play, and write."""
    lines = [
        f"damoos {__version__}, {date.today()}, {os.cpu_count()} cores, Python {platform.python_version()};"
        f" {len(SEEDS)} seeds of {NR_SURFACES} made workloads, a\nmodel. Score `daos`. The interval is of 95 %.",
        "",
        "| parameters, trials | searcher | lost | before the validation | truly broken | runs (median) |",
        "| --- " * 6 + "|",
    ]
    for nr_params, trials in KINDS:
        surfaces = [one for seed in SEEDS for one in generate(NR_SURFACES, seed, nr_params)]
        racers = [name for name in RACERS if name != "daos" or nr_params == 1]
        rows = sorted(table(surfaces, racers, trials), key=lambda row: row["trials"])
        for row in rows:
            low, high = row["lost_ci95"]
            lines.append(
                f"| {nr_params}, {row['trials']} | {row['searcher']} | {row['lost']:.3f} [{low:.3f}, {high:.3f}]"
                f" | {row['lost_before']:.3f} | {row['broken']:.1%} | {row['runs']:.0f} |"
            )
            print(lines[-1], flush=True)
    block = "<!-- make bench-search writes from here -->\n" + "\n".join(lines) + "\n<!-- to here -->"
    text, count = re.subn(
        r"<!-- make bench-search writes.*?<!-- to here -->", lambda _: block, PAGE.read_text(), flags=re.DOTALL
    )
    assert count == 1
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
