"""The tables and figures of the documentation that come from `results/curated`, and those of `generate.figures`.

python -m generate.results                            write them (make docs-figures)
python -m generate.results add RESULTS STUDY FILE     take the result of a study into a curated file
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from damoos.report.charts import Axis, Chart, Level, Panel, Points
from damoos.report.charts.style import BLUE, GREY, ORANGE, RED
from damoos.statistics.summary import told
from damoos.units import MIB
from generate import figures

TOP = Path(__file__).resolve().parents[2]
CURATED = TOP / "results/curated"
REDIS = CURATED / "redis-idle.json"
ARMS = {"baseline": "no scheme", "manual": "manual scheme", "tuned": "**tuned scheme**"}
# Metrics that a curated result keeps of each run.
METRICS = (
    "runtime_s",
    "rss_avg_bytes",
    "net_avg_bytes",
    "p99_ms",
    "ops_per_s",
    "kdamond_cpu_s",
    "pswpin",
    "pgmajfault",
)

Curated = Mapping[str, Any]


def add(results: Path, name: str, file: Path) -> None:
    """Write what the documentation needs of a finished study into a curated file."""
    from damoos.store.studies import Store
    from damoos.study.study import tuning_study

    study = tuning_study(Store(results).load(name))
    _, names = study.arms()
    runs = [
        {
            "run": run.key,
            "kind": run.kind,
            "number": run.number,
            "arm": names.get(run.arm, run.arm),
            "params": run.params,
            "error": run.error,
            "started": run.measurement and run.measurement.provenance["started"],
            "censored": bool(run.measurement and run.measurement.censored),
            "metrics": {
                metric: run.measurement.metrics[metric]
                for metric in METRICS
                if run.measurement and metric in run.measurement.metrics
            },
        }
        for run in study.runs()
    ]
    curated = {"config": study.record.config, "result": study.record.result, "runs": runs}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(curated, indent=1) + "\n")


def quantities(curated: Curated, arm: str) -> dict[str, Any]:
    """Mean, 95 % interval and values of an arm's validation: its metrics, and its savings in each round."""
    rounds: dict[int, dict[str, Mapping[str, float]]] = {}
    for run in curated["runs"]:
        if run["kind"] == "validation" and run["metrics"]:
            rounds.setdefault(run["number"], {})[run["arm"]] = run["metrics"]
    own = [each[arm] for each in rounds.values() if arm in each]
    pairs = [(each[arm], each["baseline"]) for each in rounds.values() if arm in each and "baseline" in each]
    return {
        **{metric: told([run[metric] for run in own]) for metric in METRICS if metric in own[0]},
        "saving": told([1 - run["rss_avg_bytes"] / base["rss_avg_bytes"] for run, base in pairs]),
        "net_saving": told([1 - run["net_avg_bytes"] / base["net_avg_bytes"] for run, base in pairs]),
    }


def redis_table(curated: Curated) -> str:
    """The README's result: the score, which is the net memory, with its interval, and means."""
    lines = ["| | net memory | saved | RSS | p99 | requests/s |", "| --- | --- | --- | --- | --- | --- |"]
    validation = curated["result"]["validation"]
    base = validation["baseline"]["score"]
    for arm, name in ARMS.items():
        of, score = quantities(curated, arm), validation[arm]["score"]
        low, high = (f"{end / MIB:.1f}" for end in validation[arm]["score_ci95"])
        saved = "" if arm == "baseline" else f"{1 - score / base:.0%}"
        rss, p99, rate = (of[metric]["mean"] for metric in ("rss_avg_bytes", "p99_ms", "ops_per_s"))
        lines.append(
            f"| {name} | {score / MIB:.1f} MiB [{low}, {high}] | {saved} | {rss / MIB:.1f} MiB | {p99 * 1000:.0f} us"
            f" | {rate:.0f} |"
        )
    return "\n".join(lines)


def redis_chart(curated: Curated) -> Chart:
    """Memory and slow requests by the age at which memory is paged out: each point is one run."""
    trials = [
        run for run in curated["runs"] if run["kind"] in ("trial", "validation") and run["params"] and run["metrics"]
    ]
    bases = [run["metrics"] for run in curated["runs"] if run["arm"] == "baseline" or run["kind"] == "baseline"]
    age = Axis("min_age [s]", "min_age_s", from_zero=True)
    panels = []
    for metric, factor, label, column in (
        ("net_avg_bytes", 1 / MIB, "net memory [MiB]", "net_mib"),
        ("p99_ms", 1000.0, "p99 [us]", "p99_us"),
    ):
        known = [run for run in trials if metric in run["metrics"]]
        groups = {
            "trials": ([run for run in known if run["kind"] == "trial"], BLUE, "circle"),
            "manual": ([run for run in known if run["arm"] == "manual"], ORANGE, "square"),
            "tuned": ([run for run in known if run["arm"] == "tuned"], RED, "diamond"),
        }
        layers: list[Any] = [Level("no scheme", sum(base[metric] for base in bases) / len(bases) * factor, GREY)]
        for name, (runs, colour, marker) in groups.items():
            layers.append(
                Points(
                    name,
                    [run["params"]["min_age_us"] / 1e6 for run in runs],
                    [run["metrics"][metric] * factor for run in runs],
                    colour=colour,
                    marker=marker,
                )
            )
        panels.append(Panel(age, Axis(label, column, from_zero=True), layers))
    machine = curated["result"]["machine"]
    title = f"redis/idle in a guest, Linux {machine['kernel']}, {machine['accel']}: each point is one run"
    return Chart(title, panels, columns=2, panel_name="metric")


def between(text: str, name: str, content: str) -> str:
    """A page with new content between the marks ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    found, count = pattern.subn(lambda _: f"{begin}\n{content}\n{end}", text)
    if count != 1:
        raise SystemExit(f"{name}: expected one pair of marks, found {count}")
    return found


def readme(text: str) -> str:
    """The README with its result."""
    return between(text, "results/curated/redis-idle.json", redis_table(json.loads(REDIS.read_text())))


def main(words: Sequence[str]) -> None:
    """What the command line says."""
    if words[:1] == ["add"]:
        _, results, name, file = words
        add(Path(results), name, Path(file))
        return
    page = TOP / "README.md"
    page.write_text(readme(page.read_text()))
    redis_chart(json.loads(REDIS.read_text())).save(TOP / "docs/redis.svg")
    figures.draw(TOP / "docs")


if __name__ == "__main__":
    main(sys.argv[1:])
