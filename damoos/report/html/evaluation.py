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
from damoos.report.tables import cpu_key
from damoos.store.studies import slug
from damoos.sweeps.sweep import Sweep
from damoos.units import show_count

Machine = Mapping[str, Any]
_LIMITS = (
    "How small can it be? Slowdown, and of servers the p99, against the baseline without a limit; a limit under which a"
    " configuration failed has no point."
)
# Bars that a row of panels has room for.
MOST_BARS = 60


def write(sweep: Sweep, path: Path) -> list[Path]:
    """Write an evaluation's page, and its figures beside it.

    Raises
    ------
    MeasurementError : none of its studies has finished
    """
    overview = fleet.Fleet(sweep)
    machines = evaluation(list(overview.results.values()))
    return document.write(path, "evaluation", figures(overview, machines), **context(overview, machines))


def figures(found: fleet.Fleet, machines: Sequence[Machine]) -> list[Figure]:
    """The paper's Figure 7: for all machines where there is room for them side by side, else for each; and limits."""
    results = list(found.results.values())
    says = "Each run against the baseline of its own block, which is 1; more is better; intervals are 95 %."
    title = "Performance and memory efficiency"
    bars = sum(len(machine["configs"]) * (len(machine["workloads"]) + 1) for machine in machines)
    limits = [
        Figure(f"limits-{slug(machine['machine'])}", f"Limits of memory on {machine['machine']}", _LIMITS,
               configurations.memory_chart(machine["machine"], results))
        for machine in machines if configurations.has_limits(results)
    ]  # fmt: skip
    if bars <= MOST_BARS:
        return [Figure("configs", title, says, configurations.chart({"machines": machines}, results)), *limits]
    return limits + [
        Figure(f"configs-{slug(machine['machine'])}", f"{title} on {machine['machine']}", says,
               configurations.chart({"machines": [machine]}, results))
        for machine in machines
    ]  # fmt: skip


def context(found: fleet.Fleet, machines: Sequence[Machine]) -> dict[str, Any]:
    """What the template shows beside the figures."""
    results = list(found.results.values())
    sweep = found.sweep
    workloads = show_count(len(sweep.config.workloads), "workload")
    return {
        "name": sweep.name,
        "heading": f"{show_count(len(results[0]['configs']), 'configuration')} on {workloads}",
        "under": f"{show_count(len(sweep.config.machines), 'machine')},"
        f" {show_count(results[0]['repeats'], 'block')} each; begun {found.created[:10]}",
        **_verdict(found, machines),
        "averages": _averages(machines),
        "averages_say": _AVERAGES,
        "shares": list(_shares(machines)),
        "numbers": _numbers(results),
        "roles": _roles(results),
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
    parts = []
    for machine in machines:
        where = f" on {machine['machine']}" if len(machines) > 1 else ""
        known = {
            name: config for name, config in machine["configs"].items() if name != BASELINE and config["workloads"]
        }
        if known:
            fast, lean = (_first(known, key) for key in ("performance", "memory_efficiency"))
            parts.append(f"the best performance{where} is that of {fast}, the best memory efficiency that of {lean}")
    failed = [
        f"{failure['workload']} under {name}" for result in found.results.values() for name, failure in _failed(result)
    ]
    caution = (
        f"Failed, and without numbers: {shown.listed(failed[:8])}{' and others' if len(failed) > 8 else ''}."
        if failed
        else ""
    )
    text = "; ".join(parts) or "no configuration has run to its end"
    return {"verdict": f"{text[:1].upper()}{text[1:]}.", "caution": caution}


def _first(known: Mapping[str, Mapping[str, Any]], key: str) -> str:
    best = max(known, key=lambda name: known[name][key]["mean"])
    return f"{best} ({known[best][key]['mean']:.3f})"


def _failed(result: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, config in result["configs"].items():
        if config["error"]:
            yield name, {"workload": result["workload"], "error": config["error"]}


def _averages(machines: Sequence[Machine]) -> Table:
    columns = {"machine": WORDS, "configuration": WORDS, "performance": NUMBERS}
    columns |= {"memory efficiency": NUMBERS, "slowdown": NUMBERS, "with a spare core": NUMBERS, "RSS": NUMBERS}
    columns |= {"policy's CPU": NUMBERS, "workloads": NUMBERS}
    rows = [
        _average(machine["machine"], name, config)
        for machine in machines
        for name, config in machine["configs"].items()
    ]
    return Table(columns, rows)


def _average(machine: str, name: str, config: Mapping[str, Any]) -> list[Cell]:
    def mean(key: str) -> float | None:
        return config[key]["mean"] if key in config else None

    return [
        shown.word(machine), shown.word(name), shown.ratio(config.get("performance")),
        shown.ratio(config.get("memory_efficiency")), shown.change(mean("slowdown")),
        shown.change(mean("spare_core_slowdown")), shown.change(mean("bloat")),
        shown.share(mean(cpu_key(config))), shown.count(len(config["workloads"])),
    ]  # fmt: skip


def _shares(machines: Sequence[Machine]) -> Iterator[str]:
    """How much of THP's bloat its schemes remove, on the average where there is one."""
    for machine in machines:
        shares = [share for share in machine["thp"] if share["workload"] is None] or machine["thp"]
        for share in shares:
            where = f"on {machine['machine']}, {share['workload'] or 'average'}"
            removed, kept = share["bloat_removed"], share["speedup_kept"]
            bloat = (
                "there is no memory bloat of THP to remove"
                if removed is None
                else f"it removes {removed:.1%} of THP's memory bloat"
            )
            speed = "there is no speedup of THP to keep" if kept is None else f"it keeps {kept:.1%} of its speedup"
            yield f"{share['config']} {where}: {bloat}, {speed}."


def _numbers(results: Sequence[Mapping[str, Any]]) -> Table:
    columns = {"workload": WORDS, "machine": WORDS, "configuration": WORDS, "runtime": NUMBERS, "RSS": NUMBERS}
    columns |= {"performance": NUMBERS, "memory efficiency": NUMBERS}
    columns |= {"huge pages": NUMBERS, "policy's CPU": NUMBERS, "with a spare core": NUMBERS, "error": WORDS}
    rows = [_number(result, name, config) for result in results for name, config in result["configs"].items()]
    return Table(columns, rows, "Every workload under every configuration")


def _number(result: Mapping[str, Any], name: str, config: Mapping[str, Any]) -> list[Cell]:
    quantities = config["quantities"]

    def mean(key: str) -> float | None:
        return quantities[key]["mean"] if key in quantities else None

    model = " (model)" if result["variant"] == "model" else ""
    return [
        shown.word(f"{result['workload']}{model}"), shown.word(result["machine"]["name"]), shown.word(name),
        shown.seconds(mean("runtime_s")), shown.size(mean("rss_avg_bytes")), shown.ratio(quantities.get("performance")),
        shown.ratio(quantities.get("memory_efficiency")), shown.size(mean("anon_huge_avg_bytes")),
        shown.share(mean(cpu_key(quantities))), shown.change(mean("spare_core_slowdown")),
        shown.word(config["error"], "bad"),
    ]  # fmt: skip


def _roles(results: Sequence[Mapping[str, Any]]) -> Table | None:
    """By role; None where nothing ran in containers."""
    columns = {name: WORDS if nth < 3 else NUMBERS for nth, name in enumerate(configurations.ROLE_COLUMNS)}
    columns = {"machine": WORDS, **columns}
    rows = [
        [shown.word(text) for text in (result["machine"]["name"], *cells)]
        for result in results
        for cells in configurations.role_cells([result])
    ]
    return Table(columns, rows, "What each role of a workload takes", sortable=False) if rows else None


def _configurations(result: Mapping[str, Any]) -> Table:
    rows = [
        [
            shown.word(name), shown.word(config["scheme"], code=True), shown.word(config["operations"]),
            shown.word(config["thp"]), shown.word("yes" if config["record"] else None),
        ]
        for name, config in result["configs"].items()
    ]  # fmt: skip
    columns = {"configuration": WORDS, "schemes": WORDS, "operations": WORDS, "THP": WORDS, "recorded": WORDS}
    return Table(columns, rows, sortable=False)
