"""What Linux does with tiers if nothing is turned on: pages stay where they were made, on fast memory first."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.parameter import Parameters
from damoos.policies.rule import RulePolicy

BALANCING = "/proc/sys/kernel/numa_balancing"
DEMOTION = "/sys/kernel/mm/numa/demotion_enabled"
STILL = {BALANCING: "0", DEMOTION: "0"}
"""Settings under which the kernel itself moves nothing."""


class NaivePolicy(RulePolicy):
    """First touch: fast memory until it is full, slow memory from then on, and nothing moves."""

    name = "naive"
    description = "new pages go to fast memory while there is some, and nothing moves"
    source = "KLOCs (ASPLOS'21), table 5, Naive"
    parameters: ClassVar[Parameters] = {}
    tuned = ()
    of_tiers = True

    def settings(self) -> dict[str, str]:
        """Neither promotion nor demotion."""
        return STILL
