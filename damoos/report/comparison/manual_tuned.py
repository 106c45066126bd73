"""Manual and tuned side by side for people: text, CSV and a figure like the paper's Figure 8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from damoos.common import html
from damoos.comparison.manual_tuned import rows
from damoos.report.charts import Axis, Bars, Chart, Panel
from damoos.report.charts.chart import save
from damoos.report.charts.style import nth
from damoos.report.names import short
from damoos.report.tables import STANDINGS, change, percent, to_csv
from damoos.statistics.arms import MANUAL, TUNED
from damoos.statistics.limits import Standing
from damoos.store.artifacts import Artifacts
from damoos.store.studies import slug
from damoos.units import show_count, show_score

Machine = Mapping[str, Any]
_TITLES = {"slowdown": "slowdown", "saving": "RSS saving", "score": "score"}


def write(found: Sequence[Machine], artifacts: Artifacts) -> list[Path]:
    """Write ``compare.json``, ``compare.csv`` and a figure for each machine; returns their paths."""
    written = [
        artifacts.write_json("compare.json", list(found)),
        artifacts.write_text("compare.csv", to_csv(rows(found))),
    ]
    for machine in found:
        figure = chart([machine])
        for ending in ("png", "svg") if figure else ():
            assert figure
            written.append(save(figure, artifacts.path / f"compare-{slug(machine['machine'])}.{ending}"))
    return written


def text(found: Sequence[Machine]) -> str:
    """Every study's two arms, then what tuning has won on each machine, beside what the paper reports."""
    return "\n".join(line for machine in found for line in _machine(machine))


def to_html(found: Sequence[Machine]) -> str:
    """HTML for a notebook: a section for each machine."""
    return html.Html("".join(map(_section, found)))


def _section(machine: Machine) -> str:
    columns = ("workload", "scheme", "slowdown", "RSS saving", "score", "")
    good = [(_name(pair), pair) for pair in machine["studies"] if not pair["error"]]
    cells = [
        (name, arm, *_words(pair[arm]), STANDINGS[pair[arm]["limits"]])
        for name, pair in good
        for arm in (MANUAL, TUNED)
    ]
    if machine["average"]:
        cells += [("average", arm, *_words(machine["average"][arm]), "") for arm in (MANUAL, TUNED)]
    left_out = {pair["study"]: pair["error"] for pair in machine["studies"] if pair["error"]}
    return html.section(machine["machine"], html.table(columns, cells), html.pairs(left_out))


def _machine(machine: Machine) -> Iterator[str]:
    good = [pair for pair in machine["studies"] if not pair["error"]]
    count = show_count(len(machine["studies"]), "study")
    yield f"{machine['machine']}: {len(good)} of {count} with both schemes validated"
    width = max((len(_name(pair)) for pair in good), default=0)
    if good:
        yield f"  {'workload':<{width}}  {'scheme':<6}  {'slowdown':<22}  {'RSS saving':<22}  score"
    for pair in good:
        for arm in (MANUAL, TUNED):
            line = f"  {_name(pair):<{width}}  {arm:<6}  {_cells(pair[arm])}  {STANDINGS[pair[arm]['limits']]}"
            yield line.rstrip()
    if machine["average"]:
        yield from _average(machine["average"], machine["paper"], width)
    for pair in machine["studies"]:
        if pair["error"]:
            yield f"  left out: {pair['study']}: {pair['error']}"


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['workload']} (model)" if one["variant"] == "model" else str(one["workload"])


def _cells(arm: Mapping[str, Any]) -> str:
    slowdown, saving, score = _words(arm)
    return f"{slowdown:<22}  {saving:<22}  {score}"


def _words(arm: Mapping[str, Any]) -> tuple[str, str, str]:
    score = arm["score"]
    shown = "-"
    if score:
        ends = "[-, -]" if score["ci95"] is None else "[{}, {}]".format(*map(show_score, score["ci95"]))
        shown = f"{show_score(score['mean'])} {ends}"
    return change(arm["slowdown"]), change(arm["saving"]), shown


def _average(average: Mapping[str, Any], paper: Mapping[str, Any] | None, width: int) -> Iterator[str]:
    for arm in (MANUAL, TUNED) if average["workloads"] > 1 else ():
        broken = len(average[arm]["broken"])
        note = f"  breaks the limit on {broken} of {average['workloads']}" if broken else ""
        yield f"  {'average':<{width}}  {arm:<6}  {_cells(average[arm])}{note}"
    if average["scored"] < average["workloads"]:
        yield f"  scores: of the {average['scored']} workloads where both schemes have one"
    gain = average["score_gain"]
    score = "no score to gain on" if gain is None else f"score gain {gain:+.1%}"
    if average["score_difference"] is not None:
        score += f" ({show_score(average['score_difference'])})"
    yield (
        f"  auto-tuning: slowdown removed {percent(average['slowdown_removed'], '- (there was none)')},"
        f" saving kept {percent(average['saving_kept'], '- (there was none)')}, {score}"
    )
    if paper:
        by_hand, tuned = paper[MANUAL], paper[TUNED]
        kept = tuned["saving"] / by_hand["saving"]
        yield (
            f"  the paper's:  slowdown removed {paper['slowdown_removed']:.1%}, saving kept {kept:.1%},"
            f" score gain {paper['score_gain']:+.1%}  (24 workloads; slowdown {by_hand['slowdown']:.1%} to"
            f" {tuned['slowdown']:.1%}, saving {by_hand['saving']:.1%} to {tuned['saving']:.1%})"
        )


def chart(found: Sequence[Machine]) -> Chart | None:
    """Slowdown, saving and score of both schemes, the machines side by side; None where there is nothing to compare."""
    found = [machine for machine in found if machine["average"]]
    if not found:
        return None
    good = [pair for machine in found for pair in machine["studies"] if not pair["error"]]
    models = " (models)" if any(pair["variant"] == "model" for pair in good) else ""
    crosses = any(pair[arm]["limits"] == Standing.BROKEN for pair in good for arm in (MANUAL, TUNED))
    where = ", ".join(machine["machine"] for machine in found)
    return Chart(
        f"{where}: manual and tuned schemes, validated{models}"
        + ("\na cross: the limit of the score was broken" if crosses else ""),
        [_panel(machine, key, len(found) > 1) for key in _TITLES for machine in found],
        columns=len(found),
        shares_x=True,
        own_table=pd.DataFrame(rows(found)),
    )


def _panel(machine: Machine, key: str, is_named: bool) -> Panel:
    good = [pair for pair in machine["studies"] if not pair["error"]]
    groups = [short(pair["workload"]) for pair in good]
    if len(good) > 1:
        groups.append("average")
    layers = []
    for number, arm in enumerate((MANUAL, TUNED)):
        cells = [
            pair[arm][key] and {**pair[arm][key], "broken": pair[arm]["limits"] == Standing.BROKEN} for pair in good
        ]
        cells += [machine["average"][arm][key]] if len(good) > 1 else []
        layers.append(Bars(arm, cells, 0.0, nth(number)[0]))
    y = Axis(_TITLES[key], key, is_share=key != "score")
    title = machine["machine"] if is_named and key == next(iter(_TITLES)) else ""
    return Panel(Axis("", "workload", groups), y, layers, title)
