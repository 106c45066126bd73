"""Random points: what every other searcher has to beat, and the shortest lesson in writing one."""

from __future__ import annotations

from damoos.model.space import Params
from damoos.model.trial import History
from damoos.searchers.base import Searcher, best


class RandomSearcher(Searcher):
    """Uniform over the grid, no point twice; recommends the best point that it saw."""

    name = "random"

    def ask(self, history: History) -> Params:
        """Any new point, each with the same chance."""
        return self.fresh_point(history, self.random(history))

    def recommend(self, history: History) -> Params:
        """The best feasible trial's point."""
        return best(history).params
