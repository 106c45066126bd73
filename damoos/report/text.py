"""A study's result for a terminal."""

from __future__ import annotations

from typing import Any

from damoos.units import show_bytes


def summary(result: dict[str, Any]) -> str:
    """The verdict, the arms side by side, the winning scheme."""
    lines = [f"study {result['study']}: {result['workload']} ({result['variant']}) on {result['machine']['name']}"]
    drift = result["drift"]
    lines.append(
        f"{len(result['trials'])} trials, {len(result['baselines'])} interleaved baselines"
        f" (drift: runtime {drift['runtime_s']:.2%}, RSS {drift['rss_avg_bytes']:.2%}), {result['elapsed_s']:.0f} s"
    )
    stopped = result["early_abort"]
    if stopped["runs"]:
        lines.append(
            f"{stopped['runs']} trials stopped early, as they had certainly broken the limit:"
            f" about {stopped['saved_s']:.0f} s of workload saved"
        )
    for name, arm in (result["validation"] or {}).items():
        score = f"{'-':>23}"
        if arm["score"] is not None:
            score = "{:+.3f} [{:+.3f}, {:+.3f}]".format(arm["score"], *arm["score_ci95"])
        limit = "" if arm["feasible"] else "  breaks the limit"
        lines.append(
            f"  {name:<9} score {score}  runtime {arm['runtime_s']:.2f} s  RSS {show_bytes(arm['rss_avg_bytes'])}"
            f"  net {show_bytes(arm['net_avg_bytes'])}  ({arm['repeats']} runs){limit}"
        )
    if result["shrinkage"]:
        lines.append(
            "tuned in the search {searched:+.3f}, on fresh runs {validated:+.3f} (shrinkage {shrinkage:+.3f})".format(
                **result["shrinkage"]
            )
        )
    lines.append(f"verdict: {result['verdict_text']}")
    if result["recommended"]:
        lines.append(f"tuned scheme:  {result['recommended']['scheme']}")
        lines.append(f"manual scheme: {result['manual']['scheme']}")
    return "\n".join(lines)
