"""What is on the page of a sweep: every workload on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from damoos.comparison import manual_tuned
from damoos.errors import ConfigError
from damoos.report.charts.page import Figure
from damoos.report.comparison import manual_tuned as bars
from damoos.report.html import document, evaluation, fleet, league, shown, trials
from damoos.report.html.fleet import Totals
from damoos.report.html.shown import NUMBERS, WORDS, Cell, Table, Tile
from damoos.report.sweep import overview as matrices
from damoos.report.sweep import spread
from damoos.report.tables import score_unit
from damoos.scorers.cost import Prices
from damoos.statistics.arms import BASELINE, MANUAL, TUNED
from damoos.statistics.verdict import INDISTINGUISHABLE, NOT_COMPARABLE
from damoos.store.studies import slug
from damoos.study.damage import names_sweep_damage
from damoos.sweeps.sweep import Sweep
from damoos.units import show_bytes, show_count

# The verdicts in the words of a table.
VERDICTS = {TUNED: "tuned is best", MANUAL: "manual is best", BASELINE: "leave it alone"}
# Machines that a panel can show, and groups of bars that a row of panels has room for.
MOST_MACHINES, MOST_GROUPS = 6, 24


@names_sweep_damage
def write(sweep: Sweep, path: Path, prices: Prices | None = None) -> list[Path]:
    """Write a sweep's page, and its figures beside it; of one that is under way, what there is so far.

    Parameters
    ----------
    sweep : Sweep
        An evaluation and a league have pages of their own.
    path : Path
    prices : Prices or None
        What a GiB is worth for an hour; without one nothing is said of money saved.

    Raises
    ------
    ConfigError : none of its studies has finished
    """
    if sweep.config.settings.get("configs"):
        return evaluation.write(sweep, path)
    if sweep.config.is_league:
        return league.write(sweep, path)
    overview = fleet.Fleet(sweep)
    if not overview.results:
        raise ConfigError(
            f"no study of sweep '{sweep.name}' has finished yet; watch it with 'damoos status {sweep.name}'"
        )
    return document.write(path, "sweep", figures(overview), **context(overview, prices))


def figures(found: fleet.Fleet) -> list[Figure]:
    """The figures of a sweep; where there are too many machines to tell apart, of what they have in common."""
    sweep, studies = found.sweep, list(found.tuned.values())
    direction = studies[0].scorer.direction
    pairs = [dict(machine) for machine in manual_tuned.compare(studies)]
    is_crowd = len(sweep.config.machines) > MOST_MACHINES
    curves = spread.curves(sweep.name, studies) if is_crowd else matrices.curves(sweep.name, studies)
    figures = []
    if any(not pair["error"] for machine in pairs for pair in machine["studies"]):
        figures.append(Figure("gain", "What tuning has won", _GAIN, matrices.matrix(sweep.name, pairs, direction)))
    figures.append(Figure("curves", "Score by what was tuned", _CROWD if is_crowd else _CURVES, curves))
    return [*figures, *_compared(sweep, pairs, direction)]


_GAIN = "Score of the tuned scheme less that of the manual one, both validated on fresh runs; more than 0: tuning won."
_CURVES = (
    "A panel for each workload; each machine has its own colour and mark, lines are what its search makes of them."
)
_CROWD = "A panel for each workload: runs that kept the limits, of all machines together."


def _compared(sweep: Sweep, pairs: list[dict[str, Any]], direction: str) -> Iterator[Figure]:
    """One figure where there is room for all machines side by side, else one for each; means of a crowd."""
    title, says = "Hand-made and tuned", "Against the baseline of the same round; intervals are 95 %."
    nr_groups = len(pairs) * (len(sweep.config.workloads) + 1)
    if len(pairs) > MOST_MACHINES:
        parts = [("compare", title, spread.averages(pairs, direction))]
        says += " A cross: the limits were broken at least once."
    elif nr_groups <= MOST_GROUPS:
        parts = [("compare", title, pairs)]
    else:
        parts = [
            (f"compare-{slug(machine['machine'])}", f"{title} on {machine['machine']}", [machine]) for machine in pairs
        ]
    for key, heading, machines in parts:
        if chart := bars.chart(machines):
            yield Figure(key, heading, says, chart)


def context(found: fleet.Fleet, prices: Prices | None) -> dict[str, Any]:
    """What the template shows beside the figures."""
    sweep, totals = found.sweep, found.totals()
    nr_workloads, nr_machines = len(sweep.config.workloads), len(sweep.config.machines)
    return {
        "name": sweep.name,
        "heading": f"{show_count(nr_workloads, 'workload')} on {show_count(nr_machines, 'machine')}",
        "under": f"{show_count(len(found.rows), 'study')}, {len(found.results)} of them finished;"
        f" begun {found.created[:10]}",
        **_verdict(found, totals),
        **_tiles(found, totals, prices),
        "machines": fleet.machines(found),
        "machines_say": fleet.machines_say(found),
        "studies": _studies(found),
        "studies_say": _STUDIES,
        "provenance": fleet.provenance(found),
    }


def _verdict(found: fleet.Fleet, totals: Totals) -> dict[str, str]:
    verdicts = [result["verdict"] for result in found.results.values()]
    counts = {
        "the tuned scheme is best": verdicts.count(TUNED),
        "the manual one is": verdicts.count(MANUAL),
        "nothing beats leaving it alone": verdicts.count(BASELINE),
        "the best cannot be told apart": verdicts.count(INDISTINGUISHABLE),
        "an arm that may be the best is not shown to keep the limits": verdicts.count(NOT_COMPARABLE),
    }
    parts = [f"{words} in {number} of {len(verdicts)}" for words, number in counts.items() if number]
    failed = len(found.failures)
    caution = f"{show_count(failed, 'study')} failed; the table has the reasons." if failed else ""
    text = shown.listed(parts)
    left = len(found.rows) - len(found.results) - failed
    caution += f" {left} are not finished; damoos resume {found.sweep.name} goes on with them." if left > 0 else ""
    return {
        "verdict": f"{text[:1].upper()}{text[1:]}{' studies' if len(verdicts) > 1 else ' study'}.",
        "caution": caution.strip(),
    }


def _tiles(found: fleet.Fleet, totals: Totals, prices: Prices | None) -> dict[str, Any]:
    saved = Tile(
        "Memory saved", show_bytes(totals.saved_bytes), f"of {show_bytes(totals.whole_bytes)}, one of each workload"
    )
    tiles = [saved] if totals.counted else []
    if prices and totals.counted:
        tiles.append(shown.worth(totals.saved_bytes, prices))
    if totals.slowdown is not None:
        tiles.append(Tile("Slowdown", f"{totals.slowdown:+.1%}", "mean of the tuned schemes"))
    broken = f"manual: {totals.broken_manual} of {totals.judged}"
    tiles.append(Tile("Limits broken", f"{totals.broken_tuned} of {totals.judged}", broken))
    hours, usd = found.spent
    tiles.append(Tile("Machine time", shown.duration(hours * 3600), "" if usd is None else f"{usd:,.2f} USD"))
    kept = show_count(totals.counted, "tuned scheme")
    says = f"Totals count {kept} that kept the limits of the score on fresh runs, one process each."
    if totals.models:
        says += f" {totals.models} of them ran models of their workloads, whose memory is scaled down."
    if not prices and totals.counted:
        says += " What the memory is worth is said with --prices FILE."
    return {"tiles": tiles, "tiles_say": says}


_STUDIES = "Score, slowdown and saving are of the tuned scheme on fresh runs, against the baseline of the same rounds."


def _studies(found: fleet.Fleet) -> Table:
    columns = {"workload": WORDS, "machine": WORDS, "verdict": WORDS, "score ± 95 %": NUMBERS, "manual": NUMBERS}
    columns |= {"gain": NUMBERS, "slowdown": NUMBERS, "RSS saved": NUMBERS, "memory": NUMBERS, "limits": WORDS}
    columns |= {"tuned to": WORDS}
    return Table(columns, [_study(row, found) for row in found.rows], "Studies")


def _study(row: Mapping[str, Any], found: fleet.Fleet) -> list[Cell]:
    head = [shown.word(row["workload"]), shown.word(row["on"] or row["machine"])]
    result = found.results.get(row["study"])
    if result is None:
        state = f"failed: {row['error']}" if row["state"] == "failed" else row["state"]
        return [*head, shown.word(state, "bad" if row["state"] == "failed" else ""), *[shown.word(None)] * 8]
    arms, unit = result["validation"] or {}, score_unit(result)
    tuned, manual, base = (arms.get(name) or {} for name in (TUNED, MANUAL, BASELINE))
    best = (result["recommended"] or {}).get("params", {})
    won = result["verdict"] == TUNED
    limits = shown.word(tuned["limits"] if tuned else "none kept", "" if tuned.get("feasible") else "bad")
    return [
        *head, shown.word(VERDICTS.get(result["verdict"], "cannot be told apart"), "good" if won else ""),
        shown.score(tuned.get("score"), tuned.get("score_ci95"), "good" if won else "", unit),
        shown.score(manual.get("score"), unit=unit), shown.score(fleet.gain(result), unit=unit),
        shown.change(fleet.slowdown(tuned, base)), shown.share(fleet.saving(tuned, base)),
        shown.size(base["rss_avg_bytes"] - tuned["rss_avg_bytes"] if tuned and base else None),
        limits, shown.word(trials.point_text(found.tuned[row["study"]], best)),
    ]  # fmt: skip
