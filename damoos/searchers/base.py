"""What a searcher is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from damoos.model.space import Params, Space
from damoos.model.trial import History, Trial


class Searcher(ABC):
    """Asks for points and recommends one; a pure function of (space, number of samples, seed, history).

    Nothing is remembered between calls, so a resumed study asks what an unbroken one would have.

    Parameters
    ----------
    space : Space
    nr_samples : int
        How many trials there will be.
    seed : int
    """

    name: str

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

    def estimate(self, history: History, points: Sequence[Params]) -> list[float] | None:
        """The searcher's idea of the score at some points, for figures; None where it has none."""
        return None

    def random(self, history: History) -> np.random.Generator:
        """Random numbers that depend on the seed and on how far the study is."""
        return np.random.default_rng([self.seed, len(history)])


def scored(history: History) -> list[Trial]:
    """Trials that have a score."""
    return [trial for trial in history if trial.score.value is not None]


def best(history: History) -> Trial:
    """The feasible trial with the highest score; ValueError where there is none."""
    return max((trial for trial in scored(history) if trial.score.feasible), key=lambda t: t.score.value or 0.0)
