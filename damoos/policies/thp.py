"""The kernel's modes of transparent huge pages."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy


class ThpModePolicy(RulePolicy):
    """One of the modes; `always` is the DAOS paper's ``thp``."""

    name = "thp"
    description = "a mode of transparent huge pages for the time of the run"
    source = "Linux, Documentation/admin-guide/mm/transhuge.rst; DAOS (HPDC'22), Figure 7"
    parameters: ClassVar[Parameters] = {
        "mode": Parameter("choice", "always", choices=("always", "madvise", "never"), help="the mode")
    }
    tuned = ("mode",)

    def spec(self) -> dict[str, Any]:
        """The mode."""
        return {**super().spec(), "thp": self.word("mode")}
