"""TMO's Senpai: reclaim a little, as long as nobody waits for memory or IO."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy


class SenpaiPolicy(RulePolicy):
    """Each period: ``current * ratio * max(0, 1 - some / pressure)``, by memory.reclaim."""

    name = "senpai"
    description = "reclaims a little each period, as long as nobody waits for memory or IO"
    source = "TMO (ASPLOS'22), sections 3.3 and 4.5"
    parameters: ClassVar[Parameters] = {
        "interval": Parameter("us", "6s", "500ms", "60s", 100_000, "length of a period"),
        "ratio": Parameter("ppm", "0.05%", "0.05%", "10%", 100, "share that is reclaimed in a period without pressure"),
        "pressure": Parameter("ppm", "0.1%", "0.01%", "10%", 100, "memory pressure from which on nothing is reclaimed"),
        "io_pressure": Parameter("ppm", "0.1%", "0.01%", "10%", 100, "the same of IO pressure"),
        "most": Parameter("ppm", "1%", "1%", "20%", 1000, "the most that is reclaimed in a period"),
        "swap_writes": Parameter(
            "bytes", "0", "64K", "100M", 65536, "writes to swap, a second, from which on nothing is reclaimed; 0: any",
            zero=True,
        ),
    }  # fmt: skip
    tuned = ("ratio", "pressure")

    def controller(self) -> dict[str, Any]:
        """Its values in seconds, shares and bytes a second."""
        shares = {name: self.share(name) for name in ("ratio", "pressure", "io_pressure", "most")}
        return {
            "interval_s": self.seconds("interval"), **shares, "swap_write_bytes_per_s": float(self["swap_writes"]),
        }  # fmt: skip
