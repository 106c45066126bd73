"""Proactive reclaim by the multi-generational LRU: age the pages of a group, and evict its old generations."""

from __future__ import annotations

from typing import Any, ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy


class MglruPolicy(RulePolicy):
    """A new generation each half of `min_age`; those that are older than `min_age` are evicted.

    The kernel keeps four generations, of which the two youngest cannot be evicted.
    """

    name = "mglru"
    description = "evicts generations of the multi-generational LRU that are older than min_age"
    source = "Linux, Documentation/admin-guide/mm/multigen_lru.rst, Working set estimation and Proactive reclaim"
    parameters: ClassVar[Parameters] = {
        "min_age": Parameter("us", "60s", "1s", "120s", 100_000, "generations that are older are evicted"),
        "swappiness": Parameter("count", "60", "1", "200", 1, "200: memory of programs only; 0: files only", zero=True),
        "min_ttl": Parameter("ms", "0ms", "100ms", "10s", 100, "what was accessed within it is never evicted; 0: any",
                             zero=True),
    }  # fmt: skip
    tuned = ("min_age", "swappiness")

    def controller(self) -> dict[str, Any]:
        """Its values in seconds."""
        return {
            "min_age_s": self.seconds("min_age"),
            "swappiness": self["swappiness"],
        }

    def settings(self) -> dict[str, str]:
        """The multi-generational LRU is switched on."""
        return {
            "/sys/kernel/mm/lru_gen/enabled": "0x0007",
            "/sys/kernel/mm/lru_gen/min_ttl_ms": str(self["min_ttl"]),
        }
