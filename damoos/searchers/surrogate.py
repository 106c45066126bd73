"""What `auto` believes of a response: a Gaussian process averaged over its settings, and a chance to keep the limits.

With five points no setting of a Gaussian process can be told to be right, so none is chosen: every combination of a
few length scales and noise levels is weighed by how well it explains the points (its marginal likelihood, with
amplitude and mean integrated out). This also tells noise from structure without repeated runs.

References
----------
Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 2.7 and 5.4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.stats import norm

Array = NDArray[np.float64]

# In units of the cube's edge; each is three times the one before it.
LENGTH_SCALES = (0.05, 0.15, 0.45)
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

    def expected_improvement(self, over: float) -> Array:
        """By how much each point is expected to be better than a score."""
        gain = self.means - over
        z = gain / self.deviations
        return np.asarray(self.weights @ (self.deviations * norm.pdf(z) + gain * norm.cdf(z)))


def believe(x: Array, y: Array, at: Array) -> Belief:
    """Belief of the scores at some points.

    Parameters
    ----------
    x : ndarray of shape (n, dimensions)
        Points with a score.
    y : ndarray of shape (n,)
        Their scores.
    at : ndarray of shape (m, dimensions)
    """
    n, centre, spread = len(y), float(y.mean()), float(y.std()) or 1.0
    z = (y - centre) / spread
    within, across = distances(x, x), distances(x, at)
    same_within, same_across = within < 1e-9, across < 1e-9
    means, deviations, evidence = [], [], []
    for length in LENGTH_SCALES:
        smooth, smooth_across = matern(within, length), matern(across, length)
        for rough in ROUGHNESS:
            own = OWN_SHARE * rough
            cov = smooth + own * same_within + ((rough - own) + 1e-8) * np.eye(n)
            root = np.linalg.cholesky(cov)
            right = np.column_stack([np.ones(n), z, smooth_across + own * same_across])
            solved = solve_triangular(root, right, lower=True)
            ones, seen, cross = solved[:, 0], solved[:, 1], solved[:, 2:]
            mass = ones @ ones
            mean = (ones @ seen) / mass
            rest = seen - mean * ones
            # An inverse gamma prior on the amplitude: half of the variance of the scores, weighing as one point.
            prior = 0.5 / (1 + rough)
            shape, rate = 1 + (n - 1) / 2, prior + (rest @ rest) / 2
            evidence.append(-np.log(np.diag(root)).sum() - np.log(mass) / 2 - shape * np.log(rate) + np.log(prior))
            variance = 1 + own - (cross**2).sum(axis=0) + (1 - ones @ cross) ** 2 / mass
            means.append(centre + spread * (mean + rest @ cross))
            deviations.append(spread * np.sqrt(np.maximum(variance, 1e-10) * rate / shape))
    weights = np.exp(np.array(evidence) - max(evidence))
    return Belief(np.array(means), np.array(deviations), weights / weights.sum())


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
