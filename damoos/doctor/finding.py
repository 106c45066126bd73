"""What is found out about a machine, and how bad it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OK, WARN, UNFIT = "ok", "warn", "unfit"

# Bounds of noise, as fractions: of the spread of seconds, of the 95 % interval of A/B, of steal time, of the clock's
# rate. Seconds that spread by 5 % make runs of 10 s spread by 1.6 %, and what three rounds of two such runs can tell
# apart (a paired t-interval: 4.30 x sqrt(2) / sqrt(3) = 3.5 times that) is then 5.5 %: a slowdown of 5 % is invisible.
NOISE_UNFIT = 0.05
NOISE_WARN = 0.02


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Parameters
    ----------
    name : str
    state : {"ok", "warn", "unfit"}
    found : str
        What is there, in one line.
    todo : str
        What to do about it; empty where nothing is amiss.
    """

    name: str
    state: str
    found: str
    todo: str = ""


def fit(findings: Sequence[Finding]) -> bool:
    """Whether a machine with these findings may be measured on."""
    return all(finding.state != UNFIT for finding in findings)


def why_unfit(findings: Sequence[Finding]) -> str:
    """What makes it unfit and what to do, in one line; empty if it is fit."""
    return "; ".join(
        f"{finding.name}: {finding.found}{f' ({finding.todo})' if finding.todo else ''}"
        for finding in findings
        if finding.state == UNFIT
    )


def graded(value: float, warn: float, unfit: float) -> str:
    """State of a value that is the worse the larger it is."""
    return UNFIT if value > unfit else WARN if value > warn else OK
