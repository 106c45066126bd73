"""What a study expects under tighter limits: for a terminal, as a figure, as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from damoos.report.charts import Axis, Chart, Panel, Points
from damoos.report.charts.style import BLUE
from damoos.report.study.tuning import title
from damoos.study.frontier import Expected, Prospect
from damoos.study.study import Study
from damoos.units import show_count, show_score

# The slowdown that somebody allows who would rather lose nothing.
CAREFUL = 0.02
_ALLOWED = Axis("slowdown that is allowed", "allowed", is_share=True, from_zero=True)
_SAVING = Axis("expected memory saving", "memory_saving", is_share=True, from_zero=True)

Frontier = Mapping[float, Prospect | None]


def names(found: Frontier) -> dict[float, str]:
    """The two that stand for the others: ``thrifty`` may cost as much as the score allows, ``careful`` next to none."""
    named = {max(found): "thrifty"} if found else {}
    return {CAREFUL: "careful"} | named if CAREFUL in found else named


def text(study: Study, found: Frontier) -> str:
    """A line for each limit; empty where there is none."""
    if not found:
        return ""
    lines = ["by the slowdown that is allowed, as the runs let one expect it (prove one: damoos validate --limit):"]
    for allowed, prospect in found.items():
        name = names(found).get(allowed, "")
        lines.append(f"  {name:<8} <= {allowed:<5.1%} {_words(study, prospect) if prospect else 'no point is known'}")
    return "\n".join(lines)


def _words(study: Study, prospect: Prospect) -> str:
    saving, slowdown = percent(prospect.memory_saving), percent(prospect.slowdown, "+")
    return f"saving {saving}  slowdown {slowdown}  chance {prospect.chance:.0%}  {point_text(study, prospect)}"


def single(study: Study, limits: Sequence[str], prospect: Prospect | None) -> str:
    """What is expected under some limits, and how to prove it."""
    asked = " and ".join(limits)
    if prospect is None:
        return (
            f"study {study.name} under {asked}: no point is known that keeps it and gains anything; leave the workload"
            " alone, or search under this limit in a study of its own"
        )
    ends = (prospect.score.mean, prospect.score.low, prospect.score.high)
    score = "{} [{}, {}]".format(*(show_score(end, study.scorer.shown_in) for end in ends))
    tried = f"tried in {show_count(prospect.runs, 'run')}" if prospect.runs else "never tried itself"
    words = " ".join(f"--limit '{limit}'" for limit in limits)
    return "\n".join(
        [
            f"study {study.name} under {asked}, as its runs let one expect it:",
            f"  {point_text(study, prospect)}, {tried}",
            f"  score {score}  saving {percent(prospect.memory_saving)}  slowdown {percent(prospect.slowdown, '+')}",
            f"  chance to keep the limits {prospect.chance:.0%}",
            *(f"  {scheme}" for scheme in study.policy(prospect.params).lines),
            f"prove it on fresh runs: damoos validate {study.name} {words}",
        ]
    )


def point_text(study: Study, prospect: Prospect) -> str:
    """``min_age=4.3s max_freq=2%``."""
    return " ".join(f"{param.name}={param.text(prospect.params[param.key])}" for param in study.space.params)


def percent(found: Expected, sign: str = "") -> str:
    """``4.1% [3.0, 5.2]``."""
    return f"{found.mean:{sign}.1%} [{100 * found.low:{sign}.1f}, {100 * found.high:{sign}.1f}]"


def chart(study: Study, found: Frontier) -> Chart:
    """Saving by what may be lost for it."""
    known = {allowed: prospect for allowed, prospect in found.items() if prospect}
    savings = [prospect.memory_saving for prospect in known.values()]
    notes = [f"{point_text(study, prospect)}, chance {prospect.chance:.0%}" for prospect in known.values()]
    points = Points(
        "expected (95 % of what is believed)", list(known), [saving.mean for saving in savings],
        [saving.low for saving in savings], [saving.high for saving in savings], BLUE, notes=notes,
    )  # fmt: skip
    return Chart(title(study), [Panel(_ALLOWED, _SAVING, [points] if known else [])])
