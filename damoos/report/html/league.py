"""What is on the page of a league: what each policy saves at a bounded slowdown, on the whole and on each workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damoos.comparison.league import SLOWDOWNS, Entry, entry, table
from damoos.errors import ConfigError
from damoos.report.charts.page import Figure
from damoos.report.comparison import league
from damoos.report.html import document, fleet, shown
from damoos.report.html.shown import NUMBERS, WORDS, Cell, Table
from damoos.store.studies import slug
from damoos.sweeps.sweep import Sweep
from damoos.units import show_count


def write(sweep: Sweep, path: Path) -> list[Path]:
    """Write a league's page, and its figures beside it; of one that is under way, what there is so far.

    Raises
    ------
    ConfigError : none of its studies has finished
    """
    overview = fleet.Fleet(sweep)
    found = [entry(study) for study in overview.tuned.values()]
    if not found:
        raise ConfigError(f"no study of league '{sweep.name}' has finished yet; damoos resume {sweep.name}")
    machines = table(found)
    figures = [
        Figure(f"saved-{slug(machine['machine'])}", f"Memory saved on {machine['machine']}", _SAVED,
               league.chart(machine))
        for machine in machines
    ]  # fmt: skip
    return document.write(path, "league", figures, **_context(overview, found, machines))


_SAVED = (
    "What the better of a policy's two validated points saves of all memory that is charged to the run, its best one"
    " and its defaults, if it is shown to keep the slowdown; nothing where neither is. Intervals (95 %) are of the"
    " noise of the runs, not of the choice of workloads."
)


def _context(found: fleet.Fleet, entries: Sequence[Entry], machines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sweep = found.sweep
    count = show_count(len({one["workload"] for one in entries}), "workload")
    left = len(sweep.config.configs()) - len(entries)
    return {
        "name": sweep.name,
        "heading": f"{show_count(len(entries[0]['policies']), 'policy')} on {count}",
        "under": f"{show_count(len(machines), 'machine')}; begun {found.created[:10]}",
        "verdict": " ".join(map(_verdict, machines)),
        "caution": f"{show_count(left, 'study')} of it are not finished yet." if left else "",
        "whole": [(league.title(machine), league.says(machine), _whole(machine)) for machine in machines],
        "each": [(league.title(machine), _each(machine, entries)) for machine in machines],
        "arms": _arms(entries),
        "machines": fleet.machines(found),
        "machines_say": fleet.machines_say(found),
        "provenance": fleet.provenance(found),
    }


def _verdict(machine: dict[str, Any]) -> str:
    limit = f"{machine['limit']:g}"
    name, row = next(iter(machine["policies"].items()))
    mean = (row["saved"][limit] or {"mean": 0.0})["mean"]
    return (
        f"On {machine['machine']} {name} saves most on the average at a slowdown of at most {machine['limit']:.0%}:"
        f" {mean:.1%}; nothing beats it on {row['wins'] + row['shared']} of {sum(machine['workloads'].values())}"
        " workloads."
    )


def _whole(machine: dict[str, Any]) -> Table:
    columns = {"policy": WORDS} | {f"at ≤ {slowdown:.0%}": NUMBERS for slowdown in SLOWDOWNS}
    columns |= {"best": NUMBERS, "shared": NUMBERS, "saves on": NUMBERS, "tuning won on": NUMBERS, "": WORDS}
    rows = []
    for name, row in machine["policies"].items():
        savings = [row["saved"][f"{slowdown:g}"] for slowdown in SLOWDOWNS]
        rows.append([
            shown.word(name), *map(_saving, savings), shown.count(row["wins"]), shown.count(row["shared"]),
            Cell(f"{row['kept']} of {row['of']}", row["kept"]),
            Cell(f"{row['tuning']['won']} of {row['tuning']['of']}", row["tuning"]["won"]),
            shown.word(row["cannot"] and f"cannot run: {row['cannot']}", "bad"),
        ])  # fmt: skip
    return Table(columns, rows)


def _saving(quantity: dict[str, Any] | None) -> Cell:
    if quantity is None:
        return shown.word(None)
    ends = quantity["ci95"]
    reach = "" if ends is None else f" ± {(ends[1] - ends[0]) / 2:.1%}"
    return Cell(f"{quantity['mean']:.1%}{reach}", quantity["mean"])


def _each(machine: dict[str, Any], entries: Sequence[Entry]) -> Table:
    columns = {"workload": WORDS, "nothing beats": WORDS} | dict.fromkeys(machine["policies"], WORDS)
    return Table(columns, [list(map(shown.word, row)) for row in league.each_cells(machine, entries)])


def _arms(entries: Sequence[Entry]) -> Table:
    columns = {"workload": WORDS, "machine": WORDS, "policy": WORDS, "point": WORDS, "saved ± 95 %": NUMBERS}
    columns |= {"slowdown": NUMBERS, "rounds": NUMBERS} | {f"≤ {slowdown:.0%}": WORDS for slowdown in SLOWDOWNS}
    rows = []
    for one in entries:
        judged = list(one["limits"].values())
        for arm in judged[0]["arms"]:
            same = _same_arm(judged, arm)
            rows.append([
                shown.word(one["workload"]), shown.word(one["machine"]["name"]),
                shown.word(f"{arm['policy']}{' (defaults)' if arm['defaults'] else ''}"),
                shown.word(arm["scheme"], code=True), _saving(arm["saving"]),
                shown.change(arm["slowdown"]["mean"]), shown.count(len(arm["slowdown"]["values"])),
                *(shown.word(found["standing"], "" if found["standing"] == "kept" else "bad") for found in same),
            ])  # fmt: skip
    return Table(columns, rows, "Every validated point")


def _same_arm(judged: Sequence[dict[str, Any]], arm: dict[str, Any]) -> list[dict[str, Any]]:
    """An arm under each of the limits; their order of arms may differ."""
    key = arm["policy"], arm["defaults"]
    return [next(one for one in of["arms"] if (one["policy"], one["defaults"]) == key) for of in judged]
