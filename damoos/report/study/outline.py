"""The outline of a study as text."""

from __future__ import annotations

from damoos.model.conditional import POLICY
from damoos.model.space import Param
from damoos.study.outline import Outline
from damoos.units import show_clock, show_count


def text(found: Outline) -> str:
    """A line for each part, and nothing that would only be known on the machine."""
    policy, *more = found.policy.strip().splitlines()
    space = [_range(param) for param in found.params if param.name != POLICY]
    rounds = f"{found.least_runs} to {found.most_runs}" if found.most_runs > found.least_runs else f"{found.least_runs}"
    rows = [
        ("workload", found.workload),
        ("machine", found.machine),
        ("policy", policy),
        *(("", line) for line in more),
        *((("space" if number == 0 else ""), line) for number, line in enumerate(space)),
        ("score", ", ".join([found.score, *found.limits])),
        ("searcher", found.searcher),
        ("runs", f"{rounds}: {show_count(found.baselines, 'baseline')}, {found.trials} trials, then the validation"),
        *((("time" if number == 0 else ""), line) for number, line in enumerate(_times(found))),
        ("study", _study(found)),
    ]
    return "\n".join(f"{name:<9} {line}" for name, line in rows)


def _range(param: Param) -> str:
    if param.choices:
        return f"{param.name} {', '.join(param.choices)}"
    return f"{param.name} {param.text(param.low)} to {param.text(param.high)} ({param.nr_steps + 1} values)"


def _times(found: Outline) -> list[str]:
    """How long it takes, as far as that is known."""
    left = max(0, found.least_runs - found.done), max(0, found.most_runs - found.done)
    lines = []
    for known in found.run_times:
        low, high = (show_clock(count * known.seconds) for count in left)
        how = {"itself": "as its file says", "a window": "in windows"}.get(known.source)
        lines.append(
            f"{low} to {high} {how or 'as in ' + known.source} ({known.seconds:.3g} s a run), and what machine and"
            " workload need around each run"
        )
    return lines or ["not known: no study has a run of it yet"]


def _study(found: Outline) -> str:
    if found.goes_on is None:
        return "a new one"
    return f"{found.goes_on} continues, {show_count(found.done, 'run')} of it done; --new begins another one"
