"""What is on the page of an evaluation: configurations side by side, each against the baseline of its own block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from damoos.comparison.configurations import evaluation
from damoos.policies.named import BASELINE
from damoos.report.charts.page import Figure
from damoos.report.comparison import configurations
from damoos.report.html import document, fleet, shown
from damoos.report.html.shown import NUMBERS, WORDS, Cell, Table
from damoos.store.studies import slug
from damoos.sweeps.sweep import Sweep

Machine = Mapping[str, Any]
# Bars that a row of panels has room for.
MOST_BARS = 60


def write(sweep: Sweep, path: Path) -> list[Path]:
    """Write an evaluation's page, and its figures beside it.

    Raises
    ------
    MeasurementError : none of its studies has finished
    """
    found = fleet.Fleet(sweep)
    machines = evaluation(list(found.results.values()))
    return document.write(path, "evaluation", figures(found, machines), **context(found, machines))


def figures(found: fleet.Fleet, machines: Sequence[Machine]) -> list[Figure]:
    """The paper's Figure 7: for all machines where there is room for them side by side, else for each."""
    results = list(found.results.values())
    says = "Each run against the baseline of its own block, which is 1; more is better; intervals are 95 %."
    title = "Performance and memory efficiency"
    bars = sum(len(one["configs"]) * (len(one["workloads"]) + 1) for one in machines)
    if bars <= MOST_BARS:
        return [Figure("configs", title, says, configurations.chart({"machines": machines}, results))]
    return [
        Figure(f"configs-{slug(one['machine'])}", f"{title} on {one['machine']}", says,
               configurations.chart({"machines": [one]}, results))
        for one in machines
    ]  # fmt: skip


def context(found: fleet.Fleet, machines: Sequence[Machine]) -> dict[str, Any]:
    """What the template shows beside the figures."""
    results = list(found.results.values())
    sweep = found.sweep
    workloads = shown.counted(len(sweep.config.workloads), "workload")
    return {
        "name": sweep.name,
        "heading": f"{len(results[0]['configs'])} configurations on {workloads}",
        "under": f"{shown.counted(len(sweep.config.machines), 'machine')}, {results[0]['repeats']} blocks each;"
        f" begun {found.created[:10]}",
        **_verdict(found, machines),
        "averages": _averages(machines),
        "averages_say": _AVERAGES,
        "shares": list(_shares(machines)),
        "numbers": _numbers(results),
        "machines": fleet.machines(found),
        "machines_say": fleet.machines_say(found),
        "configurations": _configurations(results[0]),
        "provenance": fleet.provenance(found),
    }


_AVERAGES = (
    "Means over workloads; 1 is the baseline, more is better. The intervals (95 %) are of the noise of the runs, not of"
    " the choice of workloads."
)


def _verdict(found: fleet.Fleet, machines: Sequence[Machine]) -> dict[str, str]:
    said = []
    for machine in machines:
        where = f" on {machine['machine']}" if len(machines) > 1 else ""
        known = {name: one for name, one in machine["configs"].items() if name != BASELINE and one["workloads"]}
        if known:
            fast, lean = (_first(known, key) for key in ("performance", "memory_efficiency"))
            said.append(f"the best performance{where} is that of {fast}, the best memory efficiency that of {lean}")
    failed = [f"{one['workload']} under {name}" for result in found.results.values() for name, one in _failed(result)]
    caution = (
        f"Failed, and without numbers: {shown.listed(failed[:8])}{' and others' if len(failed) > 8 else ''}."
        if failed
        else ""
    )
    text = "; ".join(said) or "no configuration has run to its end"
    return {"verdict": f"{text[:1].upper()}{text[1:]}.", "caution": caution}


def _first(known: Mapping[str, Mapping[str, Any]], key: str) -> str:
    best = max(known, key=lambda name: known[name][key]["mean"])
    return f"{best} ({known[best][key]['mean']:.3f})"


def _failed(result: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, one in result["configs"].items():
        if one["error"]:
            yield name, {"workload": result["workload"], "error": one["error"]}


def _averages(machines: Sequence[Machine]) -> Table:
    columns = {"machine": WORDS, "configuration": WORDS, "performance": NUMBERS}
    columns |= {"memory efficiency": NUMBERS, "slowdown": NUMBERS, "RSS": NUMBERS}
    columns |= {"DAMON": NUMBERS, "workloads": NUMBERS}
    rows = [_average(one["machine"], name, config) for one in machines for name, config in one["configs"].items()]
    return Table(columns, rows)


def _average(machine: str, name: str, config: Mapping[str, Any]) -> list[Cell]:
    def mean(key: str) -> float | None:
        return config[key]["mean"] if key in config else None

    return [
        shown.word(machine), shown.word(name), shown.ratio(config.get("performance")),
        shown.ratio(config.get("memory_efficiency")), shown.change(mean("slowdown")), shown.change(mean("bloat")),
        shown.share(mean("kdamond_cpu")), shown.count(len(config["workloads"])),
    ]  # fmt: skip


def _shares(machines: Sequence[Machine]) -> Iterator[str]:
    """How much of THP's bloat its schemes remove, on the average where there is one."""
    for machine in machines:
        whole = [one for one in machine["thp"] if one["workload"] is None] or machine["thp"]
        for one in whole:
            where = f"on {machine['machine']}, {one['workload'] or 'average'}"
            removed, kept = one["bloat_removed"], one["speedup_kept"]
            bloat = (
                "there is no memory bloat of THP to remove"
                if removed is None
                else f"it removes {removed:.1%} of THP's memory bloat"
            )
            speed = "there is no speedup of THP to keep" if kept is None else f"it keeps {kept:.1%} of its speedup"
            yield f"{one['config']} {where}: {bloat}, {speed}."


def _numbers(results: Sequence[Mapping[str, Any]]) -> Table:
    columns = {"workload": WORDS, "machine": WORDS, "configuration": WORDS, "runtime": NUMBERS, "RSS": NUMBERS}
    columns |= {"performance": NUMBERS, "memory efficiency": NUMBERS}
    columns |= {"huge pages": NUMBERS, "DAMON": NUMBERS, "error": WORDS}
    rows = [_number(one, name, config) for one in results for name, config in one["configs"].items()]
    return Table(columns, rows, "Every workload under every configuration")


def _number(result: Mapping[str, Any], name: str, config: Mapping[str, Any]) -> list[Cell]:
    found = config["quantities"]

    def mean(key: str) -> float | None:
        return found[key]["mean"] if key in found else None

    model = " (model)" if result["variant"] == "model" else ""
    return [
        shown.word(f"{result['workload']}{model}"), shown.word(result["machine"]["name"]), shown.word(name),
        shown.seconds(mean("runtime_s")), shown.size(mean("rss_avg_bytes")), shown.ratio(found.get("performance")),
        shown.ratio(found.get("memory_efficiency")), shown.size(mean("anon_huge_avg_bytes")),
        shown.share(mean("kdamond_cpu")), shown.word(config["error"], "bad"),
    ]  # fmt: skip


def _configurations(result: Mapping[str, Any]) -> Table:
    rows = [
        [
            shown.word(name), shown.word(one["scheme"], code=True), shown.word(one["operations"]),
            shown.word(one["thp"]), shown.word("yes" if one["record"] else None),
        ]
        for name, one in result["configs"].items()
    ]  # fmt: skip
    columns = {"configuration": WORDS, "schemes": WORDS, "operations": WORDS, "THP": WORDS, "recorded": WORDS}
    return Table(columns, rows, sortable=False)
