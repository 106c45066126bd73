"""The arms of a validation: what each has measured round by round, what it gained, and whether it kept the limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from damoos.model.trial import Measurement, Run, Score, mean_measurement, orientation
from damoos.scorers.base import Scorer
from damoos.statistics.intervals import ALPHA, BOOTSTRAP_FROM, Noise, interval, moderated
from damoos.statistics.limits import ENOUGH, Standing, least_margin, looks_broken, standing
from damoos.statistics.noise import GAIN, Repeats, of_scheme

BASELINE, MANUAL, TUNED, REJECTED = "baseline", "manual", "tuned", "rejected"
CANDIDATE = "candidate-"

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
    looks_broken : bool
        As `damoos.statistics.limits.looks_broken` says.
    is_hopeless : bool
        Whether no round that it may still have would show how it stands, were the mean and the noise to stay.
    least_margin : float
        The mean margin with which all of its rounds would show that the limits are kept.
    noises : mapping of str to Noise
        Of a gain, as other arms tell it: by the arm's name.
    label : str
        What people read where the name says too little; empty for the name.
    has_failed : bool
        Whether one of its runs failed, so that it has broken the limits.
    """

    name: str
    runs: Mapping[int, Measurement]
    scores: Mapping[int, float]
    gains: Mapping[int, float] = field(default_factory=dict)
    standing: Standing = Standing.KEPT
    looks_broken: bool = False
    is_hopeless: bool = False
    least_margin: float = 0.0
    noises: Mapping[str, Noise] = field(default_factory=dict)
    label: str = ""
    has_failed: bool = False

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
        mean = moderated(values, list(self.noises.values()))
        return mean.mean - mean.half(1 - ALPHA), mean.mean + mean.half(1 - ALPHA)


def rounds_of(runs: Sequence[Run]) -> list[dict[str, Measurement | None]]:
    """Measurements of a study's validation by arm, one mapping per round; None for a run that failed."""
    by_number: dict[int, dict[str, Measurement | None]] = {}
    for run in runs:
        if run.kind == "validation":
            by_number.setdefault(run.number, {})[run.arm] = run.measurement
    return [by_number.get(number, {}) for number in range(max(by_number, default=-1) + 1)]


def arms(
    rounds: Rounds,
    scorer: Scorer,
    previous: Sequence[float],
    left_alone: Repeats | None,
    risk: Callable[[str], float],
    max_rounds: int,
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
    left_alone : Repeats or None
        Of all baselines of the study (`damoos.statistics.noise.of_baselines`).
    risk : callable
        Takes the name of an arm and gives its risk for `damoos.statistics.limits.standing`.
    max_rounds : int
        How many an arm can have.
    """
    beside_them = _Beside(beside(rounds), scorer, previous)
    runs_of = {
        name: {n: run for n, of_round in enumerate(rounds) if n in beside_them.base and (run := of_round.get(name))}
        for name in sorted({name for of_round in rounds for name in of_round}, key=rank)
    }
    told = {name: of_scheme(runs, beside_them.base) for name, runs in runs_of.items()} | {BASELINE: left_alone}
    found = {}
    for name, runs in runs_of.items():
        if name == BASELINE and runs:
            found[name] = beside_them.baseline(runs, left_alone)
        elif runs:
            others = {other: repeats for other, repeats in told.items() if repeats and other != name}
            arm = beside_them.scheme(name, runs, others, risk(name), max_rounds)
            failed = any(name in of_round and of_round[name] is None for of_round in rounds)
            found[name] = replace(arm, standing=Standing.BROKEN, has_failed=True) if failed else arm
    return found


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


@dataclass(frozen=True)
class _Beside:
    """Scores runs, each against the baseline of its round."""

    base: Mapping[int, Measurement]
    scorer: Scorer
    previous: Sequence[float]

    def baseline(self, runs: Mapping[int, Measurement], left_alone: Repeats | None) -> Arm:
        """The arm of the baseline."""
        scores = {}
        for number, run in runs.items():
            others = [other for n, other in runs.items() if n != number] or [run]
            value = self.scorer.score(run, mean_measurement(others), self.previous).objective
            if value is not None:
                scores[number] = value
        noises = self._noises(runs, {BASELINE: left_alone} if left_alone else {})
        return Arm(BASELINE, runs, scores, dict.fromkeys(runs, 0.0), noises=_of_limit(noises, GAIN))

    def scheme(
        self, name: str, runs: Mapping[int, Measurement], others: Mapping[str, Repeats], risk: float, max_rounds: int
    ) -> Arm:
        """The arm of a scheme; ``others`` are what other arms tell of the noise, by their names."""
        scores = {n: self.scorer.score(run, self.base[n], self.previous) for n, run in runs.items()}
        gains = {n: self._gain(score, self.base[n]) for n, score in scores.items()}
        noises = self._noises(runs, others)
        every = self.scorer.every
        limits = {limit: list(_of_limit(noises, limit).values()) for limit in next(iter(scores.values())).margins}
        of_runs = list(scores.values())
        more = max(0, max_rounds - len(runs))
        later = standing(of_runs, every, limits, risk, more)
        return Arm(
            name,
            runs,
            {n: score.objective for n, score in scores.items() if score.objective is not None},
            {n: gain for n, gain in gains.items() if gain is not None},
            standing(of_runs, every, limits, risk),
            looks_broken(of_runs, every),
            len(runs) >= ENOUGH and later is Standing.NOT_SHOWN,
            least_margin(of_runs, every, limits, risk, more),
            _of_limit(noises, GAIN),
        )

    def _noises(self, runs: Mapping[int, Measurement], others: Mapping[str, Repeats]) -> dict[str, dict[str, Noise]]:
        """The noise of the gain and of the margins of such runs, as others tell it."""
        base = mean_measurement([self.base[n] for n in runs])

        def scored(run: Measurement) -> tuple[Score, float | None]:
            score = self.scorer.score(run, base, self.previous)
            return score, self._gain(score, base)

        mean = mean_measurement(list(runs.values()))
        return {other: repeats.noise(mean, scored) for other, repeats in others.items()}

    def _gain(self, score: Score, base: Measurement) -> float | None:
        """What a score gains over leaving it alone; None where nobody knows."""
        usual = self.scorer.score(base, base, self.previous).objective
        if score.objective is None or usual is None:
            return None
        return orientation(self.scorer.direction) * (score.objective - usual)


def _of_limit(noises: Mapping[str, Mapping[str, Noise]], limit: str) -> dict[str, Noise]:
    return {other: noise[limit] for other, noise in noises.items() if limit in noise}


def rank(name: str) -> tuple[int, str]:
    """The order in which arms are shown."""
    order = (BASELINE, MANUAL, TUNED)
    return (order.index(name) if name in order else len(order)), name


def scheme_noise(by_name: Mapping[str, Arm]) -> Noise | None:
    """Noise of single runs under a scheme, from all arms that have one; None where none ran twice."""
    schemes = [arm for name, arm in by_name.items() if name != BASELINE and len(arm.scores) > 1]
    freedom = sum(len(arm.scores) - 1 for arm in schemes)
    if freedom < 1:
        return None
    squares = sum(float(np.var(list(arm.scores.values()))) * len(arm.scores) for arm in schemes)
    return Noise(math.sqrt(squares / freedom), freedom)
