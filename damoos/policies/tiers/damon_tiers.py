"""DAMOS schemes that move cold memory to the slow node and hot memory to the fast one."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.goals import TUNER, tuned_by
from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.policies.tiers.naive import STILL
from damoos.units import format_bytes, format_us

_GOAL = "attrs  operations=paddr  intervals_goal.access_bp=400  intervals_goal.aggrs=3"
_FIXED = "attrs  operations=paddr"


class DamonTiersPolicy(RulePolicy):
    """Two schemes, whose quotas the kernel tunes so that the fast node is nearly full, and never quite."""

    name = "damon-tiers"
    description = "DAMOS demotes the coldest memory of the fast node and promotes the hottest of the slow one"
    source = "damo, scripts/mem_tier.sh; Linux, Documentation/mm/damon/design.rst (since Linux 6.16)"
    parameters: ClassVar[Parameters] = {
        "hot": Parameter("ppm", "5%", "1%", "100%", 10_000, "share of samples from which on memory is promoted"),
        "cold_age": Parameter(
            "us", "0s", "100ms", "60s", 100_000, "what was not accessed for so long can be demoted", zero=True
        ),
        "free": Parameter("ppm", "0.5%", "0.1%", "10%", 1_000, "free share of the fast node that demotion is to reach"),
        "used": Parameter("ppm", "99.7%", "90%", "99.9%", 1_000, "used share of it that promotion is to reach"),
        "quota_sz": Parameter("bytes", "200M", "1M", "1G", 1 << 20, "memory that each may move a second at most"),
        "tuner": TUNER,
        "intervals": Parameter(
            "choice", "goal", choices=("goal", "fixed"), help="DAMON's: tuned by the kernel, or 5 and 100 ms"
        ),
        "fast": Parameter("count", "0", "0", "7", 1, "number of the fast node", zero=True),
        "slow": Parameter("count", "1", "0", "7", 1, "number of the slow node", zero=True),
    }  # fmt: skip
    tuned = ("hot", "cold_age", "intervals", "tuner")
    of_tiers = True

    def settings(self) -> dict[str, str]:
        """Only DAMON moves pages."""
        return STILL

    def scheme(self) -> str:
        """The two schemes."""
        fast, slow = self["fast"], self["slow"]
        tuner = tuned_by(self.word("tuner"))
        quotas = f"quotas.sz={format_bytes(self['quota_sz'])}  quotas.reset_interval=1s{tuner}"
        # A page of a region was accessed since the last look ("young") or not; of a region's pages only these move.
        cold = self._scheme("min min", self["cold_age"], "migrate_cold", fast, slow, "Y")
        hot = self._scheme(f"{self.word('hot')} max", 0, "migrate_hot", slow, fast, "N")
        return "\n".join(
            [
                _GOAL if self.word("intervals") == "goal" else _FIXED,
                f"{cold}  {quotas}  {self._goal('node_mem_free_bp', 'free')}",
                f"{hot}  {quotas}  {self._goal('node_mem_used_bp', 'used')}",
            ]
        )

    def _scheme(self, freq: str, min_age_us: int, action: str, source: int, target: int, young: str) -> str:
        filters = (
            f"filters[0].type=addr  filters[0].nid={source}  filters[0].matching=N"
            f"  filters[1].type=young  filters[1].matching={young}"
        )
        return f"4K max  {freq}  {format_us(min_age_us)} max  {action}  target_nid={target}  {filters}"

    def _goal(self, metric: str, name: str) -> str:
        return (
            f"quotas.goals[0].metric={metric}  quotas.goals[0].target={self[name] // 100}"
            f"  quotas.goals[0].nid={self['fast']}"
        )
