"""From repeated runs to a verdict: intervals, and which of the arms is best, if that can be said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from damoos.model.trial import Measurement
from damoos.scorers.base import Scorer

ARMS = ("baseline", "manual", "tuned")


def mean_measurement(runs: Sequence[Measurement]) -> Measurement:
    """The mean of each metric that all runs have."""
    common = set.intersection(*(set(run.metrics) for run in runs))
    return Measurement({name: float(np.mean([run.metric(name) for run in runs])) for name in sorted(common)})


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Student's interval of a mean; infinite for fewer than two values."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return -math.inf, math.inf
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean - half, mean + half


@dataclass(frozen=True)
class Arm:
    """One of the compared policies: its runs, one per round, and its score in each round."""

    name: str
    runs: tuple[Measurement, ...]
    scores: tuple[float, ...]
    feasible: bool

    @property
    def score(self) -> float:
        """Mean score."""
        return float(np.mean(self.scores))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean score."""
        return interval(self.scores)


def arms(rounds: Sequence[Mapping[str, Measurement]], scorer: Scorer, previous: Sequence[float]) -> dict[str, Arm]:
    """Score every arm, each run against the baseline of its own round.

    A baseline is scored against the other rounds' baselines, so that its interval shows the noise. An arm that
    failed in some round is left out.

    Parameters
    ----------
    rounds : sequence of mapping
        Measurements by arm, one mapping per round.
    previous : sequence of float
        Scores of the study's feasible trials, for scorers that look back.
    """
    found = {}
    for name in ARMS:
        if not all(name in one for one in rounds):
            continue
        runs = tuple(one[name] for one in rounds)
        scores = []
        for number, one in enumerate(rounds):
            others = [r["baseline"] for i, r in enumerate(rounds) if i != number] or [one["baseline"]]
            reference = mean_measurement(others) if name == "baseline" else one["baseline"]
            value = scorer.score(one[name], reference, previous).value
            if value is not None:
                scores.append(value)
        if len(scores) != len(rounds):
            continue
        whole = scorer.score(mean_measurement(runs), mean_measurement([one["baseline"] for one in rounds]), previous)
        found[name] = Arm(name, runs, tuple(scores), whole.feasible)
    return found


@dataclass(frozen=True)
class Verdict:
    """``best`` is an arm's name or ``indistinguishable``; ``text`` says it in a sentence."""

    best: str
    text: str


def judge(found: Mapping[str, Arm], direction: str, same_scheme: bool = False) -> Verdict:
    """Which arm is best: one that beats every other feasible arm outside the noise of paired rounds.

    Every pair of arms could have shown a difference by chance, so each is judged at a level that keeps the chance of
    any false winner at 5 % (Bonferroni).

    Parameters
    ----------
    found : mapping of str to Arm
    direction : {"maximize", "minimize"}
    same_scheme : bool
        The tuned scheme is the hand-made one, so between these two there is nothing to judge.
    """
    sign = 1.0 if direction == "maximize" else -1.0
    rivals = [arm for name, arm in found.items() if arm.feasible and not (same_scheme and name == "manual")]
    runners = sorted(rivals, key=lambda arm: -sign * arm.score)
    level = 1 - 0.05 / max(1, math.comb(len(runners), 2))
    broken = [name for name, arm in found.items() if not arm.feasible]
    lost = [name for name in ARMS if name not in found]
    notes = "".join(f"; {name} breaks the scorer's limit" for name in broken)
    notes += "".join(f"; {name} has no valid runs" for name in lost)
    notes += "; manual is the same scheme as tuned" if same_scheme else ""
    if not runners:
        return Verdict("indistinguishable", f"no arm is feasible{notes}")
    first = runners[0]
    equals = [arm for arm in runners[1:] if not _beats(first, arm, sign, level)]
    beaten = [arm for arm in runners[1:] if arm not in equals]
    against = ", ".join(f"{arm.name} {_shown(arm)}" for arm in beaten)
    if not equals:
        rest = f" against {against}" if against else ""
        if first.name == "baseline":
            return Verdict("baseline", f"nothing beats leaving it alone: baseline {_shown(first)}{rest}{notes}")
        return Verdict(first.name, f"{first.name} is best: {_shown(first)}{rest}{notes}")
    names = " and ".join(arm.name for arm in [first, *equals])
    rest = f"; they beat {against}" if against else ""
    shown = ", ".join(f"{arm.name} {_shown(arm)}" for arm in [first, *equals])
    return Verdict("indistinguishable", f"{names} cannot be told apart ({shown}){rest}{notes}")


def _beats(first: Arm, other: Arm, sign: float, level: float) -> bool:
    gains = [sign * (a - b) for a, b in zip(first.scores, other.scores, strict=True)]
    return interval(gains, level)[0] > 0


def _shown(arm: Arm) -> str:
    low, high = arm.interval
    return f"{arm.score:+.3f} [{low:+.3f}, {high:+.3f}]"
