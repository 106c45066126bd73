"""Senpai on a machine with memory tiers: what it takes from a group goes to slow memory, and not to swap."""

from __future__ import annotations

from damoos.agent import memcg
from damoos.agent.controllers.senpai import Senpai
from damoos.agent.nodes import nodes_of
from damoos.errors import UnsupportedError


class SenpaiTiers(Senpai):
    """Senpai's rule on the memory that a group has in fast nodes.

    Reclaim from fast memory demotes, which leaves what is charged to the group as it was: Senpai itself would ask for
    the same again and again, and never come to an end.
    """

    columns = ("fast_bytes", "some", "io_some", "asked_bytes")
    needs = (*Senpai.needs, "memory.numa_stat")

    @property
    def name(self) -> str:
        """The policy's name in texts and messages."""
        return "senpai-tiers"

    def check(self) -> None:
        """Whether there are tiers, too."""
        super().check()
        self._fast = nodes_of("fast")
        if not memcg.placement(self.group):
            raise UnsupportedError("senpai-tiers needs to know on which node a group's memory is, and nothing tells")

    def current_bytes(self) -> int:
        """What the group has in fast memory."""
        placed = memcg.placement(self.group)
        return sum(by_node.get(f"N{node}", 0) for by_node in placed.values() for node in self._fast)
