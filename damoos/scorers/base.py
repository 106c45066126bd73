"""What a scorer is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from damoos.errors import MeasurementError
from damoos.model.trial import Measurement, Score
from damoos.scorers.terms import slowdown_margin

Direction = Literal["maximize", "minimize"]
# How long code of the user's may take for one score, in seconds.
LIMIT_S = 30.0


class Scorer(ABC):
    """Turns a measurement into a score; pure, so that a study can be scored again from its raw data.

    ``direction`` says which way is better, ``unit`` what a score of 1 is, ``shown_in`` the unit by which it is printed
    (one of `damoos.model.metrics`, empty for a plain number), ``needs`` which metrics of a run are read: a study whose
    workload or machine does not report one of them ends before its first run. A scorer that takes options
    (limits, weights, prices) takes them as keyword arguments.
    """

    name: str
    direction: Direction = "maximize"
    unit: str
    shown_in: str = ""
    needs: tuple[str, ...]
    # Options that name files. What such a file says is stored with a study, see `resolved`.
    file_options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options as a study stores them: with what their files say, in place of the files' names.

        A store can come from another person, so whoever looks at a study reads no file that it names.

        Raises
        ------
        ConfigError : such a file cannot be read
        """
        return dict(options)

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

    @property
    def max_slowdown(self) -> float:
        """Slowdown from which on a run breaks the limits whatever else it shows; infinite where there is none.

        A run that has certainly come this far is stopped.
        """
        return math.inf

    @property
    def every(self) -> frozenset[str]:
        """Limits that each run must keep, by their names in the margins; the others are for the mean of several runs.

        A run that is not feasible although no margin is negative has broken a limit of this kind.
        """
        return frozenset()

    def stopped(self, run: Measurement, baseline: Measurement) -> Score:
        """The score of a run that was stopped as too slow; its margins are upper bounds.

        Parameters
        ----------
        run : Measurement
            Its ``runtime_s`` is the time after which it was stopped, and its only metric.
        baseline : Measurement
        """
        return Score(None, feasible=False, margins=slowdown_margin(run, baseline, self.max_slowdown))


def within(parts: Mapping[str, float], margins: Mapping[str, float], name: str) -> Score:
    """The score that is the sum of its parts; without a value where a margin is negative.

    Raises
    ------
    MeasurementError : the sum is not finite
    """
    value = finite(sum(parts.values()), name)
    feasible = all(margin >= 0 for margin in margins.values())
    return Score(value if feasible else None, feasible, margins, parts)


def finite(value: float, name: str) -> float:
    """A score's value.

    Raises
    ------
    MeasurementError : it is not finite
    """
    if not math.isfinite(value):
        raise MeasurementError(f"scorer '{name}' returned {value}, which is not a score")
    return value
