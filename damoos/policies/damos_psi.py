"""DAMOS whose quota the kernel itself tunes, towards a set pressure on memory."""

from __future__ import annotations

from typing import ClassVar

from damoos.policies.goals import TUNER, tuned_by
from damoos.policies.parameter import Parameter, Parameters
from damoos.policies.rule import RulePolicy
from damoos.units import format_bytes, format_us


class DamosPsiPolicy(RulePolicy):
    """A pageout scheme with the goal ``some_mem_psi_us``: the pressure of the machine, a second."""

    name = "damos-psi"
    description = "a DAMOS scheme whose quota the kernel tunes towards a set memory pressure"
    source = "Linux, Documentation/mm/damon/design.rst, Aim-oriented Feedback-driven Auto-tuning"
    parameters: ClassVar[Parameters] = {
        "target": Parameter(
            "us", "1ms", "100us", "100ms", 100, "time, a second, that some task is to wait for memory"
        ),
        "min_age": Parameter("us", "5s", "500ms", "60s", 100_000, "what was not accessed for so long can be paged out"),
        "quota_sz": Parameter("bytes", "128M", "1M", "1G", 1 << 20, "memory that it may page out a second at most"),
        "tuner": TUNER,
    }  # fmt: skip
    tuned = ("target", "min_age")

    def scheme(self) -> str:
        """The scheme."""
        tuner = tuned_by(self.word("tuner"))
        return (
            f"4K max  min min  {format_us(self['min_age'])} max  pageout  quotas.reset_interval=1s"
            f"  quotas.sz={format_bytes(self['quota_sz'])}  quotas.weights.age=1000"
            f"  quotas.goals[0].metric=some_mem_psi_us  quotas.goals[0].target={self['target']}{tuner}"
        )
