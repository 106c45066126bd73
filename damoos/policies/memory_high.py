"""A fixed limit of memory: the simplest rival."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy


class MemoryHighPolicy(RulePolicy):
    """memory.high at a share of what the workload takes at its peak when nothing limits it."""

    name = "memory-high"
    description = "memory.high at a fixed share of the workload's peak"
    source = "Linux, Documentation/admin-guide/cgroup-v2.rst"
    parameters: ClassVar[Parameters] = {
        "share": Parameter("ppm", "80%", "10%", "100%", 10_000, "of the peak of a run without a limit")
    }
    tuned = ("share",)

    def limits(self) -> dict[str, float]:
        """The share."""
        return {"memory.high": self.share("share")}
