"""A searcher of a plugin, whose errors and points are not believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from damoos.common import plugins
from damoos.errors import PluginError
from damoos.model.space import Params
from damoos.model.trial import History
from damoos.searchers.base import Searcher

_T = TypeVar("_T")


class PluginSearcher(Searcher):
    """Asks a plugin's searcher, and checks its answers.

    Parameters
    ----------
    name : str
        Of the plugin.
    own : Searcher
        What it has made.
    """

    def __init__(self, name: str, own: Searcher) -> None:
        super().__init__(own.space, own.nr_samples, own.seed)
        self.name = name
        self.deterministic = bool(own.deterministic)
        self._own = own
        self._what = plugins.described("searchers", name)

    def ask(self, history: History) -> Params:
        """Its next point."""
        return self._checked(self._answer(lambda own: own.ask(history)))

    def recommend(self, history: History) -> Params:
        """Its recommendation."""
        return self._checked(self._answer(lambda own: own.recommend(history)))

    def is_done(self, history: History) -> bool:
        """Whether it wants to end."""
        return bool(self._answer(lambda own: own.is_done(history)))

    def shortlist(self, history: History, count: int) -> list[Params]:
        """Its points for the validation."""
        return [self._checked(point) for point in self._answer(lambda own: own.shortlist(history, count))]

    def estimate(self, history: History, points: Sequence[Params]) -> list[float] | None:
        """Its idea of some points."""
        return self._answer(lambda own: own.estimate(history, points))

    def deviation(self, history: History, points: Sequence[Params]) -> list[float] | None:
        """How far it may be wrong."""
        return self._answer(lambda own: own.deviation(history, points))

    def _answer(self, ask: Callable[[Searcher], _T]) -> _T:
        self._own.prior = self.prior
        with plugins.guarded(self._what):
            return ask(self._own)

    def _checked(self, point: Params) -> Params:
        """A point of the space.

        Raises
        ------
        PluginError : it is none
        """
        params = {param.key: param for param in self.space.params}
        if not isinstance(point, dict) or set(point) != set(params):
            raise PluginError(f"{self._what}: expected values of {', '.join(params)}, got {point!r}")
        for key, value in point.items():
            if type(value) is not int or value not in params[key].values:
                values = params[key].values
                raise PluginError(
                    f"{self._what}: expected {key} between {values.start} and {values[-1]} in steps of {values.step},"
                    f" got {value!r}"
                )
        return point
