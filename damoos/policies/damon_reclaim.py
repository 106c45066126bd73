"""The kernel's DAMON_RECLAIM: page out what was not accessed for a while, when free memory is low."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.units import format_bytes, format_us


def watermarks(free_ppm: int, spare: int = 100, low: int = 200) -> str:
    """Watermarks of a module that works below a share of free memory.

    Parameters
    ----------
    free_ppm : int, millionths
        ``wmarks_mid``, below which it begins.
    spare : int, permil
        How much free memory there is above that when it stops.
    low : int, permil
        Below which it leaves the work to the kernel; never, where it always works.
    """
    mid = free_ppm // 1000
    low = 0 if mid == 1000 else min(low, mid)
    return f"wmarks_high={min(1000, mid + spare)}  wmarks_mid={mid}  wmarks_low={low}"


class DamonReclaimPolicy(RulePolicy):
    """The module's own parameters, by the kernel's names where they are the kernel's."""

    name = "damon-reclaim"
    description = "the kernel's module that pages out what was not accessed for min_age, when free memory is low"
    source = "Linux, Documentation/admin-guide/mm/damon/reclaim.rst"
    parameters: ClassVar[Parameters] = {
        "min_age": Parameter("us", "120s", "500ms", "120s", 100_000, "what was not accessed for so long is paged out"),
        "quota_ms": Parameter("ms", "10ms", "1ms", "1s", 1, "CPU time that it may take a second"),
        "quota_sz": Parameter("bytes", "128M", "1M", "1G", 1 << 20, "memory that it may page out a second"),
        # The kernel's own watermarks are 20, 40 and 50 %; 100 % is always.
        "free": Parameter("ppm", "40%", "40%", "100%", 10_000, "share of free memory below which it works"),
    }
    tuned = ("min_age", "free")

    def scheme(self) -> str:
        """The line of the module."""
        return (
            f"module damon_reclaim  min_age={format_us(self['min_age'])}  quota_ms={self['quota_ms']}"
            f"  quota_sz={format_bytes(self['quota_sz'])}  {watermarks(self['free'])}"
        )
