"""Manual and tuned side by side for people: text, CSV and a figure like the paper's Figure 8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from damoos import markup
from damoos.arms import rows
from damoos.report.bars import bars, save, short, sized
from damoos.report.tables import change, percent, to_csv
from damoos.store.artifacts import Artifacts
from damoos.store.studies import slug
from damoos.units import show_score
from damoos.verdict import MANUAL, TUNED

Machine = Mapping[str, Any]
_TITLES = {"slowdown": "slowdown", "saving": "RSS saving", "score": "score"}


def write(found: Sequence[Machine], artifacts: Artifacts) -> list[Path]:
    """Write ``compare.json``, ``compare.csv`` and a figure for each machine; returns their paths."""
    written = [
        artifacts.write_json("compare.json", list(found)),
        artifacts.write_text("compare.csv", to_csv(rows(found))),
    ]
    for machine in found:
        if machine["average"]:
            written += draw(machine, artifacts)
    return written


def text(found: Sequence[Machine]) -> str:
    """Every study's two arms, then what tuning has won on each machine, beside what the paper reports."""
    return "\n".join(line for machine in found for line in _machine(machine))


def html(found: Sequence[Machine]) -> str:
    """The same for a notebook: a section for each machine."""
    return markup.Html("".join(map(_section, found)))


def _section(machine: Machine) -> str:
    columns = ("workload", "scheme", "slowdown", "RSS saving", "score", "")
    good = [(_name(one), one) for one in machine["studies"] if not one["error"]]
    cells = [
        (name, arm, *_words(one[arm]), "" if one[arm]["feasible"] else "breaks the limit")
        for name, one in good
        for arm in (MANUAL, TUNED)
    ]
    if machine["average"]:
        cells += [("average", arm, *_words(machine["average"][arm]), "") for arm in (MANUAL, TUNED)]
    left_out = {one["study"]: one["error"] for one in machine["studies"] if one["error"]}
    return markup.section(machine["machine"], markup.table(columns, cells), markup.pairs(left_out))


def _machine(machine: Machine) -> Iterator[str]:
    good = [one for one in machine["studies"] if not one["error"]]
    yield f"{machine['machine']}: {len(good)} of {len(machine['studies'])} studies have both schemes validated"
    width = max((len(_name(one)) for one in good), default=0)
    if good:
        yield f"  {'workload':<{width}}  {'scheme':<6}  {'slowdown':<22}  {'RSS saving':<22}  score"
    for one in good:
        for arm in (MANUAL, TUNED):
            yield f"  {_name(one):<{width}}  {arm:<6}  {_cells(one[arm])}" + (
                "" if one[arm]["feasible"] else "  breaks the limit"
            )
    if machine["average"]:
        yield from _average(machine["average"], machine["paper"], width)
    for one in machine["studies"]:
        if one["error"]:
            yield f"  left out: {one['study']}: {one['error']}"


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
        said = f"  breaks the limit on {broken} of {average['workloads']}" if broken else ""
        yield f"  {'average':<{width}}  {arm:<6}  {_cells(average[arm])}{said}"
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


def draw(machine: Machine, artifacts: Artifacts) -> list[Path]:
    """Write the figure of one machine: slowdown, saving and score of both schemes."""
    good = [one for one in machine["studies"] if not one["error"]]
    groups = [short(one["workload"]) for one in good]
    if len(good) > 1:
        groups.append("average")
    figure, panels = sized(len(groups), 2, 3)
    for axes, (key, title) in zip(panels, _TITLES.items(), strict=True):
        series = {}
        for arm in (MANUAL, TUNED):
            cells = [one[arm][key] and {**one[arm][key], "broken": not one[arm]["feasible"]} for one in good]
            series[arm] = cells + ([machine["average"][arm][key]] if len(good) > 1 else [])
        bars(axes, groups, series, 0.0, title)
        if key != "score":
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    models = " (models)" if any(one["variant"] == "model" for one in good) else ""
    broken = any(not one[arm]["feasible"] for one in good for arm in (MANUAL, TUNED))
    crosses = "\na cross: the limit of the score was broken" if broken else ""
    figure.suptitle(f"{machine['machine']}: hand-made and tuned schemes, validated{models}{crosses}", fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    return save(figure, artifacts, f"compare-{slug(machine['machine'])}")
