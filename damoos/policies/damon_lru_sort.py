"""The kernel's DAMON_LRU_SORT: tell the LRU lists what DAMON has seen, so that the kernel reclaims the right pages."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.damon_reclaim import watermarks
from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.units import format_us


class DamonLruSortPolicy(RulePolicy):
    """The module's own parameters. It reclaims nothing by itself: it helps where memory is limited."""

    name = "damon-lru-sort"
    description = "the kernel's module that sorts the LRU lists by what DAMON sees; it helps under a limit of memory"
    source = "Linux, Documentation/admin-guide/mm/damon/lru_sort.rst"
    parameters: ClassVar[Parameters] = {
        "cold_min_age": Parameter("us", "120s", "500ms", "120s", 100_000, "what was not accessed for so long is cold"),
        "hot_thres": Parameter("ppm", "50%", "1%", "100%", 10_000, "share of samples from which on memory is hot"),
        "quota_ms": Parameter("ms", "10ms", "1ms", "1s", 1, "CPU time that it may take a second"),
        "free": Parameter("ppm", "15%", "15%", "100%", 10_000, "share of free memory below which it works"),
    }
    tuned = ("cold_min_age", "hot_thres")

    def scheme(self) -> str:
        """The line of the module."""
        return (
            f"module damon_lru_sort  cold_min_age={format_us(self['cold_min_age'])}"
            f"  hot_thres_access_freq={self['hot_thres'] // 1000}  quota_ms={self['quota_ms']}"
            f"  {watermarks(self['free'], spare=50, low=50)}"
        )
