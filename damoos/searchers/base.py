"""What a searcher is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from damoos.model.space import Params, Space
from damoos.model.trial import History, Trial


@dataclass(frozen=True)
class Expectation:
    """What several accounts of a workload say of some points, and how much each account is believed.

    Parameters
    ----------
    scores : ndarray of shape (accounts, points)
        Those of runs that keep the limits.
    kept : ndarray of shape (accounts, points)
        Chance that the limits are kept, 0 to 1.
    weights : ndarray of shape (accounts,)
        Sum up to 1.
    deviation : float, or ndarray of shape (points,)
        How far a measured score lies from that of the right account, as a standard deviation.
    used : ndarray of shape (accounts, points), or None
        How much of the limits is used up (`damoos.searchers.surrogate.used`); None where nobody says.
    """

    scores: NDArray[np.float64]
    kept: NDArray[np.float64]
    weights: NDArray[np.float64]
    deviation: float | NDArray[np.float64]
    used: NDArray[np.float64] | None = None

    @property
    def mean(self) -> NDArray[np.float64]:
        """Expected score of each point."""
        return np.asarray(self.weights @ self.scores)

    @property
    def chance(self) -> NDArray[np.float64]:
        """Chance of each point to keep the limits."""
        return np.asarray(self.weights @ self.kept)


class Prior(ABC):
    """What is expected of points before any was tried; it learns from those that were.

    ``is_doubted`` says that it is of something else, so that a search does not end by its word alone.
    """

    is_doubted = False

    @abstractmethod
    def expected(self, history: History, points: Sequence[Params]) -> Expectation | None:
        """What is expected of points; None once the history has contradicted all of it."""


class Searcher(ABC):
    """Asks for points and recommends one; a pure function of (space, number of samples, seed, history).

    What an object keeps between calls may make it quicker, never another searcher: a resumed study asks what an
    unbroken one would have. Higher scores are better here; a study turns those of a minimising scorer round.

    The history holds trials in the order in which they were asked. ``deterministic`` says that the seed plays no part.
    ``prior`` is what is expected beforehand, which most searchers have no use for.

    Parameters
    ----------
    space : Space
    nr_samples : int
        How many trials there will be.
    seed : int
    """

    name: str
    deterministic = False
    prior: Prior | None = None

    def __init__(self, space: Space, nr_samples: int, seed: int) -> None:
        self.space = space
        self.nr_samples = nr_samples
        self.seed = seed

    @abstractmethod
    def ask(self, history: History) -> Params:
        """The point to try next."""

    @abstractmethod
    def recommend(self, history: History) -> Params:
        """The point to put into service; needs at least one feasible trial in the history."""

    def is_done(self, history: History) -> bool:
        """Whether no further trial is expected to pay, so that the search ends before its last one."""
        return False

    def shortlist(self, history: History, count: int) -> list[Params]:
        """Different points worth a validation, best first: the recommended one, then those with the best scores."""
        points = [self.recommend(history)]
        for trial in sorted(feasible(history), key=lambda t: -value(t)):
            if trial.params not in points:
                points.append(trial.params)
        return points[:count]

    def estimate(self, history: History, points: Sequence[Params]) -> list[float] | None:
        """The searcher's idea of the score at some points, for figures; None where it has none."""
        return None

    def deviation(self, history: History, points: Sequence[Params]) -> list[float] | None:
        """How far scores may lie from `estimate`, as standard deviations; None where it has no idea."""
        return None

    def random(self, history: History) -> np.random.Generator:
        """Random numbers that depend on the seed and on how far the study is."""
        return np.random.default_rng([self.seed, len(history)])

    def any_point(self, random: np.random.Generator) -> Params:
        """A point of the grid, each with the same chance."""
        return {
            param.key: param.low + param.step * int(random.integers(param.nr_steps + 1)) for param in self.space.params
        }

    def fresh_point(self, history: History, random: np.random.Generator) -> Params:
        """A random point that has not been tried, as long as there is one."""
        tried = [trial.params for trial in history]
        for _ in range(100):
            point = self.any_point(random)
            if point not in tried:
                break
        return point


def scored(history: History) -> list[Trial]:
    """Trials that have a score."""
    return [trial for trial in history if trial.score.value is not None]


def feasible(history: History) -> list[Trial]:
    """Trials that have a score and kept the limits."""
    return [trial for trial in scored(history) if trial.score.feasible]


def infeasible(history: History) -> list[Trial]:
    """Trials that ran and broke the limits, or failed."""
    return [trial for trial in history if not trial.score.feasible]


def value(trial: Trial) -> float:
    """Score of a trial that has one."""
    assert trial.score.value is not None
    return trial.score.value


def best(history: History) -> Trial:
    """The feasible trial with the highest score; ValueError where there is none."""
    return max(feasible(history), key=value)
