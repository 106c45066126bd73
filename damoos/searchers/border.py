"""What `auto` does where a score only says whether the limits were kept: it halves the border, then takes best bets.

docs/searchers.md explains it with figures and puts it beside the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from damoos.common.normal import expected_improvement
from damoos.model.space import Params
from damoos.model.trial import History
from damoos.searchers.base import Searcher, best, feasible, infeasible, value
from damoos.searchers.surrogate import Array, believe, chance_feasible, columns, distances, places, sobol

# Of a spread-out sequence: the middle first, then the quarters.
NR_FIRST = 3
# After so many broken limits and nothing else, a prior is asked for the safest point.
PATIENCE = 2
# From here on every second point fills the widest gap, whatever the beliefs are.
FILL_FROM = 5
# Until then bets are taken on a coarse grid of this many halvings; it gets finer as points come in.
COARSE = 3
FINEST = 7
# A border is halved until its two sides are this close, in units of the cube's edge.
BORDER = 0.05
# A gap is worth filling where the limits are about as likely kept as not.
LIKELY = 0.45


class BorderSearcher(Searcher):
    """`ask` takes the first of these that has something to ask.

    1. The first points of a Sobol sequence: the middle of the range and its quarters, on a logarithmic scale for times
       and sizes.
    2. Where the best point has a point beside it that broke the limits, the middle of the two: a limit that binds
       has the optimum beside it.
    3. Every second time, the middle of the widest gap: what no belief expects can only be found by looking.
    4. The largest expected improvement times the chance to keep the limits, on a grid that gets finer.

    A prior, such as a recording gives, takes the place of the first points, for as long as no trial contradicts it:
    asked is where it expects the largest improvement. Later beliefs are of what differs from it.

    `recommend` gives a point that was tried and kept the limits: the one with the highest expected score, which counts
    the neighbours and so does not fall for the luckiest run.
    """

    name = "border"
    deterministic = True

    def ask(self, history: History) -> Params:
        """The point to try next."""
        begin = self.begin(history)
        if begin is not None:
            return begin
        border = self._border(history)
        if border is not None:
            return border
        tried = [trial.params for trial in history]
        bets = self._bets(history)
        at = self.places(bets)
        chance = self._chances(history, at)
        gaps = distances(at, self.places(tried)).min(axis=1)
        if not feasible(history):
            return bets[int(np.argmax(gaps * chance))]
        if len(history) >= FILL_FROM and (len(history) - FILL_FROM) % 2 == 0:
            return bets[int(np.argmax(gaps * (chance >= LIKELY) + 1e-6 * chance))]
        if len(feasible(history)) == 1:
            return bets[int(np.argmax(gaps * chance))]
        return bets[int(np.argmax(self._improvements(history, bets) * chance))]

    def begin(self, history: History) -> Params | None:
        """The first points: where a prior expects most, or spread over the space; None once these were tried."""
        if self.prior and len(history) < NR_FIRST and (bet := self._prior_bet(history)):
            return bet
        first = self._first(len(history))
        return first if first not in [trial.params for trial in history] else None

    def recommend(self, history: History) -> Params:
        """The tried point with the highest expected score among those that kept the limits."""
        return self.shortlist(history, 1)[0]

    def shortlist(self, history: History, count: int) -> list[Params]:
        """Tried points that kept the limits: the highest expected score, then the most prudent ones.

        The best point is often the one beside the border, which may have kept the limit by luck. A prudent one is worth
        most when its chance to keep the limits again is counted, and breaking them is worth the worst score. Once the
        best one was validated, only prudent ones follow.
        """
        broken = [trial.params for trial in infeasible(history)]
        kept = [trial.params for trial in feasible(history)]
        points = [p for n, p in enumerate(kept) if p not in kept[:n] and p not in broken] or kept[:1]
        expected = np.array(self.estimate(history, points))
        chance = self._chances(history, self.places(points))
        worth = chance * expected + (1 - chance) * expected.min()
        if all(trial.params not in [other.params for other in history[:n]] for n, trial in enumerate(history)):
            worth[np.argmax(expected)] = np.inf
        return [points[n] for n in np.argsort(-worth, kind="stable")[:count]]

    def estimate(self, history: History, points: Sequence[Params]) -> list[float]:
        """Expected scores."""
        x, y = self._kept(history)
        known, before = self._before(history, points)
        return [float(mean) for mean in before + believe(x, y - known, self.places(points), self.columns).mean]

    def deviation(self, history: History, points: Sequence[Params]) -> list[float]:
        """Standard deviations: of what is believed, and of what a prior's accounts say of the points."""
        x, y = self._kept(history)
        known, _ = self._before(history, points)
        spread = believe(x, y - known, self.places(points), self.columns).deviation ** 2
        expectation = self.prior.expected(history, points) if self.prior else None
        if expectation is not None:
            spread += expectation.weights @ (expectation.scores - expectation.mean) ** 2
        return [float(deviation) for deviation in np.sqrt(spread)]

    def _before(self, history: History, points: Sequence[Params]) -> tuple[Array, Array]:
        """What was expected of the trials that kept the limits, and is of points, by the prior alone; else 0."""
        kept = [trial.params for trial in feasible(history)]
        expectation = self.prior.expected(history, [*kept, *points]) if self.prior else None
        mean = np.zeros(len(kept) + len(points)) if expectation is None else expectation.mean
        return mean[: len(kept)], mean[len(kept) :]

    def _prior_bet(self, history: History) -> Params | None:
        """Where the prior expects the largest improvement over the best trial; over nothing, where it expects most."""
        assert self.prior
        tried = [trial.params for trial in history]
        points = [point for point in self.space.distinct(self.grid(FINEST)) if point not in tried]
        expectation = self.prior.expected(history, points) if points else None
        if expectation is None:
            return None
        if feasible(history):
            gain = expectation.scores - value(best(history))
            gain = expected_improvement(gain, expectation.deviation)
        elif len(history) < PATIENCE:
            # A point that breaks the limits is worth as little as any.
            gain = expectation.scores - expectation.scores.min()
        else:
            # Any point that keeps them is worth more than the best that does not.
            gain = np.ones_like(expectation.scores)
        # The accounts may all be wrong about where the limit lies: a point beside one that broke it will break it, too.
        chance = self._chances(history, self.places(points))
        return points[int(np.argmax((expectation.weights @ (expectation.kept * gain)) * chance))]

    def _first(self, number: int) -> Params | None:
        count = NR_FIRST + len(self.space.params) - 1
        if number >= count:
            return None
        return self.space.from_unit(sobol(len(self.space.params), count + 1)[number + 1])

    def _bets(self, history: History) -> list[Params]:
        """Points that may be asked: those of a grid that gets finer with the history, without what was tried."""
        tried = [trial.params for trial in history]
        n = len(history)
        level = COARSE if n < FILL_FROM else math.ceil(math.log2(n + 2)) + 2
        while True:
            points = [point for point in self.space.distinct(self.grid(min(level, FINEST))) if point not in tried]
            if points:
                return points
            if level >= FINEST:
                return [self.fresh_point(history, np.random.default_rng(n))]
            level += 1

    def grid(self, level: int) -> Array:
        """Places of a grid in the unit cube, finer with each level, shape (count, parameters)."""
        count = 2**level
        if len(self.space.params) == 1:
            return np.linspace(0, 1, count + 1)[:, None]
        return sobol(len(self.space.params), 4 * count)

    def _border(self, history: History) -> Params | None:
        """The middle between the best point and the nearest that broke the limits, if nothing was tried between."""
        broken = infeasible(history)
        if not feasible(history) or not broken:
            return None
        inside = self.places([best(history).params])
        outside = self.places([trial.params for trial in broken])
        nearest = int(np.argmin(distances(inside, outside)[0]))
        gap = float(distances(inside, outside)[0, nearest])
        if gap <= BORDER:
            return None
        tried = [trial.params for trial in history]
        middle = (inside + outside[nearest]) / 2
        is_between = distances(middle, self.places(tried)).min() < 0.45 * gap
        ends = self.space.to_unit(best(history).params), self.space.to_unit(broken[nearest].params)
        point = self.space.from_unit((ends[0] + ends[1]) / 2)
        return None if is_between or point in tried else point

    def _chances(self, history: History, at: Array) -> Array:
        if not history:
            return np.ones(len(at))
        kept = np.array([trial.score.feasible for trial in history])
        return chance_feasible(self.places([trial.params for trial in history]), kept, at)

    def _kept(self, history: History) -> tuple[Array, Array]:
        """Places and scores of the trials that kept the limits."""
        kept = feasible(history)
        return self.places([trial.params for trial in kept]), np.array([value(trial) for trial in kept])

    def _improvements(self, history: History, bets: Sequence[Params]) -> Array:
        """Expected improvement over the best tried point."""
        x, y = self._kept(history)
        known, before = self._before(history, bets)
        y = y - known
        tried = believe(x, y, x, self.columns).mean + known
        belief = believe(x, y, self.places(bets), self.columns)
        expected = replace(belief, means=belief.means + before)
        return expected.expected_improvement(float(tried.max()))

    @cached_property
    def columns(self) -> list[int]:
        """The parameter that each column of `places` belongs to."""
        return columns(self.space)

    def places(self, points: Sequence[Params]) -> Array:
        """Places for distances, see `damoos.searchers.surrogate.places`."""
        return places(self.space, points)
