"""Simulated annealing, with steps in units of the range."""

from __future__ import annotations

import math

import numpy as np

from damoos.model.space import Params
from damoos.model.trial import History, Trial
from damoos.searchers.base import Searcher, best, value

# Reach of a step and temperature, at the first trial and at the last one; both fall geometrically.
STEP = (0.5, 0.05)
TEMPERATURE = (0.3, 0.01)


class AnnealSearcher(Searcher):
    """Walks from the current point by steps that shrink; a worse point is taken with a chance that shrinks, too.

    Steps are standard deviations in units of each parameter's range, temperatures in units of the range of the scores
    seen so far, so neither needs tuning to a workload. A point that breaks the limits is never taken.
    """

    name = "anneal"

    def ask(self, history: History) -> Params:
        """A step away from the current point."""
        random = self.random(history)
        here = self._current(history)
        if here is None:
            return self.fresh_point(history, random)
        tried = [trial.params for trial in history]
        reach = self._falling(STEP, len(history))
        for _ in range(100):
            step = reach * random.standard_normal(len(self.space.params))
            point = self._moved(here.params, step)
            if point not in tried:
                return point
        return self.fresh_point(history, random)

    def recommend(self, history: History) -> Params:
        """The best feasible trial's point."""
        return best(history).params

    def _falling(self, ends: tuple[float, float], at: int) -> float:
        first, last = ends
        return float(first * (last / first) ** (at / max(1, self.nr_samples - 1)))

    def _moved(self, point: Params, step: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Params:
        moved = {}
        for param, by in zip(self.space.params, step, strict=True):
            # Reflected at the ends, so that these are not asked for more often than others.
            at = abs((point[param.key] - param.low) / (param.high - param.low) + by) % 2
            moved[param.key] = param.snap(param.low + (2 - at if at > 1 else at) * (param.high - param.low))
        return moved

    def _current(self, history: History) -> Trial | None:
        """Where the walk stands after a history."""
        here: Trial | None = None
        seen: list[float] = []
        for number, trial in enumerate(history):
            if trial.score.value is None or not trial.score.feasible:
                continue
            seen.append(value(trial))
            if here is None:
                here = trial
                continue
            loss = (value(here) - value(trial)) / ((max(seen) - min(seen)) or 1.0)
            luck = float(np.random.default_rng([self.seed, number, 1]).random())
            if loss <= 0 or luck < math.exp(-loss / self._falling(TEMPERATURE, number)):
                here = trial
        return here
