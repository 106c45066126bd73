"""All memory of a run on one tier: what tiers can cost at most, and what they could save."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameters
from damoos.policies.rule import RulePolicy

_SOURCE = "Linux, Documentation/admin-guide/cgroup-v2.rst, cpuset.mems; KLOCs (ASPLOS'21), section 6"


class AllFastPolicy(RulePolicy):
    """The upper bound; a run that does not fit into fast memory is swapped out, or killed where there is no swap."""

    name = "all-fast"
    description = "the run's memory is on the fast tier alone (cpuset.mems); what does not fit there is swapped out"
    source = _SOURCE
    parameters: ClassVar[Parameters] = {}
    tuned = ()
    of_tiers = True

    def spec(self) -> dict[str, Any]:
        """The nodes."""
        return {**super().spec(), "memory_nodes": "fast"}


class AllSlowPolicy(RulePolicy):
    """The lower bound."""

    name = "all-slow"
    description = "the run's memory is on the slow tiers alone (cpuset.mems)"
    source = _SOURCE
    parameters: ClassVar[Parameters] = {}
    tuned = ()
    of_tiers = True

    def spec(self) -> dict[str, Any]:
        """The nodes."""
        return {**super().spec(), "memory_nodes": "slow"}
