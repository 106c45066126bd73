"""What finished studies of the same workload let one expect of a search before its first trial.

On another machine, kernel or input a scheme costs more or less, the workload is faster or slower, and saves more or
less. Each combination of some values of these, for each finished study, is one account; trials tell which accounts to
believe, and where none of them fits, the prior is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from damoos.common.normal import log_density
from damoos.model.space import Params, Space
from damoos.model.trial import History
from damoos.searchers.base import Expectation, Prior
from damoos.searchers.surrogate import Model, columns, fit, places, used

Floats = NDArray[np.float64]
# Factors on what a scheme uses of the limits, on the workload's times, and on what a scheme gains; and how far they are
# believed to lie from 1, as standard deviations of the logarithm.
COSTS, COST_DEVIATION = np.geomspace(1 / 4, 4, 9), 0.6
STRETCHES, STRETCH_DEVIATION = np.geomspace(0.6, 1 / 0.6, 5), 0.25
GAINS, GAIN_DEVIATION = np.array([0.7, 0.85, 1.0, 1.15]), 0.15
# How far a measured run lies from its right account: its gain as a share of the largest one, its use of the limits on
# the scale of `damoos.searchers.surrogate.used`.
GAIN_ERROR, USED_ERROR = 0.04, 0.4
# Squared deviation per measured number beyond which an account does not fit.
UNFIT = 4.0
# Settings of the processes that model a study; a prior need not be as good as what is measured.
NR_SETTINGS = 4
# Fewer points than these tell no shape.
MIN_POINTS = 3


@dataclass(frozen=True)
class Experience:
    """What a finished study knows, in numbers that another study's store can keep.

    Parameters
    ----------
    study : str
    where : str
        Its machine and kernel.
    variant : str
        ``real`` or ``model``: one tells nothing of the other.
    points : sequence of mapping
    gains : sequence of float or None
        Of each point: the score without limits less that of leaving it alone, higher is better; in units of the latter
        where that is not 0. None for a run that was stopped.
    margins : sequence of float
        Of each point to the tightest limit; an upper bound for a run that was stopped.
    """

    study: str
    where: str
    variant: str
    points: Sequence[Mapping[str, int]]
    gains: Sequence[float | None]
    margins: Sequence[float]

    @property
    def is_enough(self) -> bool:
        """Whether it has points enough to tell a shape."""
        return sum(gain is not None for gain in self.gains) >= MIN_POINTS

    def to_json(self) -> dict[str, Any]:
        """Plain form for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Experience:
        """Read what `to_json` wrote."""
        return cls(**form)

    @classmethod
    def of(cls, study: str, where: str, variant: str, history: History, usual: float) -> Experience:
        """That of a study's history.

        Parameters
        ----------
        history : History
            As searchers are shown it.
        usual : float
            The score of leaving it alone, oriented in the same way.
        """
        told = [trial for trial in history if trial.score.margin is not None]
        gains = [None if trial.score.objective is None else gain(trial.score.objective, usual) for trial in told]
        margins = [trial.score.margin or 0.0 for trial in told]
        return cls(study, where, variant, [dict(trial.params) for trial in told], gains, margins)


def gain(objective: float, usual: float) -> float:
    """A score against that of leaving it alone; in units of the latter where that is not 0."""
    return (objective - usual) / (abs(usual) or 1.0)


class TransferPrior(Prior):
    """Finished studies as a searcher's prior.

    Parameters
    ----------
    experiences : sequence of Experience
        Each of them enough.
    space : Space
        That is searched; the studies searched the same parameters.
    usual : float
        The score of leaving the workload alone here, oriented as searchers want it.
    """

    is_doubted = True

    def __init__(self, experiences: Sequence[Experience], space: Space, usual: float) -> None:
        self._space, self._usual = space, usual
        self._models = [_models(experience, space) for experience in experiences]
        factors = np.array(list(product(np.log(COSTS), np.log(GAINS))))
        prior = log_density(factors / (COST_DEVIATION, GAIN_DEVIATION)).sum(axis=1)
        stretch = log_density(np.log(STRETCHES) / STRETCH_DEVIATION)
        # Accounts are ordered by study, stretch, and the two factors.
        self._before = np.tile((stretch[:, None] + prior[None, :]).ravel(), len(experiences))
        self._costs, self._gains = np.exp(factors).T
        self._known: dict[tuple[tuple[str, int], ...], Floats] = {}

    def expected(self, history: History, points: Sequence[Params]) -> Expectation | None:
        """Scores and use of the limits by each account, and how well the accounts fit what was measured."""
        weights = self.weights(history)
        if weights is None:
            return None
        gains, use, gain_error, use_error = self._accounts(points)
        kept = ndtr((used(0.0) - use) / use_error)
        scores = self._usual + (abs(self._usual) or 1.0) * gains
        return Expectation(scores, kept, weights, np.sqrt(weights @ gain_error**2), use)

    def shares(self, history: History) -> list[float] | None:
        """How much each study is believed, 0 to 1; None once all of them are contradicted."""
        weights = self.weights(history)
        return None if weights is None else [float(part.sum()) for part in np.split(weights, len(self._models))]

    def weights(self, history: History) -> Floats | None:
        """How much each account is believed; None once none of them fits."""
        chances, misfit, numbers = self._before.copy(), np.zeros(len(self._before)), 0
        told = [trial for trial in history if trial.score.margin is not None]
        gains, use, gain_error, use_error = self._accounts([trial.params for trial in told])
        for n, trial in enumerate(told):
            deviation = (used(trial.score.margin or 0.0) - use[:, n]) / use_error[:, n]
            if trial.state == "censored":  # it used at least so much
                chances += log_ndtr(-deviation)
                misfit += np.maximum(0.0, deviation) ** 2
            else:
                chances -= deviation**2 / 2 + np.log(use_error[:, n])
                misfit += deviation**2
            numbers += 1
            if trial.score.objective is not None:
                deviation = (gain(trial.score.objective, self._usual) - gains[:, n]) / gain_error[:, n]
                chances -= deviation**2 / 2 + np.log(gain_error[:, n])
                misfit += deviation**2
                numbers += 1
        if numbers and misfit.min() / numbers > UNFIT:
            return None
        weights = np.exp(chances - chances.max())
        return np.asarray(weights / weights.sum())

    def _accounts(self, points: Sequence[Params]) -> Floats:
        """Gains, use of the limits, and the errors of both: of shape (4, accounts, points)."""
        told = self._told(points)
        # (4, studies times stretches, factors, points)
        rows = np.repeat(told[:, :, None, :], len(self._costs), axis=2)
        rows[0] *= self._gains[:, None]
        rows[1] = np.arcsinh(self._costs[:, None] * np.sinh(rows[1]))
        return rows.reshape(4, len(self._before), len(points))

    def _told(self, points: Sequence[Params]) -> Floats:
        """What the studies tell of points: as `_accounts`, for each study and stretch, without factors."""
        fresh = list(
            {tuple(point.items()): point for point in points if tuple(point.items()) not in self._known}.items()
        )
        if fresh:
            rows = []
            for (gains, use), stretch in product(self._models, STRETCHES):
                at = places(self._space, [_stretched(self._space, point, stretch) for _, point in fresh])
                gain_at, use_at = gains.at(at), use.at(at)
                gain_error = np.hypot(GAIN_ERROR * (gains.spread + abs(gains.centre)), gain_at.deviation)
                rows.append([gain_at.mean, use_at.mean, gain_error, np.hypot(USED_ERROR, use_at.deviation)])
            columns = np.array(rows).transpose(2, 1, 0)
            self._known |= {key: column for (key, _), column in zip(fresh, columns, strict=True)}
        empty = np.zeros((0, 4, len(self._models) * len(STRETCHES)))
        return np.array([self._known[tuple(point.items())] for point in points] or empty).transpose(1, 2, 0)


def _models(experience: Experience, space: Space) -> tuple[Model, Model]:
    """Models of the gain and of the use of the limits."""
    scored = [n for n, value in enumerate(experience.gains) if value is not None]
    at, owner = places(space, experience.points), columns(space)
    gains = np.array([experience.gains[n] for n in scored], dtype=float)
    use = np.array([used(margin) for margin in experience.margins])
    return fit(at[scored], gains, owner, NR_SETTINGS), fit(at, use, owner, NR_SETTINGS)


def _stretched(space: Space, point: Params, stretch: float) -> dict[str, float]:
    """Where a point of this workload lies on that of a study whose times are this much shorter."""
    return {p.key: point[p.key] / stretch if p.unit == "us" else point[p.key] for p in space.params}
