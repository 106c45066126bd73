"""Real programs without a scheme and under the manual one: time, and memory by kind. `make bench-real` runs this.

    tests/bench/real.py FOLDER [PATTERN ...]

What has been measured is kept in FOLDER, a file for each workload, and is not measured again; so an interrupted run
goes on where it stopped. In the end it prints the table of docs/workloads.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from damoos.bench.workloads import Measured, chosen, measure
from damoos.errors import DamoosError
from damoos.scorers.terms import term
from damoos.store.studies import slug
from damoos.units import show_bytes
from damoos.workloads import catalog

MACHINE = "guest"
COLUMNS = (
    "workload", "reports", "runtime", "anonymous", "file", "kernel", "peak", "slowdown", "RSS saving",
    "net saving",
)  # fmt: skip


def say(text: str) -> None:
    """News, away from the table."""
    print(text, file=sys.stderr, flush=True)


def row_of(measured: Measured) -> dict[str, Any]:
    """What is kept of a workload."""
    return {
        "name": measured.workload.name,
        "variant": measured.workload.variant,
        "reports": {name: measured.without.metric(name) for name in measured.workload.reports},
        "without": dict(measured.without.metrics),
        "under": dict(measured.under.metrics),
        "slowdown": measured.slowdown,
        "rss_saving": measured.saving,
        "net_saving": term("net_saving").of(measured.under, measured.without),
        "provenance": dict(measured.without.provenance),
    }


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    base = row["without"]
    cells = (
        f"`{row['name']}`",
        ", ".join(f"{name} {value:.4g}" for name, value in row["reports"].items()),
        f"{base['runtime_s']:.1f} s",
        *(show_bytes(base[f"{kind}_avg_bytes"]) for kind in ("anon", "file", "kernel")),
        show_bytes(base["memory_max_bytes"]),
        f"{row['slowdown']:+.1%}",
        f"{row['rss_saving']:.1%}",
        f"{row['net_saving']:.1%}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure what is left, and print all of it."""
    folder, *patterns = sys.argv[1:]
    kept = Path(folder)
    kept.mkdir(parents=True, exist_ok=True)
    names = [name for name in chosen(patterns or ["*/*"]) if catalog.find(name)[1].real]
    for name in names:
        file = kept / f"{slug(name)}.json"
        if file.exists():
            continue
        say(f"{name}")
        try:
            measured, _ = measure(name, MACHINE, say, require_real=True)
        except DamoosError as error:
            say(f"{name}: {error}")
            continue
        file.write_text(json.dumps(row_of(measured), indent=1) + "\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for file in sorted(kept.glob("*.json")):
        print(line(json.loads(file.read_text())))


if __name__ == "__main__":
    main()
