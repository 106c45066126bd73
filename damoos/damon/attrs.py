"""How DAMON monitors: intervals, numbers of regions, and what else is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from damoos.damon.filters import FILTER_WORDS
from damoos.damon.words import BASIS_POINTS, NUMBER, TIME_US, Part, Table, Word
from damoos.errors import SchemeError, nearest

PROBE_FILTER_TYPES = ("anon", "memcg")
_MOST_US = (1 << 63) - 1


@dataclass(frozen=True)
class IntervalsGoal:
    """What the kernel tunes the intervals for: this share of accesses that could be seen, within these bounds.

    The defaults are those that the kernel's documentation recommends.

    References
    ----------
    Documentation/mm/damon/design.rst, "Aim-oriented Auto-tuning"
    """

    access_bp: int = 400
    aggrs: int = 3
    min_sample_us: int = 5_000
    max_sample_us: int = 10_000_000


@dataclass(frozen=True)
class ProbeFilter:
    """Which pages a probe counts, or leaves out.

    Parameters
    ----------
    type : {"anon", "memcg"}
    matching, allow : bool
        As those of `damoos.damon.filters.Filter`.
    memcg_path : str
        Of type memcg.
    """

    type: str
    matching: bool = True
    allow: bool = False
    memcg_path: str = ""

    def __post_init__(self) -> None:
        """Refuse a type that no kernel has."""
        if self.type not in PROBE_FILTER_TYPES:
            raise SchemeError(f"unknown probe filter type '{self.type}'{nearest(self.type, PROBE_FILTER_TYPES)}")
        if self.type == "memcg" and not self.memcg_path:
            raise SchemeError("a memcg filter needs memcg_path, the path of a group")


@dataclass(frozen=True)
class Probe:
    """What DAMON counts of a region beside its accesses: samples whose page passed the filters.

    Parameters
    ----------
    filters : tuple of ProbeFilter
    weight : int
        How much its hits count, against those of other probes.
    """

    filters: tuple[ProbeFilter, ...] = ()
    weight: int = 0


@dataclass(frozen=True)
class Attrs:
    """DAMON's monitoring attributes; the defaults are the paper's (section 4).

    With a ``goal`` the kernel changes both intervals by one factor, so that shares of the samples stay what they are.

    Parameters
    ----------
    sample_us, aggr_us, update_us : int, microseconds
    min_nr_regions, max_nr_regions : int
    goal : IntervalsGoal or None
    addr_unit : int, bytes
        Of physical addresses as DAMON counts them (since Linux 6.18).
    probes : tuple of Probe
        What else is counted of regions (since Linux 7.3).
    """

    sample_us: int = 5_000
    aggr_us: int = 100_000
    update_us: int = 1_000_000
    min_nr_regions: int = 10
    max_nr_regions: int = 1_000
    goal: IntervalsGoal | None = None
    addr_unit: int = 1
    probes: tuple[Probe, ...] = ()

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Attrs:
        """Read what `dataclasses.asdict` made."""
        goal, probes = form.get("goal"), form.get("probes", ())
        made = (Probe(tuple(ProbeFilter(**one) for one in probe["filters"]), probe["weight"]) for probe in probes)
        return cls(**{**form, "goal": goal and IntervalsGoal(**goal), "probes": tuple(made)})

    def __post_init__(self) -> None:
        """Refuse what the kernel accepts in silence and then dies of, and numbers that it has no room for."""
        if self.aggr_us > _MOST_US or self.update_us > _MOST_US or self.max_nr_regions > _MOST_US:
            raise SchemeError(f"intervals and nr_regions: no more than {_MOST_US} is possible")
        if not 0 < self.sample_us <= self.aggr_us:
            raise SchemeError(f"intervals: 0 < sample_us ({self.sample_us}) <= aggr_us ({self.aggr_us}) does not hold")
        if not 3 <= self.min_nr_regions <= self.max_nr_regions:
            raise SchemeError(
                f"nr_regions: 3 <= min ({self.min_nr_regions}) <= max ({self.max_nr_regions}) does not hold"
            )
        if self.addr_unit < 1:
            raise SchemeError(f"addr_unit must be 1 or more, got {self.addr_unit}")

    @property
    def max_nr_accesses(self) -> int:
        """Samples per aggregation: what 100 percent is in the kernel's counter."""
        return max(1, self.aggr_us // self.sample_us)


PROBE_FILTER_WORDS: Table = {key: FILTER_WORDS[key] for key in ("type", "matching", "allow", "memcg_path")}
PROBE_WORDS: Table = {
    "filters": Part("filters", ProbeFilter, PROBE_FILTER_WORDS, is_list=True),
    "weight": Word("weight", NUMBER),
}
GOAL_WORDS: Table = {
    "access_bp": Word("access_bp", BASIS_POINTS),
    "aggrs": Word("aggrs", NUMBER),
    "min_sample": Word("min_sample_us", TIME_US),
    "max_sample": Word("max_sample_us", TIME_US),
}
ATTRS_WORDS: Table = {
    "sample": Word("sample_us", TIME_US),
    "aggr": Word("aggr_us", TIME_US),
    "update": Word("update_us", TIME_US),
    "nr_regions.min": Word("min_nr_regions", NUMBER),
    "nr_regions.max": Word("max_nr_regions", NUMBER),
    "intervals_goal": Part("goal", IntervalsGoal, GOAL_WORDS),
    "addr_unit": Word("addr_unit", NUMBER),
    "probes": Part("probes", Probe, PROBE_WORDS, is_list=True),
}
