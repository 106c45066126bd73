"""A weighted sum of metrics, within limits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from damoos.errors import ConfigError
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import within
from damoos.scorers.limited import LimitedScorer
from damoos.scorers.terms import term


class WeightedScorer(LimitedScorer):
    """``sum(weight * term)``, to be maximised; what is bad gets a negative weight.

    Parameters
    ----------
    weights : sequence of str
        For example ``memory_saving=0.7``, ``speedup=0.3``.
    limits : sequence of str
        As those of `damoos.scorers.sla.SlaScorer`.
    """

    name = "weighted"

    def __init__(
        self,
        weights: Sequence[str] = ("memory_saving=0.5", "speedup=0.5"),
        limits: Sequence[str] = ("slowdown<=0.1",),
    ) -> None:
        self._weights = dict(_parse(text) for text in weights)
        super().__init__(limits)
        self.unit = " + ".join(f"{weight:g} * {name}" for name, weight in self._weights.items())
        reads = [name for term_name in self._weights for name in term(term_name).needs]
        self.needs = tuple(dict.fromkeys([*reads, *self._limits.needs]))

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """The sum; none if a limit is broken."""
        parts = {name: weight * term(name).of(run, baseline) for name, weight in self._weights.items()}
        return within(parts, self._limits.margins(run, baseline), self.name)


def _parse(text: str) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    try:
        weight = float(number)
    except ValueError:
        weight = math.nan
    if not equals or not math.isfinite(weight):
        raise ConfigError(f"--weight '{text}': write NAME=NUMBER, for example memory_saving=0.7")
    term(name)
    return name, weight
