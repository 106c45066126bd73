"""What reclaim would bring, from one recording and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from damoos import scorers
from damoos.errors import ConfigError
from damoos.model.trial import Measurement
from damoos.prediction.prior import PREDICTED, Prediction, RecordedPrior
from damoos.prediction.reclaim import Cost
from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Recording

# What a recording of damoos's tells of its run, and the metrics that a prediction is computed from.
_NEEDED = {"metrics", "low_us", "high_us"}
_METRICS = {"runtime_s", "kdamond_cpu_s", "rss_avg_bytes", "rss_max_bytes"}
# At most so many ages are shown.
NR_ROWS = 12


@dataclass(frozen=True)
class Forecast:
    """What a scheme with each ``min_age`` is expected to do; ``low`` and ``high`` hold 80 % of what is believed.

    Parameters
    ----------
    min_age_s : float, seconds
    memory_saving, peak : float
        Shares of the memory that is resident without a scheme: what is saved on average, and what is enough for 95 % of
        the time.
    memory_saving_low, memory_saving_high : float
    slowdown, slowdown_low, slowdown_high : float
        As likely exceeded as not; the mean would be that of a few accounts in which the workload thrashes.
    score : float or None
        None where the limits are likely broken, or the scorer was not asked.
    """

    min_age_s: float
    memory_saving: float
    peak: float
    slowdown: float
    slowdown_low: float
    slowdown_high: float
    score: float | None
    chance: float
    memory_saving_low: float
    memory_saving_high: float


@names_damage
def forecast(recording: Recording, scorer: str = "daos", options: Mapping[str, Any] | None = None) -> list[Forecast]:
    """The whole range of ``min_age``, from a recording alone.

    Raises
    ------
    ConfigError : the recording is not one of damoos's, or the score is of something that cannot be predicted
    """
    scoring = scorers.scorer(scorer, dict(options or {}))
    prediction, base = basis(recording)
    unknown = [name for name in scoring.needs if name not in PREDICTED]
    if unknown:
        raise ConfigError(f"score '{scorer}' reads '{unknown[0]}', which a recording does not predict; --score daos")
    prior = RecordedPrior(prediction, base, scoring)
    low_us, high_us = recording.about["low_us"], recording.about["high_us"]
    step_us = recording.attrs.aggr_us
    ages = np.geomspace(max(low_us, 2 * step_us), high_us, NR_ROWS) / step_us
    return [_forecast(prior, int(age) * step_us) for age in np.unique(np.rint(ages))]


@names_damage
def basis(recording: Recording) -> tuple[Prediction, Measurement]:
    """What a recording foretells, and the run without monitoring that it foretells it of.

    Raises
    ------
    ConfigError : the recording is not one of damoos's, or of a machine without swap
    """
    about = recording.about
    if not (_NEEDED.issubset(about) and _METRICS.issubset(about["metrics"])):
        raise ConfigError("this recording lacks the measurement of its run; make one with 'damoos record'")
    if not about.get("cost"):
        raise ConfigError("this recording is of a machine without swap, so the cost of a page fault is unknown")
    metrics, cost = dict(about["metrics"]), Cost(**about["cost"])
    runtime_s = metrics["runtime_s"]
    # There was no run without monitoring; what the kdamond took of the only CPU is what monitoring cost.
    metrics["runtime_s"] = runtime_s - cost.shared * metrics["kdamond_cpu_s"]
    prediction = Prediction.of(recording, cost, runtime_s, about["low_us"], about["high_us"])
    return prediction, Measurement(metrics)


def _forecast(prior: RecordedPrior, age_us: int) -> Forecast:
    point = {"min_age_us": age_us}
    predicted = prior.predicted((), point)
    assert predicted is not None  # nothing has contradicted it yet
    (low, middle, high), (least, _, most) = prior.reach(point, (0.1, 0.5, 0.9))
    peak = float(prior.prediction.at(np.array([age_us]))[1][0])
    score = predicted["score"] if predicted["chance"] >= 0.5 else None
    return Forecast(
        age_us / 1e6, predicted["memory_saving"], peak, middle, low, high, score, predicted["chance"], least, most
    )


@dataclass(frozen=True)
class Size:
    """How much memory a workload needs for a slowdown that is allowed.

    Parameters
    ----------
    memory_bytes, now_bytes : int
        Enough for what stays resident under the scheme for 95 % of the time; the most without one.
    charged_bytes : int
        What is charged to the workload beyond what is resident, at its peak: file cache that is not mapped, memory of
        the kernel for it. A limit of a cgroup has to hold it, too.
    min_age_s : float, seconds
        Of the scheme that it takes.
    slowdown, slowdown_high : float
        As likely exceeded as not, and with 90 % not exceeded.
    """

    memory_bytes: int
    now_bytes: int
    min_age_s: float
    slowdown: float
    slowdown_high: float
    charged_bytes: int = 0

    @property
    def limit_bytes(self) -> int:
        """The limit of a cgroup that is enough."""
        return self.memory_bytes + self.charged_bytes

    @property
    def scheme(self) -> str:
        """The scheme that it takes; empty where none keeps the slowdown."""
        return f"4K max  min min  {self.min_age_s:g}s max  pageout" if math.isfinite(self.min_age_s) else ""


@names_damage
def rightsize(recording: Recording, slowdown: float) -> Size:
    """The smallest memory whose slowdown stays under a bound with 90 %; all of it where no scheme does.

    Parameters
    ----------
    slowdown : float
        Allowed, for example 0.05.
    """
    rows = forecast(recording, "weighted", {"limits": ()})
    metrics = recording.about["metrics"]
    now = int(metrics["rss_max_bytes"])
    charged = max(0, int(metrics.get("memory_max_bytes", now)) - now)
    sizes = [Size(round(now * row.peak), now, row.min_age_s, row.slowdown, row.slowdown_high, charged) for row in rows]
    kept = [size for size in sizes if size.slowdown_high <= slowdown]
    return min(
        kept,
        key=lambda size: (size.memory_bytes, size.slowdown),
        default=Size(now, now, float("inf"), 0.0, 0.0, charged),
    )
