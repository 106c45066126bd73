"""What the validation of a study does next: a function of the runs that have finished, so that it can go on anywhere.

The best point of the search is validated first. If it looks as if it broke the limits, or as if no round could show
that it keeps them, the validation retreats: what it measured is told to the searcher, and the next point takes its
place, which the searcher now believes to be the best that uses no more than a part of the limits (`AIMS`). Of several
policies the best point of each is validated, all in the same rounds; one of which no trial gained anything over leaving
the workload alone is not. Rounds go on until the verdict is clear, and no longer than they can change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from damoos.model.space import Params
from damoos.model.trial import Run, mean_measurement, orientation
from damoos.policies.base import NonePolicy, Policy
from damoos.searchers.base import feasible, value
from damoos.searchers.conditional import ConditionalSearcher
from damoos.statistics.arms import BASELINE, CANDIDATE, MANUAL, TUNED, Arm, rounds_of
from damoos.statistics.limits import MIN_ROUNDS, Standing
from damoos.statistics.verdict import Judge, Verdict, settle, wants_baseline
from damoos.study.plan import validation_round
from damoos.study.scoring import is_baseline, tightened
from damoos.study.study import Study

# What share of the limits candidates aim at, in their order: each one lies further inside than the one before.
AIMS = (1.0, 0.85, 0.7)
# However noisy the runs are, candidates aim at this share at least.
LEAST_AIM = 0.3
# What the arm of a policy's defaults ends with.
DEFAULTS = "-defaults"


class Course:
    """The course of a study's validation.

    Parameters
    ----------
    study : Study
    """

    def __init__(self, study: Study) -> None:
        self._study = study

    def round(self, number: int, runs: Sequence[Run], first_index: int) -> list[Run]:
        """The runs of a round of the validation, in their order; empty where the verdict stands, or none can.

        Parameters
        ----------
        runs : sequence of Run
            All that have finished. Of the validation, those of the rounds before this one count.
        first_index : int
            Place of the validation in the plan.
        """
        before = [run for run in runs if run.kind != "validation" or run.number < number]
        points = candidates(before)
        names = self._names(before, points)
        limit = self._study.config.runs
        if not names or (limit is not None and len(before) + len(names) > limit):
            return []
        asked = validation_round(number, names, first_index, self._study.config.nr_arms, self._study.config.seed)
        return [replace(run, params=self._params(run.arm, points)) for run in asked]

    def policy(self, run: Run) -> Policy:
        """What a run of the validation is done under."""
        if run.arm == BASELINE:
            return NonePolicy()
        if run.arm == MANUAL:
            return self._study.manual_policy
        if run.arm.endswith(DEFAULTS):
            return self._study.default_policy(run.arm.removeprefix(CANDIDATE).removesuffix(DEFAULTS))
        assert run.params is not None
        return self._study.policy(run.params)

    def _names(self, runs: Sequence[Run], points: dict[str, Params]) -> list[str]:
        """Arms of the next round; a candidate that begins with it is added to ``points``."""
        stand = outcome(self._study, runs)
        if self._study.config.has_several:
            return self._rivals(stand, runs, points)
        last = next(reversed(points), None)
        arm = stand.arms.get(stand.names.get(last, "")) if last else None
        open_arms = stand.in_question()
        if arm is None or stand.gives_way(arm, open_arms):
            if len(points) < self._study.config.candidates and (name := self._begin(runs, points, arm)):
                return [BASELINE, *([MANUAL] if stand.judge.is_live(stand.arms, MANUAL) else []), name]
        elif len(arm.runs) < MIN_ROUNDS:
            return [name for name in (BASELINE, MANUAL, last) if name in rounds_of(runs)[-1]]
        return self._with_baseline(open_arms, runs)

    def _rivals(self, stand: Outcome, runs: Sequence[Run], points: dict[str, Params]) -> list[str]:
        """Arms of the next round of several policies: all in the first two, then those that are in question."""
        rounds = rounds_of(runs)
        if not rounds:
            points |= self._bests(runs)
            return [BASELINE, MANUAL, *points] if points else []
        if len(rounds) < MIN_ROUNDS:  # what has failed will fail again
            return [name for name, measured in rounds[-1].items() if measured is not None]
        return self._with_baseline(stand.in_question(), runs)

    def _with_baseline(self, names: list[str], runs: Sequence[Run]) -> list[str]:
        """Arms of a round, with the baseline where it is to have one."""
        if not names or not wants_baseline(rounds_of(runs), names):
            return names
        return [BASELINE, *(name for name in names if name != BASELINE)]

    def _bests(self, runs: Sequence[Run]) -> dict[str, Params]:
        """The best point of each policy that gained something, and in a league its defaults, by their arms' names."""
        study = self._study
        assert isinstance(study.searcher, ConditionalSearcher)
        space, trials = study.searcher.space, study.known(study.trials_of(runs))
        base = mean_measurement([run.measurement for run in runs if is_baseline(run) and run.measurement])
        usual = orientation(study.scorer.direction) * (study.scorer.score(base, base, ()).objective or 0.0)
        gained = {space.name(trial.params) for trial in feasible(trials) if value(trial) > usual}
        found = {f"{CANDIDATE}{name}": point for name, point in study.searcher.bests(trials).items() if name in gained}
        if study.config.league:  # the defaults of the first policy are the manual arm
            others = [name for name in study.config.policies[1:] if name in gained]
            found |= {f"{CANDIDATE}{name}{DEFAULTS}": study.default_point(name) for name in others}
        return found

    def _begin(self, runs: Sequence[Run], points: dict[str, Params], before: Arm | None) -> str | None:
        """Add the point that the searcher would have validated next; None where it has none.

        It lies so far inside the limits that the noise of the candidate before would not hide that it keeps them.
        """
        if not feasible(self._study.trials_of(runs)):
            return None
        evidence = self._study.evidence(runs)
        needed = before.least_margin if before else 0.0
        careful = tightened(evidence, min(AIMS[min(len(points), len(AIMS) - 1)], max(LEAST_AIM, 1 - needed)))
        listed = self._study.searcher.shortlist(careful if feasible(careful) else evidence, 1 + len(points))
        fresh = [point for point in listed if point not in points.values()]
        if not fresh:
            return None
        name = f"{CANDIDATE}{len(points) + 1}"
        points[name] = fresh[0]
        return name

    def _params(self, arm: str, points: dict[str, Params]) -> Params | None:
        return points.get(arm, self._study.manual if arm == MANUAL else None)


@dataclass(frozen=True)
class Outcome:
    """How the validation of a study stands.

    Parameters
    ----------
    judge : Judge
    arms : mapping of str to Arm
        By the names that people read.
    names : mapping of str to str
        The names that people read, by those of the runs, of candidates.
    points : mapping of str to Params
        What was validated, by the names that people read.
    same_scheme : bool
        The tuned scheme is the manual one.
    """

    judge: Judge
    arms: Mapping[str, Arm]
    names: Mapping[str, str]
    points: Mapping[str, Params]
    same_scheme: bool

    def gives_way(self, arm: Arm, in_question: Sequence[str]) -> bool:
        """Whether something more careful than a candidate is to be tried."""
        if self.judge.is_rejected(arm) or arm.looks_broken or arm.is_hopeless:
            return True
        return not in_question and len(arm.runs) >= MIN_ROUNDS and arm.standing is Standing.NOT_SHOWN

    def verdict(self) -> Verdict:
        """Which arm is best."""
        return self.judge.verdict(self.arms, self.same_scheme)

    def in_question(self) -> list[str]:
        """Arms that need more rounds, by the names of their runs."""
        raw_of = {name: raw for raw, name in self.names.items()}
        return [raw_of.get(name, name) for name in self.judge.in_question(self.arms, self.same_scheme)]


def outcome(study: Study, runs: Sequence[Run]) -> Outcome:
    """How a study's validation stands after some runs."""
    judge = study.judge(runs)
    arms, names = settle(judge.arms(rounds_of(runs)), study.config.has_several)
    points = {names[raw]: point for raw, point in candidates(runs).items() if raw in names}
    same_scheme = TUNED in points and study.policy(points[TUNED]) == study.manual_policy
    return Outcome(judge, arms, names, points, same_scheme)


def candidates(runs: Sequence[Run]) -> dict[str, Params]:
    """The points that were validated, by the names of their arms, in the order in which they began."""
    return {
        run.arm: run.params
        for run in sorted(runs, key=lambda run: run.index)
        if run.kind == "validation" and run.arm.startswith(CANDIDATE) and run.params is not None
    }
