"""Real programs without a scheme and under the manual one, and a study of each. `make bench-real` runs this.

    tests/bench/real.py STUDIES [PATTERN ...]

What has been measured is kept in results/curated/real, two files for each workload, and is not measured again; so a run
that was interrupted goes on where it stopped. Several may run at once. In the end the tables of docs/workloads.md are
made from all that is kept. The raw data of the studies lies in STUDIES.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generate.results import CURATED, TOP, between

from damoos import tune
from damoos.bench.workloads import Measured, chosen, measure
from damoos.errors import DamoosError
from damoos.scorers.terms import term
from damoos.statistics.limits import Standing
from damoos.store.studies import slug
from damoos.units import show_bytes
from damoos.workloads import catalog

MACHINE = "guest"
KEPT = CURATED / "real"
PAGE = TOP / "docs/workloads.md"
# A study of so many runs of up to a minute takes ten minutes; its verdict is as sound as its repeats allow.
BUDGET: Mapping[str, Any] = {"trials": 6, "repeats": 3, "candidates": 1}
STUDY_S = 20.0
"""Programs that run longer are measured, and not tuned: there is an end to a night."""
# Keys of a study's result that are kept.
OF_A_STUDY = ("study", "note", "machine", "provenance", "manual", "validation", "verdict", "verdict_text", "elapsed_s")
MEMORY = (
    "workload", "reports", "runtime", "anonymous", "file", "kernel", "peak", "slowdown", "RSS saving", "net saving",
)  # fmt: skip
VERDICTS = ("workload", "verdict", "`min_age`: manual, tuned", "slowdown", "RSS saving", "score x 100")


def say(text: str) -> None:
    """News, away from the tables."""
    print(text, file=sys.stderr, flush=True)


def kept_of(measured: Measured) -> dict[str, Any]:
    """What is kept of a workload's two runs."""
    return {
        "name": measured.workload.name,
        "reports": {name: measured.without.metric(name) for name in measured.workload.reports},
        "without": dict(measured.without.metrics),
        "under": dict(measured.under.metrics),
        "slowdown": measured.slowdown,
        "rss_saving": measured.saving,
        "net_saving": term("net_saving").of(measured.under, measured.without),
        "provenance": dict(measured.without.provenance),
    }


def memory_line(row: Mapping[str, Any]) -> list[str]:
    """Cells of the table of memory."""
    base = row["without"]
    return [
        f"`{row['name']}`",
        ", ".join(f"{name} {value:.4g}" for name, value in row["reports"].items()),
        f"{base['runtime_s']:.1f} s",
        *(show_bytes(base[f"{kind}_avg_bytes"]) for kind in ("anon", "file", "kernel")),
        show_bytes(base["memory_max_bytes"]),
        *(f"{row[name]:{form}}" for name, form in (("slowdown", "+.1%"), ("rss_saving", ".1%"), ("net_saving", ".1%"))),
    ]


def verdict_line(result: Mapping[str, Any]) -> list[str]:
    """Cells of the table of verdicts: figures are those of the arm that is best, else of the tuned scheme."""
    arms = result["validation"] or {}
    best = result["verdict"] if result["verdict"] in ("manual", "tuned") else "tuned"
    said = {"baseline": "leave it alone", "indistinguishable": "cannot be told apart"}
    said["not comparable"] = "not comparable"
    ages = [result["manual"]["params"], *([arms["tuned"]["params"]] if "tuned" in arms else [])]
    cells = [
        f"`{result['name']}`",
        said.get(result["verdict"], f"**{result['verdict']}**"),
        ", ".join(f"{params['min_age_us'] / 1e6:.3g} s" for params in ages),
    ]
    if best not in arms:
        return [*cells, "", "", "no trial kept the limit"]
    arm, base = arms[best], arms["baseline"]
    score = f"{100 * arm['score']:.1f}"
    if arm["score_ci95"]:
        score += " [{:.1f}, {:.1f}]".format(*(100 * end for end in arm["score_ci95"]))
    limit = "" if arm["feasible"] else ", limit broken" if arm["limits"] == Standing.BROKEN else ", limit not shown"
    return [
        *cells,
        f"{arm['runtime_s'] / base['runtime_s'] - 1:+.1%}",
        f"{1 - arm['rss_avg_bytes'] / base['rss_avg_bytes']:.1%}",
        score + limit,
    ]


def work(name: str, studies: Path) -> None:
    """Measure and tune one workload, as far as that is not done."""
    measured_file, verdict_file = KEPT / f"{slug(name)}.json", KEPT / f"{slug(name)}.verdict.json"
    if not measured_file.exists():
        say(f"{name}: measured")
        measured, _ = measure(name, MACHINE, say, require_real=True)
        _keep(measured_file, kept_of(measured))
    if not verdict_file.exists() and json.loads(measured_file.read_text())["without"]["runtime_s"] <= STUDY_S:
        say(f"{name}: tuned")
        result = tune(name, machine=MACHINE, require_real=True, results=studies, **BUDGET).result
        measured_as = json.loads(measured_file.read_text())["name"]
        _keep(verdict_file, {"name": measured_as, "budget": BUDGET, **{key: result[key] for key in OF_A_STUDY}})


def _keep(file: Path, content: Mapping[str, Any]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1) + "\n")
    new.rename(file)


def _table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [list(columns), ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    """Measure what is left, then make the tables from all that is kept."""
    folder, *patterns = sys.argv[1:]
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in chosen(patterns or ["*/*"]):
        if not catalog.find(name)[1].real:
            continue
        try:
            work(name, Path(folder))
        except DamoosError as error:
            say(f"{name}: {error}")
    files = sorted(KEPT.glob("*.json"))
    rows = [json.loads(file.read_text()) for file in files]
    text = PAGE.read_text()
    text = between(text, "real", _table(MEMORY, [memory_line(row) for row in rows if "verdict" not in row]))
    text = between(text, "verdicts", _table(VERDICTS, [verdict_line(row) for row in rows if "verdict" in row]))
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
