"""The Senpai of 2019, which lowers memory.high until tasks wait for a set time, and raises it from there on."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy


class SenpaiHighPolicy(RulePolicy):
    """Keeps memory.high where tasks wait for `pressure` in an interval."""

    name = "senpai-high"
    description = "lowers memory.high until tasks wait for a set time per interval"
    source = "facebookincubator/senpai, senpai.py (2019)"
    parameters: ClassVar[Parameters] = {
        "interval": Parameter("us", "6s", "1s", "60s", 1_000_000, "time without pressure before the limit is lowered"),
        "pressure": Parameter("us", "10ms", "1ms", "1s", 1_000, "time that tasks wait per interval at the right limit"),
        "min_size": Parameter("bytes", "100M", "16M", "1G", 1 << 20, "lowest limit"),
        "max_size": Parameter("bytes", "100G", "128M", "100G", 1 << 20, "highest limit"),
        "max_probe": Parameter("ppm", "1%", "0.1%", "10%", 1000, "share by which the limit is lowered at most"),
        "max_backoff": Parameter("ppm", "100%", "10%", "100%", 10_000, "share by which it is raised at most"),
        "coeff_probe": Parameter("count", "10", "1", "100", 1, "the higher, the more careful it lowers the limit"),
        "coeff_backoff": Parameter("count", "20", "1", "100", 1, "the higher, the more slowly it raises the limit"),
    }
    tuned = ("pressure", "max_probe")

    def controller(self) -> dict[str, Any]:
        """Its values in seconds, microseconds, bytes and shares."""
        return {
            "grace_s": self.seconds("interval"),
            "pressure_us": self["pressure"],
            "min_bytes": self["min_size"],
            "max_bytes": self["max_size"],
            "max_probe": self.share("max_probe"),
            "max_backoff": self.share("max_backoff"),
            "coeff_probe": self["coeff_probe"],
            "coeff_backoff": self["coeff_backoff"],
        }
