"""The search of the DAOS paper, kept as it was published: 60 % anywhere, 40 % near the best, a polynomial, its peak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Polynomial

from damoos.errors import ConfigError
from damoos.model.space import Param, Params, Space
from damoos.model.trial import History
from damoos.searchers.base import Searcher, best, feasible, scored

EXPLORE = 0.6


class DaosSearcher(Searcher):
    """One-dimensional, as the paper's.

    References
    ----------
    DAOS (HPDC'22), section 3.5 and Figure 5
    """

    name = "daos"

    def __init__(self, space: Space, nr_samples: int, seed: int) -> None:
        super().__init__(space, nr_samples, seed)
        if len(space.params) != 1:
            raise ConfigError("searcher 'daos' tunes one parameter, as the paper does")

    @property
    def _param(self) -> Param:
        return self.space.params[0]

    def ask(self, history: History) -> Params:
        """A random value: of the whole range first, then of the neighbourhood of the best score."""
        param, tried = self._param, {trial.params[self._param.key] for trial in history}
        low, high = param.low, param.high
        if len(history) >= round(EXPLORE * self.nr_samples) and feasible(history):
            centre = best(history).params[param.key]
            reach = (param.high - param.low) / self.nr_samples
            low, high = param.snap(centre - reach), param.snap(centre + reach)
        fresh = [value for value in param.values if low <= value <= high and value not in tried]
        choice = self.random(history).choice(fresh or list(param.values))
        return self.space.point(**{param.key: int(choice)})

    def fit(self, history: History) -> Polynomial:
        """The estimated relation of parameter and score: a polynomial of degree ``nr_samples / 3``."""
        points = scored(history)
        x = np.array([trial.params[self._param.key] for trial in points], dtype=float)
        y = np.array([trial.score.value for trial in points], dtype=float)
        degree = min(self.nr_samples // 3, len(set(x)) - 1)
        curve = Polynomial.fit(x, y, degree, domain=[self._param.low, self._param.high])
        # A leading coefficient that is nothing but rounding would throw the roots of the derivative off.
        return curve.trim(1e-12 * float(np.abs(curve.coef).max()))

    def estimate(self, history: History, points: Sequence[Params]) -> list[float]:
        """Values of the fit."""
        curve = self.fit(history)
        return [float(curve(point[self._param.key])) for point in points]

    def recommend(self, history: History) -> Params:
        """The highest peak of the fit, found by its derivative; the higher end where it has no peak."""
        curve = self.fit(history)
        slope = curve.deriv()
        roots = [float(np.real(root)) for root in np.atleast_1d(slope.roots()) if abs(np.imag(root)) < 1e-9]
        low, high = self._param.low, self._param.high
        peaks = [root for root in roots if low <= root <= high and slope.deriv()(root) < 0]
        highest = max(peaks or [float(low), float(high)], key=lambda at: float(curve(at)))
        return self.space.point(**{self._param.key: self._param.snap(highest)})
