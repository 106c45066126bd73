"""All memory of a run on one tier: what tiers can cost at most, and what they could save."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameters
from damoos.policies.rule import RulePolicy


class _OnOneTier(RulePolicy):
    source = "Linux, Documentation/admin-guide/cgroup-v2.rst, cpuset.mems; KLOCs (ASPLOS'21), section 6"
    parameters: ClassVar[Parameters] = {}
    tuned = ()
    of_tiers = True
    nodes: ClassVar[str]

    def spec(self) -> dict[str, Any]:
        """The nodes."""
        return {**super().spec(), "memory_nodes": self.nodes}


class AllFastPolicy(_OnOneTier):
    """The upper bound; a run that does not fit into fast memory is swapped out, or killed where there is no swap."""

    name = "all-fast"
    description = "the run's memory is on the fast tier alone (cpuset.mems); what does not fit there is swapped out"
    nodes = "fast"


class AllSlowPolicy(_OnOneTier):
    """The lower bound."""

    name = "all-slow"
    description = "the run's memory is on the slow tiers alone (cpuset.mems)"
    nodes = "slow"
