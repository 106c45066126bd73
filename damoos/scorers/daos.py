"""The score of the DAOS paper: equal parts of speed and memory saving, within a slowdown of 10 %."""

from __future__ import annotations

from collections.abc import Sequence

from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Scorer
from damoos.scorers.terms import memory_saving, slowdown, slowdown_margin

SLA = 0.1


class DaosScorer(Scorer):
    """Listing 2, to the letter; 1 is 100 percent points.

    A run that breaks the limit gets the worst score seen so far. Where none has been seen the listing has no
    number to give, and neither has this: such a run is infeasible and without a score.

    References
    ----------
    DAOS (HPDC'22), Listing 2
    """

    name = "daos"
    unit = "half the sum of speedup and RSS saving, as fractions"
    needs = ("runtime_s", "rss_avg_bytes")
    max_slowdown = SLA

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """``0.5 * pscore + 0.5 * mscore`` if ``pscore > -0.1``, else the worst of the previous scores."""
        pscore = -slowdown(run, baseline)
        mscore = memory_saving(run, baseline)
        margins = slowdown_margin(run, baseline, SLA)
        parts = {"speed": 0.5 * pscore, "memory": 0.5 * mscore}
        if pscore > -SLA:
            return Score(0.5 * pscore + 0.5 * mscore, True, margins, parts)
        return Score(min(previous) if previous else None, False, margins, parts)
