"""Random points: what every other searcher has to beat, and the shortest lesson in writing one."""

from __future__ import annotations

from damoos.model.space import Params
from damoos.model.trial import History
from damoos.searchers.base import Searcher, best


class RandomSearcher(Searcher):
    """Uniform over the grid; recommends the best point that it saw."""

    name = "random"

    def ask(self, history: History) -> Params:
        """Any point, each with the same chance."""
        random = self.random(history)
        return self.space.point(**{param.key: int(random.choice(param.values)) for param in self.space.params})

    def recommend(self, history: History) -> Params:
        """The best feasible trial's point."""
        return best(history).params
