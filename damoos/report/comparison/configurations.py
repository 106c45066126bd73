"""An evaluation of configurations for people: text, CSV and a figure like the paper's Figure 7."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from damoos.common import html
from damoos.comparison.configurations import role_rows, rows
from damoos.policies import named
from damoos.policies.named import BASELINE
from damoos.report.charts import Axis, Bars, Chart, Line, Panel
from damoos.report.charts.chart import save
from damoos.report.charts.style import nth
from damoos.report.comparison import tiers
from damoos.report.names import short
from damoos.report.tables import IDLE_SCHEME, change, cpu_key, ratio, to_csv
from damoos.store.artifacts import Artifacts
from damoos.store.forms import Configuration
from damoos.store.studies import slug
from damoos.units import show_bytes

Result = Mapping[str, Any]
Row = tuple[str, ...]
# What the paper says of its six configurations (section 4.2), to be set beside what has been measured.
PAPER = (
    "the paper (i3.metal, averages of 24 workloads): rec 0.99 performance, 1.37 % DAMON CPU; prec 0.99, 1.46 %;"
    " thp 5.23 % speedup, 5.51 % bloat; ethp removes 64.28 % of the bloat, keeps 39 % of the speedup;"
    " prcl 37.10 % saving, 13.66 % slowdown"
)


def write(found: Result, results: Sequence[Result], artifacts: Artifacts) -> list[Path]:
    """Write ``evaluation.json``, ``evaluation.csv`` and a figure for each machine; returns their paths."""
    written = [
        artifacts.write_json("evaluation.json", {**found, "studies": list(results)}),
        artifacts.write_text("evaluation.csv", to_csv(rows(results))),
    ]
    if by_role := role_rows(results):
        written.append(artifacts.write_text("evaluation-roles.csv", to_csv(by_role)))
    for machine in found["machines"]:
        figure = chart({"machines": [machine]}, results)
        figures = {"evaluation": figure}
        if has_limits(results):
            figures["memory"] = memory_chart(machine["machine"], results)
        for name, drawn in figures.items():
            for ending in ("png", "svg"):
                written.append(save(drawn, artifacts.path / f"{name}-{slug(machine['machine'])}.{ending}"))
    return written


def text(found: Result, results: Sequence[Result]) -> str:
    """Every workload under every configuration, then averages, best and worst, and what became of THP's bloat."""
    lines = []
    for machine in found["machines"]:
        here = [result for result in results if result["machine"]["name"] == machine["machine"]]
        lines += list(_machine(machine, here))
    lines += [f"not finished: {failure['study']}: {failure['error']}" for failure in found["failures"]]
    known = {name for machine in found["machines"] for name in machine["configs"]}
    return "\n".join([*lines, PAPER] if known & set(named.PAPER[1:]) else lines)


def to_html(found: Result, results: Sequence[Result]) -> str:
    """HTML for a notebook, without the averages."""
    columns = (
        "machine", "workload", "config", "runtime", "RSS", "performance", "memory efficiency", "AnonHuge", "policy CPU",
        "spare core",
    )  # fmt: skip
    cells = [
        (result["machine"]["name"], _name(result), name, *_words(config))
        for result in results
        for name, config in result["configs"].items()
    ]
    failures = (
        [html.pairs({failure["study"]: failure["error"] for failure in found["failures"]})] if found["failures"] else []
    )
    by_role = role_cells(results)
    roles = [html.table(ROLE_COLUMNS, by_role)] if by_role else []
    by_tier = tiers.cells(results, _name)
    moved = [html.table(TIER_COLUMNS, by_tier)] if by_tier else []
    return html.section(f"evaluation {found['sweep']}", html.table(columns, cells), *roles, *moved, *failures)


def _machine(machine: Mapping[str, Any], results: Sequence[Result]) -> Iterator[str]:
    about = results[0]["machine"]
    yield (
        f"{machine['machine']}: Linux {about['kernel']}, {about['accel']}, {results[0]['repeats']} blocks;"
        " performance and memory efficiency: baseline = 1, more is better"
    )
    names = max(len(_name(result)) for result in results)
    width = max(len(name) for name in machine["configs"])
    columns = f"{'runtime':>9} {'RSS':>9}  {'performance':<21}  {'memory efficiency':<21}  {'AnonHuge':>9}"
    columns += f"  {'policy CPU':>10}  spare core"
    yield f"  {'workload':<{names}}  {'config':<{width}}  {columns}"
    for result in results:
        for name, config in result["configs"].items():
            yield f"  {_name(result):<{names}}  {name:<{width}}  {_cells(config)}"
    for result in results:
        for name, config in result["configs"].items():
            if _had_nothing_to_do(config):
                yield f"  {name} on {short(result['workload'])}: {IDLE_SCHEME}"
    if any(result["variant"] == "model" for result in results):
        yield "  a model has the accesses of a program that is not installed"
    if len(results) > 1:
        yield from _averages(machine, width)
    for share in machine["thp"]:
        yield _share(share)
    yield from _aligned(
        "by role (net: all that is charged, and what its swapped pages take; net saving: of the baseline's net)",
        ROLE_COLUMNS,
        role_cells(results),
        words=3,
    )
    yield from _aligned(tiers.NOTE, TIER_COLUMNS, tiers.cells(results, _name), words=2)


def _aligned(about: str, columns: Row, cells: Sequence[Row], words: int) -> Iterator[str]:
    """A table below a line about it, the first columns words and the others numbers; nothing where it has no rows."""
    if not cells:
        return
    yield f"  {about}"
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in (columns, *cells):
        shown = [word.ljust(width) for word, width in zip(row[:words], widths[:words], strict=True)]
        shown += [word.rjust(width) for word, width in zip(row[words:], widths[words:], strict=True)]
        yield "  " + "  ".join(shown)


TIER_COLUMNS = ("workload", "config", *tiers.COLUMNS)
ROLE_COLUMNS = (
    "workload", "config", "role", "memory", "net", "net saving", "RSS", "on swap", "refaults/s", "pressure", "CPU",
)  # fmt: skip
"""Of the table by role; pressure and CPU are shares of the runtime."""


def role_cells(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Rows of `ROLE_COLUMNS`; a dash is what the machine cannot tell."""
    return [
        (
            _name(result), name, role, *(show(quantities[key]) if key in quantities else "-" for key, show in _OF_ROLE)
        )
        for result in results
        for name, config in result["configs"].items()
        for role, quantities in config.get("roles", {}).items()
    ]  # fmt: skip


def _size(quantity: Mapping[str, Any]) -> str:
    return show_bytes(quantity["mean"])


_OF_ROLE: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("memory_avg_bytes", _size),
    ("net_avg_bytes", _size),
    ("net_saving", change),
    ("rss_avg_bytes", _size),
    ("swap_avg_bytes", _size),
    ("refaults_per_s", lambda quantity: f"{quantity['mean']:.1f}"),
    ("memory_pressure", lambda quantity: f"{quantity['mean']:.2%}"),
    ("cpu", lambda quantity: f"{quantity['mean']:.1%}"),
)


def _name(result: Result) -> str:
    scale = result.get("time_scale", 1)  # of older studies, whose models ran shorter than their programs
    shorter = f", time 1/{scale}" if scale > 1 else ""
    return f"{result['workload']}{f' (model{shorter})' if result['variant'] == 'model' else ''}"


def _had_nothing_to_do(config: Configuration) -> bool:
    """Whether a scheme was in force and applied nothing; ``stat`` never does."""
    acts = "stat" not in (config["scheme"] or "stat").split()
    return acts and not config["error"] and not config["damos"]["sz_applied_bytes"]


def _cells(config: Mapping[str, Any]) -> str:
    if config["error"]:
        return _words(config)[0]
    runtime, rss, performance, efficiency, huge, cpu, spare = _words(config)
    return f"{runtime:>9} {rss:>9}  {performance:<21}  {efficiency:<21}  {huge:>9}  {cpu:>10}  {spare:>10}"


def _words(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What each column shows; only the reason where the configuration failed."""
    if config["error"]:
        return (f"failed: {config['error']}",)
    quantities = config["quantities"]
    return (
        f"{quantities['runtime_s']['mean']:.2f} s",
        show_bytes(quantities["rss_avg_bytes"]["mean"]),
        ratio(quantities["performance"]),
        ratio(quantities["memory_efficiency"]),
        show_bytes(quantities["anon_huge_avg_bytes"]["mean"]),
        f"{quantities[cpu_key(quantities)]['mean']:.2%}",
        f"{quantities['spare_core_slowdown']['mean']:+.2%}" if "spare_core_slowdown" in quantities else "-",
    )


def _averages(machine: Mapping[str, Any], width: int) -> Iterator[str]:
    total = len(machine["workloads"])
    yield f"  averages of {total} workloads (intervals: noise of the runs), best and worst"
    for name, config in machine["configs"].items():
        if not config["workloads"]:
            yield f"  {name:<{width}}  failed on all of them"
            continue
        of = (
            "" if len(config["workloads"]) == total else f"  of {len(config['workloads'])} workloads, the others failed"
        )
        for key, word in (("performance", "performance"), ("memory_efficiency", "memory efficiency")):
            average = config[key]
            ends = "" if name == BASELINE else "  ".join(
                f"{end} {average[end]['mean']:.3f} {short(average[end]['workload'])}" for end in ("best", "worst")
            )  # fmt: skip
            yield f"  {name:<{width}}  {word:<17}  {ratio(average)}  {ends}{of}".rstrip()
        if name != BASELINE:
            share = config[cpu_key(config)]["mean"]
            cpu = f", policy CPU {share:.2%}" if share else ""
            lost = change(config["slowdown"])
            if "spare_core_slowdown" in config:
                lost += f" (with a spare core {change(config['spare_core_slowdown'])})"
            yield f"  {name:<{width}}  slowdown {lost}, RSS {change(config['bloat'])}{cpu}"


def _share(share: Mapping[str, Any]) -> str:
    where = share["workload"] or "average"
    bloat = f"({share['thp_bloat']:+.1%} to {share['bloat']:+.1%})"
    speedup = f"({share['thp_speedup']:+.1%} to {share['speedup']:+.1%})"
    removed = kept = None
    if share["bloat_removed"] is not None:
        removed = f"removes {share['bloat_removed']:.1%} of THP's memory bloat"
    if share["speedup_kept"] is not None:
        kept = f"keeps {share['speedup_kept']:.1%} of its speedup"
    return (
        f"  {share['config']} on {where}: {removed or 'THP has no memory bloat'} {bloat},"
        f" {kept or 'THP has no speedup'} {speedup}"
    )


def chart(found: Result, results: Sequence[Result]) -> Chart:
    """Normalised performance above, memory efficiency below, the machines side by side."""
    machines = found["machines"]
    here = {
        machine["machine"]: [r for r in results if r["machine"]["name"] == machine["machine"]] for machine in machines
    }
    models = " (models)" if any(result["variant"] == "model" for result in results) else ""
    where = ", ".join("{}: Linux {kernel}, {accel}".format(name, **group[0]["machine"]) for name, group in here.items())
    return Chart(
        f"{where}; baseline = 1, more is better{models}",
        [
            _panel(machine, here[machine["machine"]], key, len(machines) > 1)
            for key in ("performance", "memory_efficiency")
            for machine in machines
        ],
        columns=len(machines),
        shares_x=True,
        own_table=pd.DataFrame(rows([result for group in here.values() for result in group])),
    )


def _panel(machine: Mapping[str, Any], results: Sequence[Result], key: str, is_named: bool) -> Panel:
    groups = [short(result["workload"]) for result in results]
    if len(results) > 1:
        groups.append("average")
    layers = []
    for number, name in enumerate(name for name in machine["configs"] if name != BASELINE):
        cells = [result["configs"][name]["quantities"].get(key) for result in results]
        cells += [machine["configs"][name].get(key)] if len(results) > 1 else []
        layers.append(Bars(name, cells, 1.0, nth(number)[0]))
    y = Axis(f"normalised\n{key.replace('_', ' ')}", key)
    title = machine["machine"] if is_named and key == "performance" else ""
    return Panel(Axis("", "workload", groups), y, layers, title)


def has_limits(results: Sequence[Result]) -> bool:
    """Whether some configuration ran under a limit of memory."""
    return any(config.get("memory_limits") for result in results for config in result["configs"].values())


def memory_chart(machine: str, results: Sequence[Result]) -> Chart:
    """How much slower a workload gets with less memory: a panel for each workload, a curve for each policy.

    A server has a second panel, of its slow requests: where their number is given, its runtime says little.
    """
    here = [result for result in results if result["machine"]["name"] == machine]
    about = here[0]["machine"]
    panels = [panel for result in here for panel in _limits(result)]
    return Chart(
        f"{machine}: Linux {about['kernel']}, {about['accel']}; memory of the run's cgroup limited",
        panels,
        columns=min(len(panels), 3),
    )


def _limits(result: Result) -> list[Panel]:
    """The panels of one workload."""
    panels = [_curves(result, "quantities", Axis("slowdown", "slowdown", is_share=True))]
    if any("p99_ms" in config.get("reports", {}) for config in result["configs"].values()):
        panels.append(_curves(result, "reports", Axis("p99 latency, ms", "p99_ms", from_zero=True)))
    return panels


def _curves(result: Result, kind: str, axis: Axis) -> Panel:
    """One quantity by the limit; a limit under which a policy failed has no point."""
    curves: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
    for name, config in result["configs"].items():
        for file, limit_bytes in () if config["error"] else config.get("memory_limits", {}).items():
            curve = name.partition("@")[0] + ("" if file == "memory.max" else f" ({file})")
            curves.setdefault(curve, []).append((limit_bytes / (1 << 20), config[kind][axis.column]))
    layers = []
    for number, (policy, points) in enumerate(curves.items()):
        points.sort(key=lambda point: point[0])
        x, told = [at for at, _ in points], [quantity for _, quantity in points]
        ends = [quantity["ci95"] or (quantity["mean"], quantity["mean"]) for quantity in told]
        layers.append(
            Line(
                policy, x, [quantity["mean"] for quantity in told], [low for low, _ in ends],
                [high for _, high in ends], nth(number)[0],
            )
        )  # fmt: skip
    return Panel(
        Axis("memory limit, MiB", "memory_limit_mib", from_zero=True),
        axis,
        layers,
        _name(result),
    )
