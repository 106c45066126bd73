"""Senpai where there are tiers: a little of the fast memory is demoted each period, as long as nobody waits."""

from __future__ import annotations

from damoos.policies.senpai import SenpaiPolicy
from damoos.policies.tiers.naive import BALANCING, DEMOTION


class SenpaiTiersPolicy(SenpaiPolicy):
    """Senpai's rule on what a group has in fast memory (memory.numa_stat); NUMA balancing promotes what is hot.

    A request to reclaim from a group goes to all of its nodes. Without swap there is nothing that the kernel could do
    to anonymous memory that is slow already.
    """

    name = "senpai-tiers"
    description = "senpai of fast memory: reclaim demotes a little each period, NUMA balancing (mode 2) promotes"
    source = "TMO (ASPLOS'22), sections 3.3 and 4.5, on memory.numa_stat; damoos's own"
    of_tiers = True

    def settings(self) -> dict[str, str]:
        """Both directions."""
        return {BALANCING: "2", DEMOTION: "1"}

    def limits(self) -> dict[str, float]:
        """No swap for the group."""
        return {"memory.swap.max": 0.0}
