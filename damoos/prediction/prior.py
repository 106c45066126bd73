"""What a recording lets one expect of a search before its first trial, and how the trials correct it.

The recording says how much a scheme would page out and how often that would be asked for again; the machine says what a
fault costs. Three things are not known: what paging costs this workload, how well DAMON's ages fit it once it is slowed
down, and how much of what looks cold is really resident. Each combination of some values of these is one account;
trials tell which accounts to believe, and where none of them fits, the prior is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from damoos.common.normal import log_density
from damoos.damon.scheme import parse_schemes
from damoos.damon.text import fill_template
from damoos.errors import SchemeError
from damoos.model.space import Params, Space
from damoos.model.trial import History, Measurement, Trial, orientation
from damoos.prediction.reclaim import Bounds, Cost, Reclaim, reclaim
from damoos.recordings.recording import Recording
from damoos.scorers import terms
from damoos.scorers.base import Scorer
from damoos.searchers.base import Expectation, Prior
from damoos.searchers.surrogate import used

Floats = NDArray[np.float64]
# What can be predicted of a run; a scorer that reads anything else gets no prior.
PREDICTED = frozenset({"runtime_s", "rss_avg_bytes", "rss_max_bytes"})
NR_AGES = 96
# Values of what is not known, and how far they are believed to lie from 1, as standard deviations of the logarithm.
COSTS, COST_DEVIATION = np.geomspace(0.25, 4.0, 9), 0.6
STRETCHES, STRETCH_DEVIATION = np.geomspace(0.5, 2.0, 5), 0.4
RESIDENT, RESIDENT_DEVIATION = np.array([0.7, 0.85, 0.95, 1.0, 1.1]), 0.15
# How far a measured run lies from its right account: absolute, and as a share of what is predicted.
SLOWDOWN_ERROR, SAVING_ERROR = (0.01, 0.25), (0.03, 0.1)
# Squared deviation per measured number beyond which an account does not fit.
UNFIT = 9.0


@dataclass(frozen=True)
class Prediction:
    """What a recording says of a range of ``min_age``, in numbers that a study's store can keep.

    Parameters
    ----------
    found : Reclaim
    cost : Cost
    runtime_s : float, seconds
        Of the recorded run, with DAMON's own cost in it.
    resolution_us : float, microseconds
        Ages under this are not seen apart: two aggregations.
    """

    found: Reclaim
    cost: Cost
    runtime_s: float
    resolution_us: float

    @classmethod
    def of(
        cls,
        recording: Recording,
        cost: Cost,
        runtime_s: float,
        low_us: float,
        high_us: float,
        bounds: Bounds | None = None,
    ) -> Prediction:
        """For ages of a range, and some beyond both ends."""
        floor = 2.0 * recording.attrs.aggr_us
        ages = np.concatenate([[0.0], np.geomspace(max(low_us / 2, floor), max(2 * high_us, 2 * floor), NR_AGES)])
        return cls(reclaim(recording, ages, cost, bounds), cost, runtime_s, floor)

    def to_json(self) -> dict[str, Any]:
        """Plain form for the store."""
        return {**vars(self), "found": self.found.to_json(), "cost": vars(self.cost)}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Prediction:
        """Read what `to_json` wrote."""
        return cls(**{**form, "found": Reclaim.from_json(form["found"]), "cost": Cost(**form["cost"])})

    def at(self, min_age_us: Floats, stretch: float = 1.0) -> tuple[Floats, Floats, Floats]:
        """Saving, share of the memory that is enough, and seconds that a run gets longer; between the known ages."""
        position = np.log1p(np.asarray(min_age_us) / stretch / 1e5)
        known = np.log1p(self.found.min_age_us / 1e5)
        columns = self.found.saving, self.found.peak, self.cost.seconds(self.found)
        saving, peak, longer_s = (np.interp(position, known, column) for column in columns)
        return saving, peak, longer_s


def can_predict(space: Space, scorer: Scorer) -> bool:
    """Whether a recording says anything of a search: one ``min_age`` of schemes that page out, and such a score."""
    if [param.key for param in space.params] != ["min_age_us"] or not set(scorer.needs) <= PREDICTED:
        return False
    try:
        schemes = parse_schemes(fill_template(space.template, space.texts(space.corners[-1])))
    except SchemeError:
        return False
    plain = all(scheme.action == "pageout" and scheme.pattern.max_freq == 0 for scheme in schemes)
    return plain and not any(scheme.quotas.time_ms or scheme.quotas.sz_bytes or scheme.filters for scheme in schemes)


class RecordedPrior(Prior):
    """A prediction as a searcher's prior.

    Parameters
    ----------
    prediction : Prediction
    baseline : Measurement
        Mean of the study's baselines before its first trial.
    scorer : Scorer
        Scores of one that minimises are turned round, as searchers want them.
    """

    def __init__(self, prediction: Prediction, baseline: Measurement, scorer: Scorer) -> None:
        self.prediction = prediction
        self.baseline = baseline
        self._scorer = scorer
        self._accounts = list(product(COSTS, STRETCHES, RESIDENT))
        chances = [
            log_density(np.log([cost, stretch, resident]) / _DEVIATIONS).sum()
            for cost, stretch, resident in self._accounts
        ]
        self._before = np.array(chances)
        self._known: dict[float, tuple[Floats, Floats, Floats]] = {}
        # Monitoring alone costs something; it is in the recorded run and not in the baseline.
        self._monitoring = max(0.0, prediction.runtime_s / baseline.metric("runtime_s") - 1)

    def expected(self, history: History, points: Sequence[Params]) -> Expectation | None:
        """Scores of each account, and how well the accounts fit what was measured.

        What breaks a limit for certain counts as the lowest score; None also where that is all that there is.
        """
        chances, fits = self._believed(history)
        if not fits:
            return None
        weights = np.exp(chances - chances.max())
        scored = [self._scored(float(point["min_age_us"])) for point in points]
        scores, kept, use = (np.array(rows).T for rows in zip(*scored, strict=True))
        if np.isnan(scores).all():
            return None
        scores = np.where(np.isnan(scores), np.nanmin(scores), scores)
        deviation = max(0.01, 0.02 * float(np.ptp(scores)))
        return Expectation(scores, kept, weights / weights.sum(), deviation, None if np.isnan(use).any() else use)

    def predicted(self, history: History, point: Params) -> dict[str, float] | None:
        """Slowdown, saving and score that are expected of a point; None once the prior is dropped."""
        expectation = self.expected(history, [point])
        if expectation is None:
            return None
        slowdown, saving = self._runs(float(point["min_age_us"]))
        sign = orientation(self._scorer.direction)
        return {
            "slowdown": float(expectation.weights @ slowdown),
            "memory_saving": float(expectation.weights @ saving),
            "score": sign * float(expectation.mean[0]),
            "chance": float(expectation.chance[0]),
        }

    def reach(self, point: Params, quantiles: Sequence[float]) -> tuple[list[float], list[float]]:
        """Quantiles of the slowdown and of the saving of a point before any trial."""
        weights = np.exp(self._before - self._before.max())
        slowdown, saving = (_quantiles(values, weights, quantiles) for values in self._runs(float(point["min_age_us"])))
        return slowdown, saving

    def _believed(self, history: History) -> tuple[Floats, bool]:
        """Log weights of the accounts, and whether any of them fits."""
        chances, misfit, numbers = self._before.copy(), np.zeros(len(self._accounts)), 0
        for trial in history:
            deviations = self._deviations(trial)
            if deviations is not None:
                chances -= (deviations**2).sum(axis=0) / 2
                misfit += (deviations**2).sum(axis=0)
                numbers += len(deviations)
        return chances, numbers == 0 or bool(misfit.min() / numbers < UNFIT)

    def _deviations(self, trial: Trial) -> Floats | None:
        """How far each account is from what a trial measured; nothing of one that failed."""
        slowdown, saving = self._runs(float(trial.params["min_age_us"]))
        error = _slowdown_error(slowdown)
        if trial.measurement is None:
            return None
        if trial.state == "censored":
            at_least = trial.measurement.metric("elapsed_s") / self.baseline.metric("runtime_s") - 1
            return np.array([np.maximum(0.0, at_least - slowdown) / error])
        if trial.state != "complete":
            return None
        measured = terms.slowdown(trial.measurement, self.baseline)
        saved = terms.memory_saving(trial.measurement, self.baseline)
        return np.array(
            [(measured - slowdown) / error, (saved - saving) / (SAVING_ERROR[0] + SAVING_ERROR[1] * saving)]
        )

    def _runs(self, min_age_us: float) -> tuple[Floats, Floats]:
        """Slowdown and saving by each account."""
        base_s = self.baseline.metric("runtime_s")
        slowdown, saving = [], []
        by_stretch = {stretch: self.prediction.at(np.array([min_age_us]), stretch) for stretch in STRETCHES}
        for cost, stretch, resident in self._accounts:
            saved, _, longer_s = by_stretch[stretch]
            slowdown.append(self._monitoring + cost * longer_s[0] / base_s)
            saving.append(min(0.99, resident * saved[0]))
        return np.array(slowdown), np.array(saving)

    def _scored(self, min_age_us: float) -> tuple[Floats, Floats, Floats]:
        """Score by each account, the chance that it keeps the limits, and how much of them is used up."""
        if min_age_us not in self._known:
            scored = np.array([self._score(*pair) for pair in zip(*self._runs(min_age_us), strict=True)])
            # Below its resolution a recording knows of no harm, which is no reason to try it.
            seen = min_age_us >= self.prediction.resolution_us
            self._known[min_age_us] = scored[:, 0], seen * scored[:, 1], scored[:, 2]
        return self._known[min_age_us]

    def _score(self, slowdown: float, saving: float) -> tuple[float, float, float]:
        """Score of a run that keeps the limit on slowdown, the chance that it does, and what it uses of all limits."""
        limit = self._scorer.max_slowdown
        margin = self._scorer.score(self._run(slowdown, saving), self.baseline, ()).margin
        use = math.nan if margin is None else used(margin)
        score = self._scorer.score(self._run(min(slowdown, 0.999 * limit), saving), self.baseline, ())
        if score.value is None or not score.feasible:  # another limit than that is broken, which no doubt would mend
            return math.nan, 0.0, use
        # ndtr is norm.cdf without the checks, which cost a hundred times as much as the number.
        chance = float(ndtr((limit - slowdown) / _slowdown_error(slowdown)))
        return orientation(self._scorer.direction) * score.value, chance, use

    def _run(self, slowdown: float, saving: float) -> Measurement:
        """A run with these."""
        base = self.baseline.metrics
        memory = {name: base[name] * (1 - saving) for name in ("rss_avg_bytes", "rss_max_bytes") if name in base}
        return replace(self.baseline, metrics={**base, "runtime_s": base["runtime_s"] * (1 + slowdown), **memory})


def _quantiles(values: Floats, weights: Floats, shares: Sequence[float]) -> list[float]:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return [float(values[order][min(int(np.searchsorted(reached, share)), len(order) - 1)]) for share in shares]


def _slowdown_error(slowdown: Any) -> Any:
    """How far a measured slowdown lies from a predicted one, as a standard deviation."""
    return SLOWDOWN_ERROR[0] + SLOWDOWN_ERROR[1] * np.abs(slowdown)


_DEVIATIONS = np.array([COST_DEVIATION, STRETCH_DEVIATION, RESIDENT_DEVIATION])
