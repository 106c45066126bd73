"""From repeated runs to a verdict: intervals, noise, and which of the arms is best, if that can be said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import stats

from damoos.model.trial import Measurement, Run, orientation
from damoos.scorers.base import Scorer
from damoos.units import show_score

BASELINE, MANUAL, TUNED, RUNNER_UP = "baseline", "manual", "tuned", "runner-up"
CANDIDATE = "candidate-"
ALPHA = 0.05
# A winner is asked for twice, after the planned rounds and after the extra ones. Each time a chance of 2 % of a false
# one is taken, so that the whole stays under 5 % also where the noise is not normal ('damoos bench aa' measures it).
ALPHA_OF_A_LOOK = 0.02
# From this many values on the bootstrap knows the shape of the noise better than Student's normal (decision 0003).
BOOTSTRAP_FROM = 8


def mean_measurement(runs: Sequence[Measurement]) -> Measurement:
    """The mean of each metric that all runs have."""
    first, *others = runs
    common = [name for name in first.metrics if all(name in run.metrics for run in others)]
    means = {name: sum(run.metrics[name] for run in runs) / len(runs) for name in common}
    for name, mean in means.items():
        if not math.isfinite(mean):
            for run in runs:
                run.metric(name)  # says which one
    return Measurement(means)


@cache
def student(level: float, freedom: int) -> float:
    """Half the width of Student's interval of a level, in standard errors; asked for the same few again and again."""
    return float(stats.t.ppf((1 + level) / 2, freedom))


def interval(values: Sequence[float], level: float = 1 - ALPHA) -> tuple[float, float]:
    """Interval of a mean: Student's for a few values, the bootstrap's for many; infinite for fewer than two.

    The bootstrap's is widened as Student's is against the normal one, which the plain percentiles lack.

    References
    ----------
    Hesterberg, What Teachers Should Know About the Bootstrap (2015), section 4.1: expanded percentile interval
    """
    count, mean = len(values), float(np.mean(values))
    if count < 2:
        return -math.inf, math.inf
    quantile = student(level, count - 1)
    if count < BOOTSTRAP_FROM or len(set(values)) == 1:
        half = float(quantile * np.std(values, ddof=1) / math.sqrt(count))
        return mean - half, mean + half
    expanded = 1 - 2 * stats.norm.cdf(-math.sqrt(count / (count - 1)) * quantile)
    bootstrap = stats.bootstrap(
        (np.asarray(values),), np.mean, confidence_level=float(expanded), method="percentile",
        rng=np.random.default_rng(count),
    )  # fmt: skip
    return float(bootstrap.confidence_interval.low), float(bootstrap.confidence_interval.high)


def interval_of_average(groups: Sequence[Sequence[float]], level: float = 1 - ALPHA) -> tuple[float, float]:
    """Interval of the mean of several means, each of a few values with a noise of its own.

    What was averaged over (workloads, say) is taken as given: the interval tells the noise of the runs, not how others
    would fare. For one group it is `interval`; infinite where a group has fewer than two values.

    References
    ----------
    Welch (1947) and Satterthwaite (1946) for the degrees of freedom
    """
    if len(groups) == 1:
        return interval(groups[0], level)
    mean = float(np.mean([np.mean(group) for group in groups]))
    if any(len(group) < 2 for group in groups):
        return -math.inf, math.inf
    errors = [float(np.var(group, ddof=1)) / len(group) for group in groups]
    if not sum(errors):
        return mean, mean
    freedom = sum(errors) ** 2 / sum(error**2 / (len(group) - 1) for error, group in zip(errors, groups, strict=True))
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * math.sqrt(sum(errors)) / len(groups)
    return mean - half, mean + half


@dataclass(frozen=True)
class Noise:
    """How far single runs of one and the same policy lie apart: a standard deviation and its degrees of freedom."""

    deviation: float
    freedom: int

    def around(self, value: float) -> tuple[float, float]:
        """95 % interval of what a single run stands for."""
        half = student(1 - ALPHA, self.freedom) * self.deviation
        return value - half, value + half


@dataclass(frozen=True)
class Arm:
    """One of the compared policies: its runs and scores by round.

    It is feasible if it kept the scorer's limits in every round and on the whole. A round that broke them may have no
    score.
    """

    name: str
    runs: Mapping[int, Measurement]
    scores: Mapping[int, float]
    feasible: bool

    @property
    def score(self) -> float:
        """Mean score; NaN where no round has one."""
        return float(np.mean(list(self.scores.values()))) if self.scores else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean score."""
        return interval(list(self.scores.values())) if self.scores else (math.nan, math.nan)


Rounds = Sequence[Mapping[str, Measurement | None]]


def rounds_of(runs: Sequence[Run]) -> list[dict[str, Measurement | None]]:
    """Measurements of a study's validation by arm, one mapping per round; None for a run that failed."""
    by_number: dict[int, dict[str, Measurement | None]] = {}
    for run in runs:
        if run.kind == "validation":
            by_number.setdefault(run.number, {})[run.arm] = run.measurement
    return [by_number.get(number, {}) for number in range(max(by_number, default=-1) + 1)]


def arms(rounds: Rounds, scorer: Scorer, previous: Sequence[float], planned: int | None = None) -> dict[str, Arm]:
    """Score every arm, each run against the baseline of its own round.

    A baseline is scored against the other rounds' baselines, so that its interval shows the noise. An arm that
    failed in one of the planned rounds is left out. Later rounds hold only the arms that were still in question; one
    that fails there has broken the limits.

    Parameters
    ----------
    rounds : sequence of mapping
        Measurements by arm, one mapping per round; None for a run that failed.
    previous : sequence of float
        Scores of the study's feasible trials, for scorers that look back.
    planned : int or None
        How many rounds every arm must have; None for all.
    """
    planned = len(rounds) if planned is None else planned
    base = {n: run for n, round_runs in enumerate(rounds) if (run := round_runs.get(BASELINE)) is not None}
    by_name = {}
    for name in sorted({name for round_runs in rounds for name in round_runs}, key=_rank):
        runs = {
            n: run for n, round_runs in enumerate(rounds) if n in base and (run := round_runs.get(name)) is not None
        }
        if not runs or not all(number in runs for number in range(planned)):
            continue
        scores, kept = {}, all(round_runs[name] is not None for round_runs in rounds if name in round_runs)
        for number, run in runs.items():
            others = [other for n, other in base.items() if n != number] or [base[number]]
            score = scorer.score(run, mean_measurement(others) if name == BASELINE else base[number], previous)
            kept = kept and score.feasible
            if score.value is not None:
                scores[number] = score.value
        means = mean_measurement(list(runs.values())), mean_measurement([base[number] for number in runs])
        by_name[name] = Arm(name, runs, scores, kept and scorer.score(*means, previous).feasible)
    return by_name


def _rank(name: str) -> tuple[int, str]:
    order = (BASELINE, MANUAL, TUNED, RUNNER_UP)
    return (order.index(name) if name in order else len(order)), name


def scheme_noise(rounds: Rounds, scorer: Scorer, previous: Sequence[float]) -> Noise | None:
    """Noise of single runs under a scheme, from all arms that have one; None where none ran twice."""
    schemes = [arm for name, arm in arms(rounds, scorer, previous, 0).items() if name != BASELINE and arm.feasible]
    freedom = sum(len(arm.scores) - 1 for arm in schemes)
    if freedom < 1:
        return None
    squares = sum(float(np.var(list(arm.scores.values()))) * len(arm.scores) for arm in schemes)
    return Noise(math.sqrt(squares / freedom), freedom)


def settle(
    rounds: Rounds, scorer: Scorer, previous: Sequence[float], planned: int
) -> tuple[dict[str, Arm], dict[str, str]]:
    """Arms by the names that people read, and these names by those of the runs.

    The best candidate is ``tuned``, the others are ``runner-up``. Best is the one that kept the limits, then the one
    with the better score in the planned rounds, then the one that the search ranked first. Later rounds are only of
    those in question: they can show that a candidate breaks the limits, but a lucky rival with fewer rounds is not to
    take its place.
    """
    sign = orientation(scorer.direction)
    by_name = arms(rounds, scorer, previous, planned)
    first = arms(rounds[:planned], scorer, previous)

    def worse(name: str) -> tuple[bool, float, str]:
        return not by_name[name].feasible, -sign * first[name].score if first[name].scores else 0.0, name

    ranked = sorted((name for name in by_name if name.startswith(CANDIDATE)), key=worse)
    labels = [TUNED, RUNNER_UP, *(f"{RUNNER_UP}-{n}" for n in range(2, len(ranked)))]
    names = dict(zip(ranked, labels, strict=False))
    named = [replace(arm, name=names.get(name, name)) for name, arm in by_name.items()]
    return {arm.name: arm for arm in sorted(named, key=lambda arm: _rank(arm.name))}, names


@dataclass(frozen=True)
class Verdict:
    """``best`` is an arm's name or ``indistinguishable``; ``text`` says it in a sentence."""

    best: str
    text: str


def judge(found: Mapping[str, Arm], direction: str, same_scheme: bool = False) -> Verdict:
    """Which arm is best: one that beats every other feasible arm outside the noise of paired rounds.

    A runner-up is no rival: it is there in case that the tuned one breaks the limits.

    Parameters
    ----------
    found : mapping of str to Arm
    direction : {"maximize", "minimize"}
    same_scheme : bool
        The tuned scheme is the manual one, so between these two there is nothing to judge.
    """
    sign = orientation(direction)
    runners = _ranked(found, sign, same_scheme)
    broken = [name for name, arm in found.items() if not arm.feasible]
    lost = [name for name in (BASELINE, MANUAL, TUNED) if name not in found]
    notes = "".join(f"; {name} breaks the scorer's limit" for name in broken)
    notes += "".join(f"; {name} has no valid runs" for name in lost)
    notes += "; manual is the same scheme as tuned" if same_scheme else ""
    if not runners:
        return Verdict("indistinguishable", f"no arm is feasible{notes}")
    first = runners[0]
    equals = [arm for arm in runners[1:] if not _beats(first, arm, sign)]
    beaten = [arm for arm in runners[1:] if arm not in equals]
    against = ", ".join(f"{arm.name} {_shown(arm)}" for arm in beaten)
    if not equals:
        rest = f" against {against}" if against else ""
        if first.name == BASELINE:
            return Verdict(BASELINE, f"nothing beats leaving it alone: baseline {_shown(first)}{rest}{notes}")
        return Verdict(first.name, f"{first.name} is best: {_shown(first)}{rest}{notes}")
    names = " and ".join(arm.name for arm in [first, *equals])
    rest = f"; they beat {against}" if against else ""
    shown = ", ".join(f"{arm.name} {_shown(arm)}" for arm in [first, *equals])
    return Verdict("indistinguishable", f"{names} cannot be told apart ({shown}){rest}{notes}")


def in_question(found: Mapping[str, Arm], direction: str, more: int, same_scheme: bool = False) -> list[str]:
    """Arms that some more rounds could still tell apart; empty where the decision stands or more would not help.

    More rounds can help if the difference seen so far would lie outside the noise seen so far, were both to stay.

    Parameters
    ----------
    more : int
        How many rounds may follow.
    same_scheme : bool
        As for `judge`.
    """
    sign = orientation(direction)
    runners = _ranked(found, sign, same_scheme)
    if not runners or not more:
        return []
    first = runners[0]
    open_ = [arm for arm in runners[1:] if not _beats(first, arm, sign) and _could_beat(first, arm, sign, more)]
    return [first.name, *(arm.name for arm in open_)] if open_ else []


def _ranked(found: Mapping[str, Arm], sign: float, same_scheme: bool) -> list[Arm]:
    left_out = [MANUAL] if same_scheme else []
    rivals = [
        arm for name, arm in found.items() if arm.feasible and name not in left_out and not name.startswith(RUNNER_UP)
    ]
    return sorted(rivals, key=lambda arm: -sign * arm.score)


def _gains(first: Arm, other: Arm, sign: float) -> list[float]:
    both = sorted(set(first.scores) & set(other.scores))
    return [sign * (first.scores[n] - other.scores[n]) for n in both]


def _beats(first: Arm, other: Arm, sign: float) -> bool:
    return interval(_gains(first, other, sign), 1 - ALPHA_OF_A_LOOK)[0] > 0


def _could_beat(first: Arm, other: Arm, sign: float, more: int) -> bool:
    gains = _gains(first, other, sign)
    count = len(gains) + more
    half = student(1 - ALPHA_OF_A_LOOK, count - 1) * np.std(gains, ddof=1) / math.sqrt(count)
    return bool(np.mean(gains) > half)


def _shown(arm: Arm) -> str:
    low, high = arm.interval
    return f"{show_score(arm.score)} [{show_score(low)}, {show_score(high)}]"
