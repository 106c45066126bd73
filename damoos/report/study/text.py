"""A study's result for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from damoos.common import html
from damoos.report.tables import IDLE_SCHEME, STANDINGS, score_unit
from damoos.units import show_bytes, show_count, show_number, show_score

if TYPE_CHECKING:
    import pandas as pd

    from damoos.store.forms import Arm


def _prediction(found: dict[str, Any] | None) -> list[str]:
    """What the recording let one expect, beside what came."""
    if found is None:
        return []
    lines = ["the recording predicted" + ("" if found["kept"] else ", until the trials contradicted it") + ":"]
    for trial in found["trials"]:
        predicted, measured = trial["predicted"], trial["measured"]
        if predicted is None:
            continue
        came = "stopped or failed"
        if measured["slowdown"] is not None:
            came = f"slowdown {measured['slowdown']:.1%}, saving {measured['memory_saving']:.1%}"
        lines.append(
            f"  trial {trial['number']}: slowdown {predicted['slowdown']:.1%}, saving {predicted['memory_saving']:.1%};"
            f" measured: {came}"
        )
    return lines


def _transfer(found: dict[str, Any] | None) -> list[str]:
    """Which finished studies told what to expect."""
    if found is None:
        return []
    if not found["kept"]:
        names = ", ".join(one["study"] for one in found["studies"])
        return [f"the trials contradicted what {names} let one expect, so it was dropped"]
    believed = ", ".join(f"{one['study']} ({one['where']}): {one['believed']:.0%}" for one in found["studies"])
    return [f"finished studies told what to expect, and are believed as follows: {believed}"]


def summary(result: dict[str, Any]) -> str:
    """The verdict, the arms side by side, the winning scheme."""
    unit = score_unit(result)
    lines = [f"study {result['study']}: {result['workload']} ({result['variant']}) on {result['machine']['name']}"]
    if result.get("of"):
        limits = " and ".join(result["score"]["limits"])
        lines.append(
            f"its trials and {show_count(len(result['baselines']), 'baseline')} are those of {result['of']},"
            f" now under {limits}"
        )
    if memory := result.get("memory_limits"):
        lines.append("each run was limited: " + ", ".join(f"{file} {show_bytes(sz)}" for file, sz in memory.items()))
    drift = result["drift"]
    lines.append(
        f"{show_count(len(result['trials']), 'trial')}, {show_count(len(result['baselines']), 'interleaved baseline')}"
        f" (drift: runtime {drift['runtime_s']:.2%}, RSS {drift['rss_avg_bytes']:.2%}), {result['elapsed_s']:.0f} s"
    )
    stopped = result["early_abort"]
    if stopped["runs"]:
        lines.append(
            f"{show_count(stopped['runs'], 'trial')} stopped early, certain to break the limit: about"
            f" {stopped['saved_s']:.0f} s of workload saved"
        )
    for outlier in result.get("outliers", ()):
        runtime_s = outlier["metrics"].get("runtime_s", math.nan)
        lines.append(f"{outlier['run']} lay far beyond the runs beside it ({runtime_s:.2f} s), so it ran again")
    lines += [f"{one['run']} failed: {one['error']}" for one in result.get("failures", ())]
    lines += _transfer(result.get("transfer"))
    lines += _prediction(result.get("prediction"))
    for name, arm in (result["validation"] or {}).items():
        score = f"{'-':>23}"
        if arm["score"] is not None:
            score = f"{show_score(arm['score'], unit)} {_ends(arm, unit, '[{}, {}]') or '[-, -]'}"
        limit = _standing(arm)
        lines.append(
            f"  {name:<10} score {score}  runtime {arm['runtime_s']:.2f} s  RSS {show_bytes(arm['rss_avg_bytes'])}"
            f"  net {show_bytes(arm['net_avg_bytes'])}  ({show_count(arm['repeats'], 'run')})  {limit}".rstrip()
        )
        if "slowdown" in arm:
            lines.append(f"{'':<12}{_lost(arm)}")
        reported = arm.get("reports", {})
        if set(reported) - {"ops", "ops_per_s"}:  # a fixed number of operations says no more than the runtime
            lines.append(
                f"{'':<12}" + "  ".join(f"{metric} {show_number(value)}" for metric, value in reported.items())
            )
    if result["shrinkage"]:
        lines.append(
            "tuned in the search {searched}, on fresh runs {validated} (shrinkage {shrinkage})".format(
                **{name: show_score(value, unit) for name, value in result["shrinkage"].items()}
            )
        )
    lines.append(f"verdict: {result['verdict_text']}")
    if result["recommended"]:
        lines.append(f"tuned scheme:  {result['recommended']['scheme']}")
        lines.append(f"manual scheme: {result['manual']['scheme']}")
    return "\n".join(lines)


def to_html(result: dict[str, Any], trials: pd.DataFrame) -> str:
    """HTML for a notebook, with the trials for who opens them."""
    best = result["recommended"]
    about = {
        "verdict": result["verdict_text"],
        "tuned scheme": html.code(best["scheme"]) if best else None,
        "manual scheme": html.code(result["manual"]["scheme"]),
        "workload": f"{result['workload']} ({result['variant']})",
        "machine": f"{result['machine']['name']}, Linux {result['machine']['kernel']}",
    }
    arms = result["validation"] or {}
    columns = ("", "score", "95 %", "runtime", "RSS", "runs", "")
    parts = [
        html.pairs(about),
        html.table(columns, (_arm(name, arm, score_unit(result)) for name, arm in arms.items())),
    ]
    shown = html.Html(trials.to_html(index=False, border=0, na_rep="", float_format=show_number))
    return html.section(f"study {result['study']}", *parts, html.folded(show_count(len(trials), "trial"), shown))


def _arm(name: str, arm: dict[str, Any], unit: str) -> tuple[str, ...]:
    score, interval = "", ""
    if arm["score"] is not None:
        score, interval = show_score(arm["score"], unit), _ends(arm, unit, "{} to {}")
    rss = show_bytes(arm["rss_avg_bytes"])
    return name, score, interval, f"{arm['runtime_s']:.2f} s", rss, str(arm["repeats"]), _standing(arm)


def _standing(arm: Mapping[str, Any]) -> str:
    """How an arm stands to the limits, where it is not known to keep them."""
    failures = arm.get("failures", 0)
    return f"failed in {show_count(failures, 'run')}" if failures else STANDINGS[arm["limits"]]


def _lost(arm: Arm) -> str:
    """By how much an arm is slower than the baseline, and what of it is the policy's own work."""
    spare = arm["spare_core_slowdown"]
    words = "" if spare is None else f", with a spare core {spare:+.1%}"
    nothing = f"; {IDLE_SCHEME}" if arm.get("sz_applied_bytes") == 0 else ""
    return f"slowdown {arm['slowdown']:+.1%}{words}  (the policy took {arm['policy_cpu_share']:.1%} of a CPU{nothing})"


def _ends(arm: dict[str, Any], unit: str, form: str) -> str:
    """The interval of an arm's score; nothing where one round gives none."""
    return "" if arm["score_ci95"] is None else form.format(*(show_score(end, unit) for end in arm["score_ci95"]))
