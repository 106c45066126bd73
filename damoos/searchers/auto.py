"""damoos's own search: what a run tells of its score and of its limits is modelled, and the best bet is asked.

docs/searchers.md explains it with figures and puts it beside the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from damoos.model.space import Params
from damoos.model.trial import History, Trial
from damoos.searchers.base import best, feasible, value
from damoos.searchers.border import FINEST, BorderSearcher
from damoos.searchers.surrogate import Array, Belief, believe, believe_bounds, distances, used

# Distances from the best point at which points may be asked, and how many at each.
REACHES, NR_NEAR = (0.15, 0.05), 48
# Chances to keep the limits from which on a point is a safe one, and below which it is not recommended.
SAFE, HOPELESS = 0.9, 0.4
# What a refused candidate costs, as a share of what the safe one is worth: its rounds of validation were for nothing.
PRICE = 0.1
# After so many trials in a row that broke the limits the border is halved.
NR_BROKEN = 2
# A trial is worth its time if it is expected to gain this share of the best score, divided by the number of parameters:
# the more there are, the more trials it takes to gain as much.
WORTH_A_TRIAL = 0.02

# A point, what it is expected to gain, and over what score.
Bet = tuple[Params, float, float]


class AutoSearcher(BorderSearcher):
    """The default. It begins with points that are spread over the space, or where a prior expects most.

    Where every run says by how much it kept or broke the limits, it then asks where the expected improvement times the
    chance to keep the limits is largest, by a model of the score without its limits and one of what is used of them.
    Where runs say only whether they did, it halves the border of the limits (`BorderSearcher`).

    `recommend` gives the point that is worth most, if the chance counts that the validation refuses it. It need not
    have been tried: the validation's runs are its trials.
    """

    name = "auto"
    _known: tuple[History, Bet] | None = None

    def ask(self, history: History) -> Params:
        """The point to try next."""
        if not _has_margins(history) or not feasible(history):
            return super().ask(history)
        return self.begin(history) or self._middle(history) or self._best_bet(history)[0]

    def is_done(self, history: History) -> bool:
        """Whether the best bet is expected to gain next to nothing; never before the first points were tried."""
        if not _has_margins(history) or len(feasible(history)) < 2 or self.begin(history) is not None:
            return False
        return not self._pays(self._best_bet(history), history)

    def shortlist(self, history: History, count: int) -> list[Params]:
        """Points, tried or not, the one that is worth most first; none beside a trial that was stopped or failed."""
        if not can_model(history):
            return super().shortlist(history, count)
        points = self._anywhere(history)
        ended = self._beside_ended(history, points)
        known = [point for point, is_beside in zip(points, ended, strict=True) if not is_beside]
        return self._prudent(history, known, count) or [best(history).params]

    def outlook(self, history: History, points: Sequence[Params]) -> tuple[Belief, Array]:
        """What is believed of the score at points as if there were no limits, and their chance to keep the limits."""
        return self._objective(history, points), self._chance(history, points)

    def _middle(self, history: History) -> Params | None:
        """The middle of the border of the limits, where the last trials broke them; None where they did not.

        A run that was stopped tells that it used more than the limits, and not how much more. Beliefs that are wrong
        about that would ask the next point, and the next, all the way to the border.
        """
        last = history[-NR_BROKEN:]
        if len(last) < NR_BROKEN or any(trial.score.feasible for trial in last):
            return None
        return self._border(history)

    def _best_bet(self, history: History) -> Bet:
        """Where the expected improvement times the chance to keep the limits is largest, how large, and over what."""
        if self._known is not None and self._known[0] == history:  # asked twice: whether to go on, and where
            return self._known[1]
        bet = self._new_bet(history)
        self._known = history, bet
        return bet

    def _pays(self, bet: Bet, history: History) -> bool:
        """Whether a bet is expected to gain so much that it is worth a trial."""
        _, gain, over = bet
        objectives = [trial.score.objective for trial in history if trial.score.objective is not None]
        share = WORTH_A_TRIAL / len(self.space.params)
        return gain >= share * max(abs(over), float(np.ptp(objectives)))

    def _new_bet(self, history: History) -> Bet:
        bet = self._believed_bet(history)
        if self.prior and self.prior.is_doubted and not self._pays(bet, history):
            # It may be satisfied for the wrong reasons; whoever had never heard of it may know what is left to try.
            return AutoSearcher(self.space, self.nr_samples, self.seed)._believed_bet(history)
        return bet

    def _believed_bet(self, history: History) -> Bet:
        tried = _distinct(history)
        bets = [point for point in self._near(history) if point not in tried]
        if not bets:
            return self.fresh_point(history, np.random.default_rng(len(history))), 0.0, 1.0
        points = [*bets, *(trial.params for trial in feasible(history))]
        belief, chance = self._objective(history, points), self._chance(history, bets)
        over = float(belief.mean[len(bets) :].max())
        gains = belief.expected_improvement(over)[: len(bets)] * chance
        return bets[int(np.argmax(gains))], float(gains.max()), over

    def _anywhere(self, history: History) -> list[Params]:
        """Points that may be put into service: those that were measured first, then those that may be asked."""
        tried = _measured(history)
        return [*tried, *(point for point in self._near(history) if point not in tried)]

    def _beside_ended(self, history: History, points: Sequence[Params]) -> Array:
        """Whether a trial that is nearest to a point was stopped as certain to break the limits, or failed.

        How far beyond the limits such a point lies is not known, so the model may take it, and what lies beside it, for
        next to them. A point that has failed in one of its runs may do so again.
        """
        at = distances(self.places(points), self.places([trial.params for trial in history]))
        ended = np.array([trial.state != "complete" for trial in history])
        return np.asarray(((at <= at.min(axis=1, keepdims=True) + 1e-9) & ended).any(axis=1))

    def _near(self, history: History) -> list[Params]:
        """Points that may be asked: anywhere, and around the best of those that were tried."""
        random, count = np.random.default_rng(len(history)), len(self.space.params)
        best_tried = next(iter(self._prudent(history, _measured(history), 1)), best(history).params)
        best_place = np.array(self.space.to_unit(best_tried))
        places = []
        for reach in REACHES:
            places.append(best_place + random.normal(0, reach, (NR_NEAR, count)))
            if count > 1:
                one = np.repeat(best_place[None], NR_NEAR, axis=0)
                one[np.arange(NR_NEAR), random.integers(count, size=NR_NEAR)] += random.normal(0, 2 * reach, NR_NEAR)
                places.append(one)
        near = self.space.distinct(np.clip(np.vstack(places), 0, 1))
        return list((self._spread | {tuple(point.values()): point for point in near}).values())

    @cached_property
    def _spread(self) -> dict[tuple[float, ...], Params]:
        """Points all over the space, by their values."""
        points = self.space.distinct(self.grid(FINEST if len(self.space.params) == 1 else FINEST - 1))
        return {tuple(point.values()): point for point in points}

    def _objective(self, history: History, points: Sequence[Params]) -> Belief:
        """What is believed of the score at points, as if there were no limits.

        Trials that broke the limits count as far as they are known, and no lower than the lowest that kept them: how
        bad a point beyond the limit is does not matter, and would hide what is to be had beside it.
        """
        known = [trial for trial in history if trial.score.objective is not None]
        lowest = min(value(trial) for trial in feasible(history))
        y = np.array([max(lowest, trial.score.objective or 0.0) for trial in known])
        expectation = self.prior.expected(history, [*(t.params for t in known), *points]) if self.prior else None
        before = np.zeros(len(known) + len(points)) if expectation is None else expectation.mean
        x = self.places([trial.params for trial in known])
        belief = believe(x, y - before[: len(known)], self.places(points), self.columns)
        return replace(belief, means=belief.means + before[len(known) :])

    def _chance(self, history: History, points: Sequence[Params]) -> Array:
        """Chance of points to keep the limits on the average.

        How far the accounts of a prior differ takes from a chance that is good, and adds none to one that is not: they
        differ most where none of them says that the limits are kept.
        """
        belief, doubts = self._use(history, points)
        room = used(0.0) - belief.means
        deviations = np.where(room > 0, np.hypot(belief.deviations, doubts), belief.deviations)
        return np.asarray(belief.weights @ ndtr(room / deviations))

    def use(self, history: History, points: Sequence[Params]) -> Belief:
        """What is believed of the limits' use at points (`used`), from the margins of all trials that have any."""
        belief, doubts = self._use(history, points)
        return replace(belief, deviations=np.hypot(belief.deviations, doubts))

    def _use(self, history: History, points: Sequence[Params]) -> tuple[Belief, Array]:
        """The limits' use at points, and how far the accounts of a prior differ there, as standard deviations."""
        known = [trial for trial in history if trial.score.margin is not None]
        use = np.array([used(trial.score.margin or 0.0) for trial in known])
        expectation = self.prior.expected(history, [*(t.params for t in known), *points]) if self.prior else None
        before = doubts = np.zeros(len(known) + len(points))
        if expectation is not None and expectation.used is not None:
            before = expectation.weights @ expectation.used
            doubts = np.sqrt(expectation.weights @ (expectation.used - before) ** 2)
        stopped = np.array([trial.state == "censored" for trial in known])
        x = self.places([trial.params for trial in known])
        beyond = believe_bounds(x, use - before[: len(known)], stopped, self.columns)
        belief = believe(x, beyond, self.places(points), self.columns)
        return replace(belief, means=belief.means + before[len(known) :]), doubts[len(known) :]

    def _prudent(self, history: History, points: Sequence[Params], count: int) -> list[Params]:
        """Points by what they are worth if the validation accepts them, and the next safe one if it does not."""
        belief, chance = self.outlook(history, points)
        expected = belief.mean
        safe = max(expected[chance >= SAFE], default=float(expected.min()))
        worth = chance * expected + (1 - chance) * (safe - PRICE * abs(safe))
        order = [n for n in np.argsort(-worth, kind="stable") if chance[n] >= HOPELESS]
        return [points[n] for n in order][:count]


def _has_margins(history: History) -> bool:
    """Whether every trial that ran says by how much it kept or broke the limits."""
    return all(trial.score.margin is not None for trial in history if trial.state != "fail")


def can_model(history: History) -> bool:
    """Whether enough is known for models of the score and of the limits: two runs, one of which kept the limits."""
    return _has_margins(history) and bool(feasible(history)) and len(_measured(history)) > 1


def _distinct(trials: Iterable[Trial]) -> list[Params]:
    """The points of trials, each once."""
    points: list[Params] = []
    for trial in trials:
        if trial.params not in points:
            points.append(trial.params)
    return points


def _measured(history: History) -> list[Params]:
    """Points of which a score is known, whether it kept the limits or not."""
    return _distinct(trial for trial in history if trial.score.objective is not None)
