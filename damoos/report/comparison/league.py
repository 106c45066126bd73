"""The league for people: text, Markdown, CSV and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from damoos.common import html
from damoos.comparison.league import SLOWDOWNS, Entry, rows, saved, table
from damoos.policies.named import BASELINE
from damoos.report.charts import Axis, Bars, Chart, Panel
from damoos.report.charts.chart import save
from damoos.report.charts.style import nth
from damoos.report.tables import change, to_csv
from damoos.statistics.summary import Quantity
from damoos.store.artifacts import Artifacts
from damoos.store.studies import slug

Machine = Mapping[str, Any]
_WHOLE = ("policy", *(f"at ≤ {slowdown:.0%}" for slowdown in SLOWDOWNS), "best", "shared", "saves on", "tuning won on")


def write(found: Sequence[Entry], artifacts: Artifacts) -> list[Any]:
    """Write ``league.json``, ``league.csv`` and a figure for each machine; returns their paths."""
    machines = table(found)
    written = [
        artifacts.write_json("league.json", {"machines": machines, "studies": list(found)}),
        artifacts.write_text("league.csv", to_csv(rows(found))),
    ]
    for machine in machines:
        figure = chart(machine)
        written += [
            save(figure, artifacts.path / f"league-{slug(machine['machine'])}.{ending}") for ending in ("png", "svg")
        ]
    return written


def text(found: Sequence[Entry]) -> str:
    """The table of each machine, then what is best for each workload."""
    return "\n".join(line for machine in table(found) for line in _machine(machine, found))


def to_html(found: Sequence[Entry]) -> str:
    """HTML for a notebook."""
    sections = [
        html.section(
            machine["machine"],
            html.table(_WHOLE, [whole_cells(name, row) for name, row in machine["policies"].items()]),
            html.table(_each_columns(machine), each_cells(machine, found)),
        )
        for machine in table(found)
    ]
    return html.Html("".join(sections))


def markdown(found: Sequence[Entry]) -> str:
    """Markdown for a page of documentation: two tables for each machine."""
    parts = []
    for machine in table(found):
        parts += [f"### {title(machine)}", "", says(machine), ""]
        parts += _markdown(_WHOLE, [whole_cells(name, row) for name, row in machine["policies"].items()])
        parts += ["", *_markdown(_each_columns(machine), each_cells(machine, found)), ""]
    return "\n".join(parts)


def title(machine: Machine) -> str:
    """A machine, its kernel, and how it ran."""
    about = machine["about"]
    return f"{machine['machine']}: Linux {about['kernel']}, {about['accel']}"


def says(machine: Machine) -> str:
    """What the tables of a machine are of, in a sentence."""
    count, limit = machine["workloads"], machine["limit"]
    return (
        f"Real programs: {count['real']}; models: {count['models']}; tuned for a slowdown of at most {limit:.0%}. On"
        f" {machine['alone']} of them nothing is shown to beat leaving it alone."
    )


def _machine(machine: Machine, found: Sequence[Entry]) -> Iterator[str]:
    yield title(machine)
    yield f"  {says(machine)}"
    yield from _plain(_WHOLE, [whole_cells(name, row) for name, row in machine["policies"].items()])
    yield from _plain(_each_columns(machine), each_cells(machine, found))


def whole_cells(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    """What a policy came to over all workloads of a machine: a row under `_WHOLE`."""
    if row["cannot"]:
        return (name, *["cannot run"] * len(SLOWDOWNS), "", "", "", "")
    return (
        name,
        *(change(row["saved"][f"{slowdown:g}"]) for slowdown in SLOWDOWNS),
        str(row["wins"]), str(row["shared"]), f"{row['kept']} of {row['of']}",
        f"{row['tuning']['won']} of {row['tuning']['of']}",
    )  # fmt: skip


def _each_columns(machine: Machine) -> tuple[str, ...]:
    return ("workload", "nothing beats", *machine["policies"])


def each_cells(machine: Machine, found: Sequence[Entry]) -> list[tuple[str, ...]]:
    """A row for each workload: what nothing beats there, and what each policy saves under the limit of the tuning."""
    limit = machine["limit"]
    here = [one for one in found if one["machine"]["name"] == machine["machine"]]
    return [
        (
            f"{one['workload']}{' (model)' if one['variant'] == 'model' else ''}",
            first_text(one, limit),
            *(saved_text(saved(one, policy, limit)) for policy in machine["policies"]),
        )
        for one in here
    ]


def first_text(one: Entry, limit: float) -> str:
    """The policies that nothing beats on a workload, with a sign where they cannot be told apart."""
    names = ["leaving it alone" if name == BASELINE else name for name in one["limits"][f"{limit:g}"]["first"]]
    return " = ".join(names) or "nothing kept the limit"


def saved_text(quantity: Quantity | None) -> str:
    """What a policy saves on one workload: ``+31.2%``, 0 where nothing kept the limit; its defaults have a star."""
    if quantity is None:
        return "-"
    if not quantity["mean"]:
        return "0"
    return f"{quantity['mean']:+.1%}{'*' if quantity['defaults'] else ''}"


def chart(machine: Machine) -> Chart:
    """What each policy saves on the average, by the slowdown that is allowed."""
    known = {name: row for name, row in machine["policies"].items() if not row["cannot"]}
    layers = [
        Bars(f"slowdown ≤ {slowdown:.0%}", [row["saved"][f"{slowdown:g}"] for row in known.values()], 0.0, nth(n)[0])
        for n, slowdown in enumerate(SLOWDOWNS)
    ]
    axis = Axis("memory saved, mean of all workloads", "net_saving", is_share=True)
    return Chart(title(machine), [Panel(Axis("", "policy", list(known)), axis, layers)])


def _plain(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in (columns, *cells)) for n in range(len(columns))]
    for row in (columns, *cells):
        yield "  " + "  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)).rstrip()


def _markdown(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *cells)]
