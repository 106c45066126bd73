"""The kernel's compressed cache before swap, which writes back what is cold by itself."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy

_FILES = "/sys/module/zswap/parameters/{}"


class ZswapShrinkerPolicy(RulePolicy):
    """zswap's own parameters; it reclaims nothing by itself, so it helps where memory is limited."""

    name = "zswap-shrinker"
    description = "zswap, whose shrinker writes what is cold back to swap; it helps under a limit of memory"
    source = "Linux, Documentation/admin-guide/mm/zswap.rst"
    parameters: ClassVar[Parameters] = {
        "shrinker": Parameter("choice", "Y", choices=("Y", "N"), help="whether it writes back before the pool is full"),
        "max_pool": Parameter("ppm", "20%", "1%", "50%", 10_000, "share of memory that the pool may take"),
        "accept": Parameter(
            "ppm", "90%", "10%", "100%", 10_000, "share of that at which a full pool takes pages again"
        ),
    }
    tuned = ("max_pool", "shrinker")

    def settings(self) -> dict[str, str]:
        """Zswap is on."""
        return {
            _FILES.format("enabled"): "Y",
            _FILES.format("shrinker_enabled"): self.word("shrinker"),
            _FILES.format("max_pool_percent"): str(self["max_pool"] // 10_000),
            _FILES.format("accept_threshold_percent"): str(self["accept"] // 10_000),
        }
