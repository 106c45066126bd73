"""How much the kernel prefers to reclaim memory of programs to memory of files."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy


class SwappinessPolicy(RulePolicy):
    """vm.swappiness; it has an effect only where the kernel reclaims, such as under a limit."""

    name = "swappiness"
    description = "vm.swappiness for the time of the run; it has an effect under a limit of memory"
    source = "Linux, Documentation/admin-guide/sysctl/vm.rst"
    parameters: ClassVar[Parameters] = {
        "value": Parameter("count", "60", "1", "200", 1, "200: swap costs least; 0: it is avoided", zero=True),
    }
    tuned = ("value",)

    def settings(self) -> dict[str, str]:
        """The machine's value."""
        return {"/proc/sys/vm/swappiness": str(self["value"])}
