"""What is on the page of one study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from damoos.errors import ConfigError
from damoos.prediction.forecast import forecast
from damoos.recordings import files
from damoos.report.charts.page import Figure
from damoos.report.html import document, fleet, provenance, shown, trials
from damoos.report.html.shown import NUMBERS, WORDS, Cell, Table, Tile
from damoos.report.recording import charts, forecasts
from damoos.report.study import frontier as curve
from damoos.report.study import memory, tuning
from damoos.report.tables import cpu_key, score_unit
from damoos.statistics.arms import BASELINE, MANUAL, TUNED
from damoos.store.forms import Arm
from damoos.study.damage import names_damage
from damoos.study.frontier import Prospect, frontier
from damoos.study.study import Study
from damoos.units import show_bytes, show_score

Result = Mapping[str, Any]
ARMS = {BASELINE: "no scheme", MANUAL: "manual", TUNED: "tuned"}


@names_damage
def write(study: Study, path: Path) -> list[Path]:
    """Write a study's page, and its figures beside it; of one that is under way, what there is so far.

    Raises
    ------
    ConfigError : it has not reached its machine
    """
    found = frontier(study) if study.record.result else {}
    return document.write(path, "study", _figures(study, found), **_context(study, found))


def _figures(study: Study, found: Mapping[float, Prospect | None]) -> list[Figure]:
    """The figures of a study, as far as it has what they show."""
    figures = [Figure("score", "Score by what was tuned", _SCORE, tuning.chart(study))]
    if any(found.values()):
        figures.append(
            Figure("frontier", "Saving by the slowdown that is allowed", _FRONTIER, curve.chart(study, found))
        )
    memory_chart = memory.chart(study)
    if memory_chart.panels[0].layers:
        figures.append(Figure("memory", "Memory over time", _MEMORY, memory_chart))
    predicted = study.record.artifacts.path / "recording.damo"
    is_predicted = (study.record.result or {}).get("prediction") and predicted.exists()
    if is_predicted and not study.config.scores_by_file:  # a user's file is not read to look at a study
        with suppress(ConfigError):  # a recording of another version may say too little
            recording = files.read(predicted)
            rows = forecast(recording, study.config.scorer, study.config.scorer_options)
            chart = forecasts.chart(charts.title(recording), rows, study)
            figures.append(Figure("prediction", "What the recording predicted", _PREDICTION, chart))
    return figures


_SCORE = (
    "Every point is one run, with its 95 % interval where repeated runs tell the noise; the line is what the search"
    " makes of the points. Where limits were broken is shaded."
)
_FRONTIER = (
    "What the same runs let one expect under tighter limits: every point is another scheme, not validated, with the"
    " chance that it keeps its limit."
)
_MEMORY = (
    "One round of the validation, each run from its beginning to its end. Memory by kind is what the kernel charges"
    " to the run, and what its swapped pages take in zram."
)
_PREDICTION = "From the recording alone, before any trial; the points are what trials then measured."


def _context(study: Study, found: Mapping[float, Prospect | None]) -> dict[str, Any]:
    """What the template shows beside the figures."""
    result = study.record.result or {}
    history, runs = study.trials(), study.runs()
    return {
        **_head(study),
        **_verdict(study, result),
        "schemes": list(_schemes(study, result)),
        **_validation(study, result),
        "frontier": _frontier(study, found),
        "trials": trials.table(study, history, runs),
        "trials_say": trials.says(study, history),
        **trials.prediction(study, result),
        "cost": provenance.cost(study, result, runs),
        "provenance": provenance.provenance(study),
        "configuration": provenance.configuration(study.config),
    }


def _head(study: Study) -> dict[str, Any]:
    setting, facts = study.setting, study.setting.facts
    model = " (model)" if setting.variant == "model" else ""
    about = [f"Linux {facts['kernel']}", f"{facts['vcpus']} vCPU", show_bytes(facts["mem_bytes"]), facts["accel"]]
    created = str(study.record.get("created", ""))[:10]
    return {
        "name": study.name,
        "heading": f"{study.config.target}{model} on {study.config.machine}",
        "under": " · ".join([*about, *filter(None, [created])]),
        "note": setting.note,
    }


def _verdict(study: Study, result: Result) -> dict[str, Any]:
    if not result:
        verdict = f"It is not finished, so there is no verdict yet; continue it with damoos resume {study.name}."
        return {"verdict": verdict, "caution": "What there is so far is below.", "tiles": []}
    text = result["verdict_text"]
    drift = result["drift"]
    caution = (
        f"Fresh runs after the search; intervals are 95 %. The interleaved baselines drifted by"
        f" {drift['runtime_s']:.2%} in runtime and {drift['rss_avg_bytes']:.2%} in RSS."
    )
    return {"verdict": f"{text[:1].upper()}{text[1:]}.", "caution": caution, "tiles": _tiles(result)}


def _tiles(result: Result) -> list[Tile]:
    arms = result["validation"] or {}
    if TUNED not in arms or BASELINE not in arms:
        return []
    tuned, base = arms[TUNED], arms[BASELINE]
    unit = score_unit(result)
    base_rss, (low, high) = base["rss_avg_bytes"], tuned["score_ci95"] or (None, None)
    saved = base_rss - tuned["rss_avg_bytes"]
    ends = "" if low is None or high is None else f"[{show_score(low, unit)}, {show_score(high, unit)}]"
    return [
        Tile("Score, tuned", shown.score(tuned["score"], unit=unit).text, ends),
        Tile("Slowdown", f"{tuned['runtime_s'] / base['runtime_s'] - 1:+.1%}", f"of {base['runtime_s']:.2f} s"),
        Tile("RSS saved", f"{saved / base_rss:.1%}", f"{show_bytes(saved)} of {show_bytes(base_rss)}"),
        Tile("The policy's own time", f"{tuned[cpu_key(tuned)]:.1%}", _with_a_spare_core(tuned)),
    ]


def _with_a_spare_core(arm: Arm) -> str:
    spare = arm.get("spare_core_slowdown")
    return "of a CPU" if spare is None else f"of a CPU; slowdown with a spare core {spare:+.1%}"


def _schemes(study: Study, result: Result) -> Iterator[dict[str, str]]:
    """The scheme that won comes first; where none can be told from the others, the tuned one."""
    known = {TUNED: result.get("recommended"), MANUAL: result.get("manual")}
    order = [MANUAL, TUNED] if result.get("verdict") == MANUAL else [TUNED, MANUAL]
    titles = {TUNED: "Tuned scheme", MANUAL: "Hand-made scheme"}
    for nth, arm in enumerate(order):
        if scheme := known[arm]:
            won = result["verdict"] == arm
            yield {
                "id": f"scheme-{arm}",
                "title": f"{'Winning scheme' if won else titles[arm]}{f': the {ARMS[arm]} one' if won else ''}",
                "text": scheme["scheme"],
                "label": f"the {ARMS[arm]} scheme",
                "note": f"damoos apply {study.name}{' --arm manual' if arm == MANUAL else ''}" if nth == 0 else "",
            }


def _validation(study: Study, result: Result) -> dict[str, Any]:
    arms = result.get("validation") or {}
    if not arms:
        return {"validation": None}
    columns = {"scheme": WORDS, "parameters": WORDS, "score ± 95 %": NUMBERS, "runtime": NUMBERS}
    columns |= {"slowdown": NUMBERS, "with a spare core": NUMBERS, "RSS": NUMBERS, "RSS saved": NUMBERS}
    columns |= {"with swap": NUMBERS, "policy's CPU": NUMBERS, "runs": NUMBERS, "limits": WORDS}
    table = Table(columns, [_arm(study, result, name, arm) for name, arm in arms.items()])
    section = {"validation": table, "shrinkage": "", "validation_says": _VALIDATION}
    if lost := result["shrinkage"]:
        unit = score_unit(result)
        searched, validated, shrinkage = (show_score(lost[key], unit) for key in ("searched", "validated", "shrinkage"))
        section["shrinkage"] = (
            f"Shrinkage, what the search owed to luck: {shrinkage}. The tuned point scored {searched} in the search and"
            f" {validated} on fresh runs."
        )
    return section


_VALIDATION = (
    "Fresh runs of each scheme in turns, each scored against the baseline of its own round."
    " Memory with swap is RSS and what the swapped pages take."
)


def _frontier(study: Study, found: Mapping[float, Prospect | None]) -> Table | None:
    """The best point by the slowdown that is allowed; None where there is nothing to say."""
    if not any(found.values()):
        return None
    columns = {"": WORDS, "slowdown allowed": NUMBERS, "parameters": WORDS, "RSS saved, expected": NUMBERS}
    columns |= {"slowdown, expected": NUMBERS, "chance to keep it": NUMBERS, "runs": NUMBERS, "scheme": WORDS}
    return Table(columns, [_prospect(study, curve.names(found).get(s, ""), s, found[s]) for s in found])


def _prospect(study: Study, name: str, allowed: float, found: Prospect | None) -> list[Cell]:
    if found is None:
        return [shown.word(name), shown.share(allowed), shown.word("no point is known"), *[shown.word("")] * 5]
    saving, slowdown = found.memory_saving, found.slowdown
    scheme = "\n".join(study.policy(found.params).lines)
    return [
        shown.word(name), shown.share(allowed), shown.word(curve.point_text(study, found)),
        Cell(curve.percent(saving), saving.mean), Cell(curve.percent(slowdown, "+"), slowdown.mean),
        shown.share(found.chance), shown.count(found.runs), shown.word(scheme, code=True),
    ]  # fmt: skip


def _arm(study: Study, result: Result, name: str, arm: Mapping[str, Any]) -> list[Cell]:
    base = result["validation"].get(BASELINE)
    point = arm.get("params") or (result["manual"]["params"] if name == MANUAL else {})
    slower = saved = None
    if base and name != BASELINE:
        slower, saved = fleet.slowdown(arm, base), fleet.saving(arm, base)
    won = "good" if name == result["verdict"] else ""
    return [
        shown.word(ARMS.get(name, name), won), shown.word(arm.get("scheme") or trials.point_text(study, point)),
        shown.score(arm["score"], arm["score_ci95"], won, score_unit(result)),
        shown.seconds(arm["runtime_s"]),
        shown.change(slower), shown.change(arm.get("spare_core_slowdown")), shown.size(arm["rss_avg_bytes"]),
        shown.share(saved), shown.size(arm["net_avg_bytes"]),
        shown.share(arm[cpu_key(arm)]), shown.count(arm["repeats"]),
        shown.word(arm["limits"], "" if arm["feasible"] else "bad"),
    ]  # fmt: skip
