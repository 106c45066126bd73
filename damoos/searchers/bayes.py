"""Textbook Bayesian optimisation: a Gaussian process of the score, one of the limits, constrained improvement."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damoos.common.normal import expected_improvement
from damoos.model.space import Params
from damoos.model.trial import History
from damoos.searchers.base import Searcher, feasible, value
from damoos.searchers.surrogate import sobol

NR_FIRST = 4
NR_CANDIDATES = 256
Array = NDArray[np.float64]


class BayesSearcher(Searcher):
    """Asks where the expected improvement times the chance to keep the limits is largest.

    The score's process has a Matern 5/2 kernel and measurement noise, fitted by maximum likelihood; times and sizes are
    on a logarithmic scale. The limits have a process classifier of their own. The first points are those of a Sobol
    sequence.

    References
    ----------
    Gardner et al., Bayesian Optimization with Inequality Constraints (ICML 2014)
    """

    name = "bayes"
    deterministic = True

    def ask(self, history: History) -> Params:
        """The point with the largest constrained expected improvement."""
        tried = [trial.params for trial in history]
        bets = [point for point in self._candidates() if point not in tried]
        if not bets:
            return self.fresh_point(history, np.random.default_rng(len(history)))
        if len(history) < NR_FIRST or len(feasible(history)) < 2:
            return bets[0]
        at = self._places(bets)
        model = self._score_model(history)
        kept = self._places([trial.params for trial in feasible(history)])
        mean, deviation = model.predict(at, return_std=True)
        gain = mean - model.predict(kept).max()
        improvement = expected_improvement(gain, np.maximum(deviation, 1e-12))
        return bets[int(np.argmax(improvement * self._chances(history, at)))]

    def recommend(self, history: History) -> Params:
        """The tried point with the highest expected score among those that kept the limits."""
        points = [trial.params for trial in feasible(history)]
        return points[int(np.argmax(self.estimate(history, points)))]

    def estimate(self, history: History, points: Sequence[Params]) -> list[float]:
        """Expected scores."""
        if len(feasible(history)) < 2:
            return [value(feasible(history)[0])] * len(points)
        return [float(mean) for mean in self._score_model(history).predict(self._places(points))]

    def deviation(self, history: History, points: Sequence[Params]) -> list[float] | None:
        """Standard deviations of the Gaussian process."""
        if len(feasible(history)) < 2:
            return None
        _, deviations = self._score_model(history).predict(self._places(points), return_std=True)
        return [float(deviation) for deviation in deviations]

    def _candidates(self) -> list[Params]:
        drawn = sobol(len(self.space.params), NR_CANDIDATES)
        return self.space.distinct(drawn[1:])  # the first one is the corner where every parameter is lowest

    def _places(self, points: Sequence[Params]) -> Array:
        return np.array([self.space.to_unit(point) for point in points])

    def _score_model(self, history: History) -> Any:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        kept = feasible(history)
        kernel = ConstantKernel(1.0, (0.1, 10.0)) * Matern(0.3, (0.05, 2.0), nu=2.5) + WhiteKernel(0.05, (1e-4, 1.0))
        model = GaussianProcessRegressor(kernel, normalize_y=True)
        with warnings.catch_warnings():  # a length scale at the end of its bounds is no news with ten points
            warnings.simplefilter("ignore")
            return model.fit(self._places([t.params for t in kept]), np.array([value(t) for t in kept]))

    def _chances(self, history: History, at: Array) -> Array:
        from sklearn.gaussian_process import GaussianProcessClassifier
        from sklearn.gaussian_process.kernels import Matern

        kept = np.array([trial.score.feasible for trial in history])
        if kept.all():
            return np.ones(len(at))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GaussianProcessClassifier(2.0 * Matern(0.3, (0.05, 2.0), nu=1.5))
            model.fit(self._places([trial.params for trial in history]), kept)
            return np.asarray(model.predict_proba(at)[:, 1])
