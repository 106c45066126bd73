"""What is on the page of a rollout: what each step has shown, and what each host has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damoos.report.charts import Chart, Level, Line, Panel
from damoos.report.charts.layers import Axis
from damoos.report.charts.page import Figure
from damoos.report.charts.style import BLUE, GREY
from damoos.report.html import document, shown
from damoos.report.html.shown import NUMBERS, WORDS, Cell, Table, Tile
from damoos.rollouts.judge import SAVING
from damoos.rollouts.overview import Host, hosts
from damoos.rollouts.rollout import Part, Rollout, describe
from damoos.scorers.cost import Prices
from damoos.units import show_bytes, show_count

# Lines that can be told apart.
MOST_LINES = 20
_LINES = (
    "Net memory of each host, compressed swap counted, as a share of what it had before: blue for those with the"
    " policy, grey for those that are only watched."
)


def write(rollout: Rollout, path: Path, prices: Prices | None = None) -> list[Path]:
    """Write a rollout's page, and its figure beside it.

    Parameters
    ----------
    rollout : Rollout
    path : Path
    prices : Prices or None
        What a GiB is worth for an hour; without one nothing is said of money saved.
    """
    found = hosts(rollout)
    figures = [Figure("memory", "Memory of the hosts", _LINES, _chart(rollout, found))] if _drawn(found) else []
    return document.write(path, "rollout", figures, **_context(rollout, found, prices))


def chart(rollout: Rollout) -> Chart:
    """Net memory of each host over time, as a share of what it had before."""
    return _chart(rollout, hosts(rollout))


def _drawn(found: Sequence[Host]) -> list[Host]:
    return [host for host in found if host.times and host.before_bytes][:MOST_LINES]


def _context(rollout: Rollout, found: Sequence[Host], prices: Prices | None) -> dict[str, Any]:
    plan = rollout.plan
    unlike = [host.machine for host in found if host.is_unlike]
    return {
        "name": rollout.name,
        "heading": f"{plan.spec['study']} on {plan.spec['on_text']}",
        "under": f"{show_count(len(plan.machines), 'host')} in {show_count(len(plan.steps), 'step')}",
        "verdict": describe(rollout),
        "caution": f"Unlike the others: {shown.listed(unlike)}." if unlike else "",
        "tiles": _tiles(rollout, found, prices),
        "steps": _steps(rollout),
        "hosts": _hosts(found),
        "provenance": _provenance(rollout),
    }


def _tiles(rollout: Rollout, found: Sequence[Host], prices: Prices | None) -> list[Tile]:
    with_policy = [host for host in found if host.has_policy]
    saved_bytes = sum(host.saved_bytes or 0.0 for host in with_policy)
    tiles = [
        Tile("Hosts with the policy", f"{len(with_policy)} of {len(found)}"),
        Tile("Saved", show_bytes(saved_bytes), "net memory now, less than before the policy"),
    ]
    if prices is not None:
        tiles.append(shown.worth(saved_bytes, prices))
    return tiles


def _steps(rollout: Rollout) -> Table:
    columns = {"step": NUMBERS, "hosts": NUMBERS, "beside": NUMBERS, "metric": WORDS, "shown": WORDS, "effect": NUMBERS}
    columns |= {"at least": NUMBERS, "at most": NUMBERS, "bound": NUMBERS}
    rows = []
    for step, findings in enumerate(rollout.progress.findings):
        sides = [shown.count(len(side)) for side in (rollout.plan.cohort(step), rollout.plan.control(step))]
        for one in findings or [{}]:
            metric, standing = one.get("metric", ""), one.get("standing", "")
            as_cell = shown.change if metric == SAVING else _number
            values = [as_cell(one.get(key)) for key in ("mean", "lower", "upper", "bound")]
            mark = {"shown": "good", "broken": "bad"}.get(standing, "")
            rows.append([shown.count(step + 1), *sides, shown.word(metric), shown.word(standing, mark), *values])
    return Table(columns, rows)


def _number(value: float | None) -> Cell:
    return Cell(shown.NONE, None) if value is None else Cell(f"{value:+.4g}", value)


def _hosts(found: Sequence[Host]) -> Table:
    limits = list(dict.fromkeys(name for host in found for name in host.watched))
    columns = {"host": WORDS, "has": WORDS, "state": WORDS, "since": WORDS, "before": NUMBERS, "now": NUMBERS}
    columns |= {"saved": NUMBERS, "saving": NUMBERS, "": WORDS} | dict.fromkeys(limits, NUMBERS)
    rows = []
    for host in found:
        is_bad = host.state.startswith(("failed", "out of reach", "may be", "not ")) or host.part is None
        rows.append([
            shown.word(host.machine), shown.word(host.part), shown.word(host.state, "bad" if is_bad else ""),
            shown.word(host.since), shown.size(host.before_bytes), shown.size(host.now_bytes),
            shown.size(host.saved_bytes), shown.share(host.saving),
            shown.word("unlike the others", "bad") if host.is_unlike else shown.word(None),
            *(_number(host.watched.get(name)) for name in limits),
        ])  # fmt: skip
    return Table(columns, rows)


def _provenance(rollout: Rollout) -> dict[str, str]:
    plan, spec = rollout.plan, rollout.plan.spec
    return {
        "study": spec["study"],
        "arm": spec["arm"],
        "on": spec["on_text"],
        "guard": ", ".join(spec["guards"]),
        "window": f"{spec['window_s']:g} s",
        "bake": shown.duration(plan.bake_s),
        "tolerance": f"{plan.tolerance:.0%} of each limit",
        "saves more than": f"{plan.least_saving:.1%}",
        "seed of the order": str(plan.seed),
        "decisions": f"{rollout.name}/audit.log",
    }


def _chart(rollout: Rollout, found: Sequence[Host]) -> Chart:
    drawn = _drawn(found)
    begun_s = min((at_s for host in drawn for at_s, _ in host.times), default=0.0)
    layers: list[Any] = [Level("before", 1.0)]
    for host in drawn:
        assert host.before_bytes
        x = [(at_s - begun_s) / 60 for at_s, _ in host.times]
        y = [bytes_ / host.before_bytes for _, bytes_ in host.times]
        layers.append(Line(host.machine, x, y, colour=BLUE if host.part is Part.POLICY else GREY))
    panel = Panel(Axis("minutes", "minutes"), Axis("net memory", "net_memory", is_share=True, from_zero=True), layers)
    return Chart(rollout.name, [panel])
