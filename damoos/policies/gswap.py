"""Google's g-swap: page out what is older than a threshold, which follows the rate of promotions."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy


class GswapPolicy(RulePolicy):
    """The lowest cold age whose promotions stay within a share of the working set; a percentile of those so far.

    What is cold is told by DAMON, in the place of the scan of accessed bits that Google's kernel makes. A minute of the
    paper is an `interval` here, and the share is that of an interval.
    """

    name = "gswap"
    description = "pages out what is older than a threshold, which keeps promotions to a share of the working set"
    source = "Lagar-Cavilla et al. (ASPLOS'19), section 4"
    parameters: ClassVar[Parameters] = {
        "interval": Parameter("us", "60s", "2s", "120s", 500_000, "from one decision to the next"),
        "promotions": Parameter(
            "ppm", "0.2%", "0.02%", "20%", 100, "share of the working set that may be promoted in an interval"
        ),
        "percentile": Parameter("ppm", "98%", "50%", "100%", 10_000, "of the best thresholds so far, that is used"),
        "grace": Parameter("us", "120s", "0s", "300s", 500_000, "time at the start without reclaim", zero=True),
        "window": Parameter("us", "120s", "2s", "300s", 500_000, "what was accessed within it is the working set"),
        "min_age": Parameter("us", "120s", "1s", "120s", 500_000, "lowest threshold"),
        "max_age": Parameter("us", "8160s", "60s", "8160s", 500_000, "highest threshold"),
    }
    tuned = ("promotions", "min_age")

    def scheme(self) -> str:
        """All memory is looked at, and at first nothing is old enough to be paged out."""
        return "4K max  min min  24h max  pageout\nmin max  min max  min max  stat"

    def controller(self) -> dict[str, Any]:
        """Its values in seconds and shares."""
        return {
            "interval_s": self.seconds("interval"),
            "promotions": self.share("promotions"),
            "percentile": self.share("percentile"),
            "grace_s": self.seconds("grace"),
            "window_s": self.seconds("window"),
            "min_age_s": self.seconds("min_age"),
            "max_age_s": max(self.seconds("max_age"), self.seconds("min_age")),
        }
