"""What a scorer is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from damoos.model.trial import Measurement, Score


class Scorer(ABC):
    """Turns a measurement into a score; pure, so that a study can be scored again from its raw data.

    ``direction`` says which way is better, ``unit`` what a score of 1 is, ``needs`` which metrics are read.
    """

    name: str
    direction: Literal["maximize", "minimize"] = "maximize"
    unit: str
    needs: tuple[str, ...]

    @abstractmethod
    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """Score a run against its baseline.

        Parameters
        ----------
        run, baseline : Measurement
        previous : sequence of float
            Scores of the feasible runs before this one, in order.

        Raises
        ------
        MeasurementError : a metric that it needs is missing or not finite
        """
