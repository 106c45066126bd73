"""What `auto` believes of a response: a Gaussian process averaged over its settings, and a chance to keep the limits.

With five points no setting of a Gaussian process can be told to be right, so none is chosen: every combination of a
few length scales and noise levels is weighed by how well it explains the points (its marginal likelihood, with
amplitude and mean integrated out). This also tells noise from structure without repeated runs.

References
----------
Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 2.7 and 5.4
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from damoos.common.normal import expected_improvement
from damoos.model.space import Space

Array = NDArray[np.float64]

# Up to this share of a limit the scale of what is used of it is linear.
LINEAR_UP_TO = 0.2
# In units of the cube's edge, by the number of parameters: each parameter has a scale of its own, and one that matters
# little has a long one.
LENGTH_SCALES: dict[int, tuple[float, ...]] = {
    1: (0.05, 0.15, 0.45),
    2: (0.15, 0.45, 1.35, 4.0),
    3: (0.2, 0.7, 2.5),
    4: (0.3, 1.0, 4.0),
}
# Of more parameters.
FEW_SCALES = (0.4, 2.5)
# Settings whose weights sum up to this share are enough to predict with, and no more than so many.
SHARE, NR_SETTINGS = 0.999, 32
# So many values tell what lies above bounds.
LEAST_MEASURED = 2
# Models that are kept: an ask puts two questions to those of the score and of the limits.
NR_KEPT = 4
# Variance, over that of what is smooth, of a linear trend across the whole edge of each parameter. Several parameters
# leave too few points for each to show where a response only rises or falls, as those of schemes mostly do.
TREND = 4.0
# Variance that is not smooth over the variance that is.
ROUGHNESS = (0.001, 0.01, 0.1, 1.0, 10.0)
# How much of what is not smooth belongs to the point (the response is not smooth there, a second run would show it
# again) and not to the run. Only repeated runs could tell; without them a fifth is assumed.
OWN_SHARE = 0.2
# The chance to keep the limits falls from one to the other end of a border about linearly; far from all points most
# settings keep them.
FEASIBLE_REACH = 1.0
FEASIBLE_PRIOR = 0.8
FEASIBLE_DOUBT = 0.05


def columns(space: Space) -> list[int]:
    """The parameter that each dimension of `places` belongs to."""
    return [n for n, param in enumerate(space.params) for _ in range(len(param.choices) or 1)]


def places(space: Space, points: Sequence[Mapping[str, float]]) -> Array:
    """Places of points for distances: the unit cube, with any two words of a choice one edge apart."""
    rows = []
    for point in points:
        row: list[float] = []
        for param in space.params:
            if param.choices:
                row += [math.sqrt(0.5) * (point[param.key] == n) for n in range(len(param.choices))]
            else:
                row.append(param.to_unit(point[param.key]))
        rows.append(row)
    return np.array(rows)


def used(margin: float) -> float:
    """How much of a limit is used up; logarithmic except near 0, because what a scheme costs grows by factors."""
    return math.asinh((1 - margin) / LINEAR_UP_TO)


def share_used(use: float) -> float:
    """The share of a limit that is used up, from `used`: 1 is at the limit."""
    return LINEAR_UP_TO * math.sinh(use)


def distances(a: Array, b: Array) -> Array:
    """Euclidean distances, shape (len(a), len(b)), of points of shape (count, dimensions)."""
    return np.asarray(np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=-1)))


def matern(distance: Array, length: float) -> Array:
    """The Matern 5/2 correlation."""
    r = np.sqrt(5.0) * distance / length
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))


@dataclass(frozen=True)
class Belief:
    """What is believed of some points: one row per setting of the process, with the weight of each setting."""

    means: Array
    deviations: Array
    weights: Array

    @property
    def mean(self) -> Array:
        """Expected score of each point, averaged over the settings."""
        return np.asarray(self.weights @ self.means)

    @property
    def deviation(self) -> Array:
        """Standard deviation of each point: of every setting, and of the settings from each other."""
        spread = self.weights @ (self.deviations**2 + (self.means - self.mean) ** 2)
        return np.asarray(np.sqrt(spread))

    def mean_above(self, bounds: Array) -> Array:
        """Expected score of each point, given that it is at least so much."""
        z = np.maximum((bounds - self.mean) / self.deviation, -8.0)
        # Mills's ratio, which far above the mean is 1 / z.
        above = np.exp(-z * z / 2 - log_ndtr(-z)) / math.sqrt(2 * math.pi)
        return np.asarray(np.maximum(bounds, self.mean + self.deviation * above))

    def expected_improvement(self, over: float) -> Array:
        """By how much each point is expected to be better than a score."""
        return np.asarray(self.weights @ expected_improvement(self.means - over, self.deviations))


@dataclass(frozen=True)
class Model:
    """What was measured of a response, ready to be asked for a belief at any points.

    Parameters
    ----------
    x : ndarray of shape (n, dimensions)
    columns : sequence of int or None
        The parameter that each dimension belongs to; None for one parameter.
    centre, spread : float
        Of what was measured.
    lengths : ndarray of shape (settings, parameters)
    own : ndarray of shape (settings,)
        Variance that belongs to each point.
    root, ones, rest, mean, mass, rate, weights : ndarray, one entry for each setting
        Rasmussen and Williams, section 2.7, with the mean integrated out.
    shape : float
    """

    x: Array
    columns: Sequence[int] | None
    centre: float
    spread: float
    lengths: Array
    own: Array
    root: Array
    ones: Array
    rest: Array
    mean: Array
    mass: Array
    rate: Array
    weights: Array
    shape: float

    def at(self, places: Array) -> Belief:
        """Belief at places, shape (m, dimensions)."""
        across = _apart(self.x, places, self.columns)
        same = (across.sum(axis=0) < 1e-18).astype(float)
        smooth = matern(np.sqrt(np.einsum("pij,sp->sij", across, self.lengths**-2.0)), 1.0)
        correlation = smooth + _trend(self.x, places, len(across)) + self.own[:, None, None] * same
        cross = np.linalg.solve(self.root, correlation)
        slope = (TREND if len(across) > 1 else 0.0) * ((places - 0.5) ** 2).sum(axis=1)
        variance = 1 + slope + self.own[:, None] - (cross**2).sum(axis=1)
        variance += (1 - np.einsum("si,sij->sj", self.ones, cross)) ** 2 / self.mass[:, None]
        means = self.centre + self.spread * (self.mean[:, None] + np.einsum("si,sij->sj", self.rest, cross))
        scale = self.spread * np.sqrt(self.rate / self.shape)
        return Belief(means, scale[:, None] * np.sqrt(np.maximum(variance, 1e-10)), self.weights)


def fit(x: Array, y: Array, columns: Sequence[int] | None = None, most: int = NR_SETTINGS) -> Model:
    """The model of a response.

    Parameters
    ----------
    x : ndarray of shape (n, dimensions)
        Points where it was measured.
    y : ndarray of shape (n,)
        What was measured.
    columns : sequence of int or None
        The parameter that each dimension belongs to; None for one parameter.
    most : int
        How many settings are kept, the heaviest first.
    """
    centre, spread = float(y.mean()), float(y.std()) or 1.0
    z = (y - centre) / spread
    within = _apart(x, x, columns)
    lengths, rough = settings(len(within))
    n, own = len(y), OWN_SHARE * rough
    same = (within.sum(axis=0) < 1e-18).astype(float)
    smooth = matern(np.sqrt(np.einsum("pij,sp->sij", within, lengths**-2.0)), 1.0)
    smooth += _trend(x, x, len(within))
    cov = smooth + own[:, None, None] * same + (rough - own + 1e-8)[:, None, None] * np.eye(n)
    root = np.linalg.cholesky(cov)
    solved = np.linalg.solve(root, np.broadcast_to(np.column_stack([np.ones(n), z]), (len(root), n, 2)))
    ones, seen = solved[:, :, 0], solved[:, :, 1]
    mass = (ones**2).sum(axis=1)
    mean = (ones * seen).sum(axis=1) / mass
    rest = seen - mean[:, None] * ones
    # An inverse gamma prior on the amplitude: half of the variance of the scores, weighing as one point.
    prior = 0.5 / (1 + rough)
    shape, rate = 1 + (n - 1) / 2, prior + (rest**2).sum(axis=1) / 2
    evidence = -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1) - np.log(mass) / 2
    evidence += np.log(prior) - shape * np.log(rate)
    weights = np.exp(evidence - evidence.max())
    k = _heaviest(weights, most)
    return Model(
        x, columns, centre, spread, lengths[k], own[k], root[k], ones[k], rest[k], mean[k], mass[k], rate[k],
        weights[k] / weights[k].sum(), shape,
    )  # fmt: skip


def believe(x: Array, y: Array, at: Array, columns: Sequence[int] | None = None) -> Belief:
    """Belief of a response at some points: that of its model (`fit`)."""
    return _fitted(x.tobytes(), x.shape, y.tobytes(), None if columns is None else tuple(columns)).at(at)


def believe_bounds(x: Array, y: Array, is_bound: NDArray[np.bool_], columns: Sequence[int] | None = None) -> Array:
    """What was measured, with what lies above a bound taken for what is expected there.

    Of a run that was stopped only a lower bound is known. To take it for the value would hide how steep the response
    is, and how soon a limit is broken.

    Parameters
    ----------
    x : ndarray of shape (n, dimensions)
    y : ndarray of shape (n,)
    is_bound : ndarray of shape (n,), bool
        Whether the value is at least so much.
    columns : sequence of int or None
        As for `fit`.

    References
    ----------
    Tobin, Estimation of relationships for limited dependent variables (1958); the first step of Dempster, Laird, Rubin
    (1977)
    """
    if not is_bound.any() or np.count_nonzero(~is_bound) < LEAST_MEASURED:
        return y
    filled = y.copy()
    filled[is_bound] = believe(x[~is_bound], y[~is_bound], x[is_bound], columns).mean_above(y[is_bound])
    return filled


@lru_cache(NR_KEPT)
def _fitted(x: bytes, shape: tuple[int, int], y: bytes, columns: tuple[int, ...] | None) -> Model:
    """The model of a response, kept for who asks it about other points next."""
    return fit(np.frombuffer(x).reshape(shape), np.frombuffer(y), columns)


def _trend(a: Array, b: Array, nr_params: int) -> Array:
    """What a linear trend adds to the correlation of points, shape (len(a), len(b)); nothing with one parameter."""
    return (TREND if nr_params > 1 else 0.0) * ((a - 0.5) @ (b - 0.5).T)


def _apart(a: Array, b: Array, columns: Sequence[int] | None) -> Array:
    """Squared distances by parameter, shape (parameters, len(a), len(b))."""
    squares = (a[:, None, :] - b[None, :, :]) ** 2
    owners = np.zeros(a.shape[1], dtype=int) if columns is None else np.asarray(columns)
    return np.array([squares[:, :, owners == number].sum(axis=2) for number in range(owners.max() + 1)])


@cache
def settings(nr_params: int) -> tuple[Array, Array]:
    """All combinations: length scales of shape (settings, parameters), and roughness of shape (settings,)."""
    scales = LENGTH_SCALES.get(nr_params, FEW_SCALES)
    both = [(*lengths, rough) for lengths in product(scales, repeat=nr_params) for rough in ROUGHNESS]
    return np.array(both)[:, :-1], np.array(both)[:, -1]


def _heaviest(weights: Array, most: int) -> NDArray[np.int_]:
    """The settings that nearly all of the weight lies on; all of them where they are few."""
    if len(weights) <= most:
        return np.arange(len(weights))
    order = np.argsort(-weights, kind="stable")
    count = int(np.searchsorted(np.cumsum(weights[order]), SHARE * weights.sum())) + 1
    return order[: min(count, most)]


def chance_feasible(x: Array, kept: NDArray[np.bool_], at: Array) -> Array:
    """Chance of each point to keep the limits, from points that kept them or did not.

    Parameters
    ----------
    x : ndarray of shape (n, dimensions)
    kept : ndarray of shape (n,), bool
    at : ndarray of shape (m, dimensions)
    """
    if kept.all():
        return np.ones(len(at))
    prior = 2 * FEASIBLE_PRIOR - 1
    cov = np.exp(-distances(x, x) / FEASIBLE_REACH) + FEASIBLE_DOUBT * np.eye(len(x))
    weights = np.linalg.solve(cov, np.where(kept, 1.0, -1.0) - prior)
    expected = prior + np.exp(-distances(at, x) / FEASIBLE_REACH) @ weights
    return np.asarray(np.clip((1 + expected) / 2, 0.01, 1.0))


def sobol(dimensions: int, count: int) -> Array:
    """The first points of the Sobol sequence."""
    from scipy.stats import qmc  # takes half a second to import, which other commands are spared

    drawn = qmc.Sobol(dimensions, scramble=False).random_base2(max(1, math.ceil(math.log2(count))))
    return np.asarray(drawn[:count])
