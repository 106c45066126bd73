"""What a recording saves: the search with a prior and 4 runs, without one and 10, and the DAOS paper's with 10.

    python tests/bench/prior.py RESULTS WORKLOAD...

Real studies, each with its own baselines and its own validation (2 rounds of one candidate). A workload's studies that
are in the folder already are not done again, so it can be ended and begun again. Prints docs/monitoring.md's table.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from damoos import api

KINDS = {
    "prior, 4": {"trials": 4, "prior": "record"},
    "auto, 10": {"trials": 10, "prior": "none"},
    "daos, 10": {"trials": 10, "prior": "none", "searcher": "daos"},
}


@dataclass(frozen=True)
class Outcome:
    score: float | None
    half: float
    kept: bool
    trials_s: float
    all_s: float


def study(results: Path, workload: str, kind: str) -> api.TunedStudy:
    folder = results / kind.replace(", ", "")
    for done in sorted(folder.glob("*/result.json")):
        found = api.load_study(done.parent.name, results=folder)
        if found.study.config.workload == workload:
            return found
    return api.tune(workload, results=folder, repeats=2, candidates=1, **KINDS[kind])


def outcome(found: api.TunedStudy) -> Outcome:
    """Workload-seconds: of the recording and the trials, and of every run until the choice is validated."""
    spent = {"trials": 0.0, "all": 0.0}
    for run in found.study.runs():
        if run.measurement:
            metrics = run.measurement.metrics
            seconds = metrics["elapsed_s"] if run.measurement.censored else metrics["runtime_s"]
            spent["all"] += seconds
            spent["trials"] += seconds if run.kind in ("trial", "record") else 0.0
    arm = (found.result["validation"] or {}).get("tuned")
    if not arm or arm["score"] is None:
        return Outcome(None, 0.0, False, spent["trials"], spent["all"])
    low, high = arm["score_ci95"]
    return Outcome(arm["score"], (high - low) / 2, arm["feasible"], spent["trials"], spent["all"])


def cell(one: Outcome) -> str:
    if one.score is None:
        return "none"
    return f"{one.score:+.3f} ± {one.half:.3f}" + ("" if one.kept else ", limit broken")


def main() -> None:
    results, workloads = Path(sys.argv[1]), sys.argv[2:]
    print("| workload | " + " | ".join(f"{kind}: score" for kind in KINDS) + " | trials, s | all runs, s | saved |")
    print("| --- " * (len(KINDS) + 4) + "|")
    totals = {kind: [0.0, 0.0] for kind in KINDS}
    for workload in workloads:
        found = {kind: outcome(study(results, workload, kind)) for kind in KINDS}
        for kind, one in found.items():
            totals[kind][0] += one.trials_s
            totals[kind][1] += one.all_s
        trials = " / ".join(f"{one.trials_s:.0f}" for one in found.values())
        every = " / ".join(f"{one.all_s:.0f}" for one in found.values())
        first, _, last = found.values()
        saved = f"{last.trials_s / first.trials_s:.1f}, {last.all_s / first.all_s:.1f} times"
        print(f"| `{workload}` | " + " | ".join(map(cell, found.values())) + f" | {trials} | {every} | {saved} |")
    (first_s, first_all_s), *_, (last_s, last_all_s) = totals.values()
    print(f"\nsum: {last_s / first_s:.2f} times less in trials, {last_all_s / first_all_s:.2f} times with all runs")


if __name__ == "__main__":
    main()
