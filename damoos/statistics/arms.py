"""The arms of a validation: what each has measured round by round, what it gained, and whether it kept the limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from damoos.model.trial import Measurement, Run, Score, mean_measurement, orientation
from damoos.scorers.base import Scorer
from damoos.statistics.intervals import ALPHA, BOOTSTRAP_FROM, Noise, interval, moderated
from damoos.statistics.limits import Standing, standing

BASELINE, MANUAL, TUNED, REJECTED = "baseline", "manual", "tuned", "rejected"
CANDIDATE = "candidate-"
# What the noise of the score is filed under, among that of the margins.
GAIN = ""

Rounds = Sequence[Mapping[str, Measurement | None]]


@dataclass(frozen=True)
class Arm:
    """One of the compared policies.

    Parameters
    ----------
    name : str
    runs : mapping of int to Measurement
        By round.
    scores : mapping of int to float
        By round, whether that run kept the limits or not; a round without a number is missing.
    gains : mapping of int to float
        By round: the score less that of the round's own baseline, higher is better.
    standing : Standing
        How it stands to the limits over all of its rounds.
    noise : Noise or None
        That of a gain, as far as it is known from elsewhere.
    label : str
        What people read where the name says too little; empty for the name.
    """

    name: str
    runs: Mapping[int, Measurement]
    scores: Mapping[int, float]
    gains: Mapping[int, float] = field(default_factory=dict)
    standing: Standing = Standing.KEPT
    noise: Noise | None = None
    label: str = ""

    @property
    def title(self) -> str:
        """What people read."""
        return self.label or self.name

    @property
    def feasible(self) -> bool:
        """Whether it is shown to keep the limits."""
        return self.standing is Standing.KEPT

    @property
    def score(self) -> float:
        """Mean score; NaN where no round has one."""
        return float(np.mean(list(self.scores.values()))) if self.scores else math.nan

    @property
    def gain(self) -> float:
        """Mean gain; NaN where no round has one."""
        return float(np.mean(list(self.gains.values()))) if self.gains else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean score, by the same noise as the verdict's; infinite for one round."""
        values = list(self.scores.values())
        if len(values) < 2 or len(values) >= BOOTSTRAP_FROM:
            return interval(values) if values else (math.nan, math.nan)
        mean = moderated(values, self.noise)
        return mean.mean - mean.half(1 - ALPHA), mean.mean + mean.half(1 - ALPHA)


def rounds_of(runs: Sequence[Run]) -> list[dict[str, Measurement | None]]:
    """Measurements of a study's validation by arm, one mapping per round; None for a run that failed."""
    by_number: dict[int, dict[str, Measurement | None]] = {}
    for run in runs:
        if run.kind == "validation":
            by_number.setdefault(run.number, {})[run.arm] = run.measurement
    return [by_number.get(number, {}) for number in range(max(by_number, default=-1) + 1)]


def arms(
    rounds: Rounds, scorer: Scorer, previous: Sequence[float], noise: Mapping[str, Noise], risk: float
) -> dict[str, Arm]:
    """Score every arm, each run against the baseline of its own round (`beside`).

    A baseline's scores are against the other rounds' baselines, so that their interval shows the noise. An arm that has
    failed in a round has broken the limits; one that never ran is left out.

    Parameters
    ----------
    rounds : sequence of mapping
        Measurements by arm, one mapping per round; None for a run that failed.
    previous : sequence of float
        Scores of the study's feasible trials, for scorers that look back.
    noise : mapping of str to Noise
        Of `noise_of`.
    risk : float
        As for `damoos.statistics.limits.standing`.
    """
    base = beside(rounds)
    by_name = {}
    for name in sorted({name for round_runs in rounds for name in round_runs}, key=rank):
        runs = {
            n: run for n, round_runs in enumerate(rounds) if n in base and (run := round_runs.get(name)) is not None
        }
        if not runs:
            continue
        if name == BASELINE:
            by_name[name] = _baseline(runs, scorer, previous, noise.get(GAIN))
            continue
        found = {n: scorer.score(run, base[n], previous) for n, run in runs.items()}
        failed = any(name in round_runs and round_runs[name] is None for round_runs in rounds)
        kept = standing(list(found.values()), scorer.every, noise, risk)
        by_name[name] = Arm(
            name,
            runs,
            {n: score.objective for n, score in found.items() if score.objective is not None},
            {n: gain for n, score in found.items() if (gain := _gain(score, base[n], scorer, previous)) is not None},
            Standing.BROKEN if failed else kept,
            noise.get(GAIN),
        )
    return by_name


def beside(rounds: Rounds) -> dict[int, Measurement]:
    """The baseline of each round; for one without, the mean of those of the nearest rounds before and after it."""
    own = {n: run for n, round_runs in enumerate(rounds) if (run := round_runs.get(BASELINE)) is not None}
    found = {}
    for number in range(len(rounds)):
        before = [n for n in own if n <= number][-1:]
        after = [n for n in own if n >= number][:1]
        if before or after:
            found[number] = mean_measurement([own[n] for n in sorted({*before, *after})])
    return found


def _baseline(base: Mapping[int, Measurement], scorer: Scorer, previous: Sequence[float], noise: Noise | None) -> Arm:
    scores = {}
    for number, run in base.items():
        others = [other for n, other in base.items() if n != number] or [run]
        value = scorer.score(run, mean_measurement(others), previous).objective
        if value is not None:
            scores[number] = value
    return Arm(BASELINE, base, scores, dict.fromkeys(base, 0.0), noise=noise)


def _gain(score: Score, base: Measurement, scorer: Scorer, previous: Sequence[float]) -> float | None:
    """What a score gains over leaving it alone; None where nobody knows."""
    usual = scorer.score(base, base, previous).objective
    if score.objective is None or usual is None:
        return None
    return orientation(scorer.direction) * (score.objective - usual)


def rank(name: str) -> tuple[int, str]:
    """The order in which arms are shown."""
    order = (BASELINE, MANUAL, TUNED)
    return (order.index(name) if name in order else len(order)), name


def noise_of(baselines: Sequence[Measurement], scorer: Scorer) -> dict[str, Noise]:
    """How far gains (`GAIN`) and margins, by limit, of single runs lie apart where nothing differs but the run.

    Each baseline is scored against the mean of the others. A gain and a margin are of a run and of a baseline, so that
    they carry the noise of both.
    """
    count = len(baselines)
    if count < 2:
        return {}
    values: dict[str, list[float]] = {}
    for number, run in enumerate(baselines):
        base = mean_measurement([*baselines[:number], *baselines[number + 1 :]])
        score, usual = scorer.score(run, base, ()), scorer.score(base, base, ())
        gain = _gain(score, base, scorer, ())
        if gain is not None:
            values.setdefault(GAIN, []).append(gain)
        for limit, margin in score.margins.items():
            values.setdefault(limit, []).append(margin - usual.margins[limit])
    # A run lies further from the mean of the others than from the mean of all.
    share = math.sqrt(2) * (count - 1) / count
    return {
        name: Noise(share * float(np.std(found, ddof=1)), count - 1)
        for name, found in values.items()
        if len(found) == count
    }


def scheme_noise(by_name: Mapping[str, Arm]) -> Noise | None:
    """Noise of single runs under a scheme, from all arms that have one; None where none ran twice."""
    schemes = [arm for name, arm in by_name.items() if name != BASELINE and len(arm.scores) > 1]
    freedom = sum(len(arm.scores) - 1 for arm in schemes)
    if freedom < 1:
        return None
    squares = sum(float(np.var(list(arm.scores.values()))) * len(arm.scores) for arm in schemes)
    return Noise(math.sqrt(squares / freedom), freedom)
