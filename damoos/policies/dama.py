"""DAMON_RECLAIM with a min_age that follows memory pressure, as dama does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from damoos.policies.damon_reclaim import DamonReclaimPolicy, watermarks
from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.units import format_bytes, format_us


class DamaPolicy(RulePolicy):
    """The module, whose ``min_age`` rises where some task waits longer than `pressure`, and falls where none does.

    The first value of 10 s, and that it follows pressure, are dama's. By how much it moves was not read in dama's
    source: doubling where there is pressure and a tenth less where there is none is what TCP does.
    """

    name = "dama"
    description = "DAMON_RECLAIM, whose min_age rises under memory pressure and falls without"
    source = "dama, RFC on linux-mm, 2026-06-28 (its steps are ours)"
    parameters: ClassVar[Parameters] = {
        "start": Parameter("us", "10s", "1s", "60s", 100_000, "first value of min_age"),
        "min_age": Parameter("us", "1s", "500ms", "60s", 100_000, "lowest value of min_age"),
        "max_age": Parameter("us", "600s", "60s", "3600s", 1_000_000, "highest value of min_age"),
        "interval": Parameter("us", "5s", "1s", "60s", 100_000, "from one decision to the next"),
        "pressure": Parameter("ppm", "0.1%", "0.01%", "10%", 100, "memory pressure from which on min_age rises"),
        "quota_ms": DamonReclaimPolicy.parameters["quota_ms"],
        "quota_sz": DamonReclaimPolicy.parameters["quota_sz"],
        "free": replace(DamonReclaimPolicy.parameters["free"], default="100%"),
    }
    tuned = ("start", "pressure")

    def scheme(self) -> str:
        """The line of the module, as it begins."""
        return (
            f"module damon_reclaim  min_age={format_us(self['start'])}  quota_ms={self['quota_ms']}"
            f"  quota_sz={format_bytes(self['quota_sz'])}  {watermarks(self['free'])}"
        )

    def controller(self) -> dict[str, Any]:
        """Its values in seconds and shares."""
        return {
            "interval_s": self.seconds("interval"),
            "pressure": self.share("pressure"),
            "start_s": self.seconds("start"),
            "min_age_s": min(self.seconds("min_age"), self.seconds("start")),
            "max_age_s": max(self.seconds("max_age"), self.seconds("start")),
        }
