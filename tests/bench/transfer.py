"""What finished studies are worth to a new one, on made workloads: `make bench-search`.

Rewrites its table in docs/searchers.md.
"""

from __future__ import annotations

import os
import platform
import re
from datetime import date
from pathlib import Path

from damoos import __version__
from damoos.bench.transfer import table

PAGE = Path(__file__).parents[2] / "docs/searchers.md"
SEEDS = (21, 22, 23)
# Parameters, workloads of each seed, and trials of the studies that are learned from.
KINDS = ((1, 20, 10), (2, 10, 20))
TRIALS = (4, 10)


def main() -> None:
    """Play, and write."""
    lines = [
        f"damoos {__version__}, {date.today()}, {os.cpu_count()} cores, Python {platform.python_version()};"
        f" {len(SEEDS)} seeds of made workloads, a\nmodel. Score `daos`, searcher `auto`. The interval is of 95 %.",
        "",
        "| parameters, trials | what it learns from | lost | truly broken | runs (mean) |",
        "| --- " * 5 + "|",
    ]
    for nr_params, count, learned in KINDS:
        for row in table(nr_params, SEEDS, count, learned, TRIALS):
            low, high = row["lost_ci95"]
            lines.append(
                f"| {nr_params}, {row['trials']} | {row['like']} | {row['lost']:.3f} [{low:.3f}, {high:.3f}]"
                f" | {row['broken']:.1%} | {row['runs']:.1f} |"
            )
            print(lines[-1], flush=True)
    block = (
        "<!-- make bench-search writes what studies learn from here -->\n" + "\n".join(lines) + "\n<!-- up to here -->"
    )
    text, count = re.subn(
        r"<!-- make bench-search writes what studies learn.*?<!-- up to here -->",
        lambda _: block,
        PAGE.read_text(),
        flags=re.DOTALL,
    )
    assert count == 1
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
