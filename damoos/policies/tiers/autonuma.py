"""The kernel's NUMA balancing as it is without tiers: pages go to the node whose CPUs use them."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.policies.tiers.naive import BALANCING, DEMOTION

_DEBUGFS = "/sys/kernel/debug/sched/numa_balancing"
SCAN_PERIOD = f"{_DEBUGFS}/scan_period_min_ms"
SCAN_SIZE = f"{_DEBUGFS}/scan_size_mb"
HOT_THRESHOLD = f"{_DEBUGFS}/hot_threshold_ms"
SCAN: Parameters = {
    "scan_period": Parameter("ms", "1s", "100ms", "10s", 100, "the least time between two scans of a task's memory"),
    "scan_size": Parameter("bytes", "256M", "16M", "1G", 1 << 24, "memory that is scanned at a time"),
}


class AutonumaPolicy(RulePolicy):
    """Mode 1: memory that a CPU finds on another node moves to its own, as long as that has room."""

    name = "autonuma"
    description = "NUMA balancing (mode 1): memory moves to the node whose CPUs use it, while that has room"
    source = "Linux, Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; KLOCs (ASPLOS'21), table 5"
    parameters: ClassVar[Parameters] = SCAN
    tuned = ("scan_period",)
    of_tiers = True

    def settings(self) -> dict[str, str]:
        """The mode, and how fast it scans."""
        return {BALANCING: "1", DEMOTION: "0", **scan(self)}


def scan(policy: RulePolicy) -> dict[str, str]:
    """Settings of how memory is scanned; none for those of the kernel, which need no debugfs."""
    period, size = policy["scan_period"], policy["scan_size"]
    told = {"scan_period": (SCAN_PERIOD, str(period)), "scan_size": (SCAN_SIZE, str(size >> 20))}
    return {path: text for name, (path, text) in told.items() if policy.word(name) != SCAN[name].default}
