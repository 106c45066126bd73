"""The Senpai plug-in of oomd, in its mode ``immediate_backoff``."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy


class OomdPolicy(RulePolicy):
    """Each interval without pressure: ``(current - limit_min) * max_probe``, by memory.reclaim."""

    name = "oomd"
    description = "reclaims a share of what is reclaimable each interval without pressure, with less swap as swap fills"
    source = "oomd, src/oomd/plugins/Senpai.cpp (2026), immediate_backoff"
    parameters: ClassVar[Parameters] = {
        "interval": Parameter("us", "6s", "500ms", "60s", 100_000, "from one look to the next"),
        "limit_min": Parameter("bytes", "100M", "16M", "1G", 1 << 20, "what is always left, beside the unreclaimable"),
        "pressure": Parameter("ppm", "0.1%", "0.01%", "10%", 100, "avg10 and avg60 of memory from which on it waits"),
        "io_pressure": Parameter("ppm", "0.1%", "0.01%", "10%", 100, "the same of IO"),
        "max_probe": Parameter("ppm", "1%", "0.1%", "20%", 1000, "share that is reclaimed at a time"),
        "modulate_swappiness": Parameter("choice", "off", choices=("off", "on"), help="less swap as swap fills"),
        "swap_threshold": Parameter("ppm", "80%", "10%", "100%", 10_000, "use of swap at which nothing is swapped"),
        "swapout": Parameter("bytes", "1M", "64K", "100M", 65536, "swap-out, a second, at which nothing is swapped"),
    }
    tuned = ("max_probe", "pressure")

    def controller(self) -> dict[str, Any]:
        """Its values in seconds, bytes, shares and bytes a second."""
        return {
            "interval_s": self.seconds("interval"),
            "min_bytes": self["limit_min"],
            "pressure": self.share("pressure"),
            "io_pressure": self.share("io_pressure"),
            "max_probe": self.share("max_probe"),
            "modulates": self.word("modulate_swappiness") == "on",
            "swap_threshold": self.share("swap_threshold"),
            "swapout_bytes_per_s": float(self["swapout"]),
        }
