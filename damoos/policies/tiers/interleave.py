"""New pages on all nodes in turn."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.policies.tiers.naive import STILL


class InterleavePolicy(RulePolicy):
    """The program's memory policy; a program that runs already keeps the one that it has."""

    name = "interleave"
    description = "new pages go to fast and slow memory in turn, and nothing moves"
    source = "Linux, Documentation/admin-guide/mm/numa_memory_policy.rst; weighted since Linux 6.9"
    parameters: ClassVar[Parameters] = {
        "fast": Parameter("count", "1", "1", "16", 1, "pages on each fast node for every page on a slow one"),
    }
    tuned = ("fast",)
    of_tiers = True

    def settings(self) -> dict[str, str]:
        """Nothing moves."""
        return STILL

    def spec(self) -> dict[str, Any]:
        """How many pages for each on a slow node."""
        return {**super().spec(), "interleave": {"fast": self["fast"]}}
