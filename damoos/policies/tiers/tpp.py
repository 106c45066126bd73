"""The kernel's own tiering: reclaim demotes what is cold, NUMA hinting faults promote what is hot."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.policies.tiers.autonuma import HOT_THRESHOLD, SCAN, scan
from damoos.policies.tiers.naive import BALANCING, DEMOTION

RATE = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
WATERMARKS = "/proc/sys/vm/watermark_scale_factor"


class TppPolicy(RulePolicy):
    """Mode 2 with demotion: what became of TPP in Linux."""

    name = "tpp"
    description = "the kernel's tiering: reclaim demotes cold pages, NUMA balancing (mode 2) promotes hot ones"
    source = "TPP (ASPLOS'23); Linux, Documentation/admin-guide/sysctl/kernel.rst, numa_balancing"
    parameters: ClassVar[Parameters] = {
        **SCAN,
        "promote_rate": Parameter("bytes", "64G", "16M", "64G", 1 << 24, "the most that is promoted in a second"),
        "hot": Parameter("ms", "1s", "10ms", "10s", 10, "time from scan to access below which a page is hot"),
        "watermarks": Parameter(
            "count", "10", "10", "1000", 10, "free fast memory that reclaim keeps, in 1/10,000 (watermark_scale_factor)"
        ),
    }
    tuned = ("scan_period", "watermarks")
    of_tiers = True

    def settings(self) -> dict[str, str]:
        """Both directions, with their rates."""
        hot = {} if self.word("hot") == self.parameters["hot"].default else {HOT_THRESHOLD: str(self["hot"])}
        return {
            BALANCING: "2",
            DEMOTION: "1",
            RATE: str(max(1, self["promote_rate"] >> 20)),
            WATERMARKS: str(self["watermarks"]),
            **hot,
            **scan(self),
        }
