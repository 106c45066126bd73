"""The full curve: evenly spaced points over the whole range, as the figures of the DAOS paper were measured."""

from __future__ import annotations

from itertools import product

import numpy as np

from damoos.model.space import Params
from damoos.model.trial import History
from damoos.searchers.base import Searcher, best


class GridSearcher(Searcher):
    """Asks for evenly spaced points, one for each trial, both ends included, in the order of the range.

    With several parameters each gets the same number of values; what is left of the budget goes to random points.

    References
    ----------
    DAOS (HPDC'22), Figure 4: every second from 0 to 60
    """

    name = "grid"
    deterministic = True

    def ask(self, history: History) -> Params:
        """The next point of the grid."""
        params = self.space.params
        count = max(2, int(self.nr_samples ** (1 / len(params)) + 1e-9))
        axes = [
            sorted({param.snap(at) for at in np.linspace(param.low, param.high, min(count, param.nr_steps + 1))})
            for param in params
        ]
        tried = [trial.params for trial in history]
        for values in product(*axes):
            point = dict(zip((param.key for param in params), values, strict=True))
            if point not in tried:
                return point
        return self.fresh_point(history, np.random.default_rng(len(history)))

    def recommend(self, history: History) -> Params:
        """The best feasible trial's point."""
        return best(history).params
