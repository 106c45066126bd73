"""What a run measured, where, and what became of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from damoos.damon.stats import DamosStats
from damoos.errors import MeasurementError
from damoos.model.space import Params


@dataclass(frozen=True)
class Measurement:
    """One finished run.

    Parameters
    ----------
    metrics : mapping of str to float
        Names carry their units: ``runtime_s``, ``rss_avg_bytes`` …
    damos : tuple of DamosStats
        One per scheme; empty for a run without.
    provenance : mapping
        Machine, kernel, emulation, boot, what the kernel accepted, when.
    censored : bool
        The run was stopped before its end: its runtime is at least ``elapsed_s``, and no metric stands for a whole run.
    """

    metrics: Mapping[str, float]
    damos: tuple[DamosStats, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    censored: bool = False

    def metric(self, name: str) -> float:
        """A metric's value.

        Raises
        ------
        MeasurementError : it is missing or not finite
        """
        value = self.metrics.get(name)
        if value is None or not math.isfinite(value):
            raise MeasurementError(f"the run has no finite metric '{name}' (it is {value})")
        return value

    def to_json(self) -> dict[str, Any]:
        """Plain form for the store."""
        return {
            "metrics": dict(self.metrics),
            "damos": [stats.as_dict() for stats in self.damos],
            "provenance": dict(self.provenance),
            "censored": self.censored,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Measurement:
        """Read what `to_json` wrote."""
        damos = tuple(DamosStats(**fields) for fields in form["damos"])
        return cls(form["metrics"], damos, form["provenance"], form["censored"])


def mean_measurement(runs: Sequence[Measurement]) -> Measurement:
    """The mean of each metric that all runs have."""
    first, *others = runs
    common = [name for name in first.metrics if all(name in run.metrics for run in others)]
    means = {name: sum(run.metrics[name] for run in runs) / len(runs) for name in common}
    for name, mean in means.items():
        if not math.isfinite(mean):
            for run in runs:
                run.metric(name)  # says which one
    return Measurement(means)


@dataclass(frozen=True)
class RawSamples:
    """The time series of a run: ``columns`` names, ``rows`` of the same length."""

    columns: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Score:
    """A scorer's word on one measurement.

    Parameters
    ----------
    value : float or None
        In the scorer's unit; None where the scorer has no number to give.
    feasible : bool
        Whether the scorer's limits were kept.
    margins : mapping of str to float, dimensionless
        By limit: how far inside it the run lies, in units of the limit; negative where the run broke it. Those of a
        censored run are upper bounds. Empty where the scorer does not say.
    parts : mapping of str to float
        What the value is the sum of, known also for a run that broke the limits. Empty where the scorer does not say.
    """

    value: float | None
    feasible: bool
    margins: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def margin(self) -> float | None:
        """The smallest margin; None where there is none."""
        return min(self.margins.values(), default=None)

    @property
    def objective(self) -> float | None:
        """What the value would be if there were no limits; None where nobody knows."""
        if self.parts:
            return sum(self.parts.values())
        return self.value if self.feasible else None


@dataclass(frozen=True)
class Trial:
    """One point of the space that was tried.

    ``state`` is ``complete`` (it ran), ``censored`` (it was stopped once it had certainly broken the scorer's limit)
    or ``fail`` (the workload or the measurement failed; ``error`` says why).
    ``interval`` is the 95 % interval of the score, None where nothing tells the noise.
    """

    number: int
    params: Params
    state: str
    score: Score
    measurement: Measurement | None = None
    error: str = ""
    interval: tuple[float, float] | None = None


History = tuple[Trial, ...]


def orientation(direction: str) -> float:
    """1.0 where a higher score is better (``maximize``), -1.0 where a lower one is (``minimize``)."""
    return 1.0 if direction == "maximize" else -1.0


def best_of(scores: Iterable[float], direction: str) -> float | None:
    """The best of some scores; None where there is none."""
    sign = orientation(direction)
    return max(scores, key=lambda score: sign * score, default=None)


@dataclass(frozen=True)
class Run:
    """One entry of a study's plan, with what came of it. Runs are numbered in the order of the plan.

    ``kind`` is ``baseline``, ``trial`` or ``validation``; ``arm`` tells validation runs apart.
    """

    index: int
    kind: str
    number: int
    arm: str = ""
    params: Params | None = None
    measurement: Measurement | None = None
    error: str = ""

    @property
    def key(self) -> str:
        """Stable name inside the study, also the name of its raw data file."""
        return f"{self.kind}-{self.number:03d}" + (f"-{self.arm}" if self.arm else "")

    @property
    def host(self) -> str | None:
        """The one machine among several of the same name that it ran on; None if it did not, or nobody knows."""
        return self.measurement.provenance.get("host") if self.measurement else None

    def to_json(self) -> dict[str, Any]:
        """Plain form for the store."""
        fields = asdict(self) | {"params": None if self.params is None else dict(self.params)}
        return fields | {"measurement": self.measurement and self.measurement.to_json()}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Run:
        """Read what `to_json` wrote."""
        measurement = form["measurement"] and Measurement.from_json(form["measurement"])
        return cls(**{**form, "measurement": measurement})
