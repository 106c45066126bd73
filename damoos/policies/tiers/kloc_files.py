"""What can be done of KLOCs from user space: the page cache of files that nobody has open goes to slow memory."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.policies.tiers.naive import STILL


class KlocFilesPolicy(RulePolicy):
    """Files only: the paper's kernel moves slab objects, sockets' buffers and block IO as well, which needs a patch."""

    name = "kloc-files"
    description = "the cache of a file goes to slow memory when its last user closes it, and back when it is opened"
    source = "KLOCs (ASPLOS'21), section 4, of files alone"
    parameters: ClassVar[Parameters] = {
        "delay": Parameter("us", "100ms", "0s", "10s", 100_000, "how long nobody has it open before that", zero=True),
        "promote": Parameter("choice", "yes", choices=("yes", "no"), help="whether it moves back when it is opened"),
    }  # fmt: skip
    tuned = ("delay", "promote")
    of_tiers = True

    def settings(self) -> dict[str, str]:
        """Nothing else moves."""
        return STILL

    def controller(self) -> dict[str, Any]:
        """Its values."""
        return {"delay_s": self.seconds("delay"), "promote": self.word("promote") == "yes"}
