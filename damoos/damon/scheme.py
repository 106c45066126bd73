"""A DAMOS scheme and the attributes of its monitoring, as values.

References
----------
DAOS (HPDC'22) section 3.2; Documentation/admin-guide/mm/damon/usage.rst
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from fractions import Fraction

from damoos.damon.pattern import AccessPattern, action_of
from damoos.damon.text import format_line, parse_lines
from damoos.errors import SchemeError, nearest

ULONG_MAX = (1 << 64) - 1
UINT_MAX = (1 << 32) - 1

OPERATIONS = ("vaddr", "fvaddr", "paddr")
FILTER_TYPES = ("anon", "memcg", "young", "addr", "target")
WATERMARK_METRICS = ("none", "free_mem_rate")
GOAL_METRICS = ("user_input", "some_mem_psi_us")


@dataclass(frozen=True)
class Goal:
    """What a quota is tuned towards by the kernel: a metric and the value that it should have.

    Parameters
    ----------
    metric : {"user_input", "some_mem_psi_us"}
        A number that the user feeds, or the time per reset interval in which some task waited for memory.
    target_value, current_value : int
        ``current_value`` is read by the kernel for ``user_input`` only.
    """

    metric: str
    target_value: int
    current_value: int = 0

    def __post_init__(self) -> None:
        """Refuse a metric that the kernel does not have, and a target that it would divide by."""
        if self.metric not in GOAL_METRICS:
            raise SchemeError(f"unknown quota goal metric '{self.metric}'{nearest(self.metric, GOAL_METRICS)}")
        if self.target_value <= 0:
            raise SchemeError(f"quota goal {self.metric}: the target must be more than 0, got {self.target_value}")


@dataclass(frozen=True)
class Quotas:
    """Limits of what a scheme may do per reset interval; 0 means no limit.

    Parameters
    ----------
    time_ms : int, milliseconds
        CPU time that it may take.
    sz_bytes : int, bytes
        Memory that it may try.
    reset_interval_ms : int, milliseconds
        After which both begin anew.
    weight_sz_permil, weight_nr_accesses_permil, weight_age_permil : int, permil
        What counts how much when regions compete for a quota.
    goals : tuple of Goal
        The kernel tunes the quota towards them.
    """

    time_ms: int = 0
    sz_bytes: int = 0
    reset_interval_ms: int = 0
    weight_sz_permil: int = 0
    weight_nr_accesses_permil: int = 0
    weight_age_permil: int = 0
    goals: tuple[Goal, ...] = ()

    def __post_init__(self) -> None:
        """Refuse limits without the interval that they are for; the kernel would reset them at every turn."""
        if (self.time_ms or self.sz_bytes or self.goals) and not self.reset_interval_ms:
            raise SchemeError("a quota needs reset_interval_ms, the time in which it may be spent")


# Actions for which the regions that are accessed most often come first.
_HOT_FIRST = ("hugepage", "willneed", "lru_prio", "migrate_hot")


def limited(action: str, time_ms: int, sz_bytes: int, reset_interval_ms: int) -> Quotas:
    """Quotas under which the regions come first that an action is meant for, not those of the lowest addresses.

    References
    ----------
    mm/damon/reclaim.c (age counts) and mm/damon/lru_sort.c (for hot regions, accesses count); without weights
    mm/damon/ops-common.c gives all regions the same priority
    """
    hot_first = action in _HOT_FIRST
    return Quotas(
        time_ms,
        sz_bytes,
        reset_interval_ms,
        weight_nr_accesses_permil=1000 if hot_first else 0,
        weight_age_permil=0 if hot_first else 1000,
    )


@dataclass(frozen=True)
class Watermarks:
    """When a scheme is active, by the machine's free memory rate in permil.

    Parameters
    ----------
    metric : {"none", "free_mem_rate"}
        none: always.
    interval_us : int, microseconds
        How often it is looked at.
    high_permil, mid_permil, low_permil : int, permil
        Above high and below low the scheme sleeps; once below mid it is active.
    """

    metric: str = "none"
    interval_us: int = 0
    high_permil: int = 0
    mid_permil: int = 0
    low_permil: int = 0

    def __post_init__(self) -> None:
        """Refuse a metric that the kernel does not have."""
        if self.metric not in WATERMARK_METRICS:
            raise SchemeError(f"unknown watermark metric '{self.metric}'{nearest(self.metric, WATERMARK_METRICS)}")


@dataclass(frozen=True)
class Filter:
    """Memory that a scheme leaves out: what matches the type (or does not, if ``matching`` is False).

    Parameters
    ----------
    type : {"anon", "memcg", "young", "addr", "target"}
    matching : bool
    memcg_path : str
        Of type memcg: the group's path.
    addr_start, addr_end : int
        Of type addr: the range, its end excluded.
    target_idx : int
        Of type target: which of DAMON's targets.
    """

    type: str
    matching: bool = True
    memcg_path: str = ""
    addr_start: int = 0
    addr_end: int = 0
    target_idx: int = 0

    def __post_init__(self) -> None:
        """Refuse a type that the kernel does not have."""
        if self.type not in FILTER_TYPES:
            raise SchemeError(f"unknown filter type '{self.type}'{nearest(self.type, FILTER_TYPES)}")


@dataclass(frozen=True)
class Scheme:
    """One DAMOS scheme: an action for the regions that show an access pattern.

    Parameters
    ----------
    action : str
        ``pageout``, ``hugepage`` ...; any dialect's name is taken, the kernel's is kept.
    pattern : AccessPattern
    apply_interval_us : int, microseconds
        How often it is applied; 0 for once an aggregation.
    quotas : Quotas
    watermarks : Watermarks
    filters : tuple of Filter
    target_nid : int or None
        The memory node that ``migrate_hot`` and ``migrate_cold`` move to.
    """

    action: str
    pattern: AccessPattern = field(default_factory=AccessPattern)
    apply_interval_us: int = 0
    quotas: Quotas = Quotas()
    watermarks: Watermarks = Watermarks()
    filters: tuple[Filter, ...] = ()
    target_nid: int | None = None

    def __post_init__(self) -> None:
        """Take any dialect's name of the action; keep the kernel's."""
        object.__setattr__(self, "action", action_of(self.action))

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """The one scheme of a text; `parse_schemes` reads several.

        Raises
        ------
        SchemeError : no scheme, several, or one that is not valid
        """
        schemes = parse_schemes(text)
        if len(schemes) != 1:
            raise SchemeError(f"expected one scheme, found {len(schemes)}")
        return schemes[0]

    def __str__(self) -> str:
        """One line of scheme text.

        It has the action and the access pattern. Quotas, watermarks and filters have no text form;
        `damoos.damon.damo_json` carries them.
        """
        return format_line(self.action, self.pattern)


def parse_schemes(text: str) -> tuple[Scheme, ...]:
    """All schemes of a text, in order.

    Raises
    ------
    SchemeError : with line and column, and the nearest valid word where a word is unknown
    """
    return tuple(Scheme(action, pattern) for action, pattern in parse_lines(text))


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
class Attrs:
    """DAMON's monitoring attributes; the defaults are the paper's (section 4).

    With a ``goal`` the kernel changes both intervals by one factor, so that shares of the samples stay what they are.
    """

    sample_us: int = 5_000
    aggr_us: int = 100_000
    update_us: int = 1_000_000
    min_nr_regions: int = 10
    max_nr_regions: int = 1_000
    goal: IntervalsGoal | None = None

    def __post_init__(self) -> None:
        """Refuse what the kernel accepts in silence and then dies of."""
        if not 0 < self.sample_us <= self.aggr_us:
            raise SchemeError(f"intervals: 0 < sample_us ({self.sample_us}) <= aggr_us ({self.aggr_us}) does not hold")
        if not 3 <= self.min_nr_regions <= self.max_nr_regions:
            raise SchemeError(
                f"nr_regions: 3 <= min ({self.min_nr_regions}) <= max ({self.max_nr_regions}) does not hold"
            )

    @property
    def max_nr_accesses(self) -> int:
        """Samples per aggregation: what 100 percent is in the kernel's counter."""
        return max(1, self.aggr_us // self.sample_us)


@dataclass(frozen=True)
class KernelPattern:
    """An access pattern in the numbers that DAMON's sysfs files take, both ends included."""

    min_sz: int
    max_sz: int
    min_nr_accesses: int
    max_nr_accesses: int
    min_age: int
    max_age: int


def kernel_pattern(pattern: AccessPattern, attrs: Attrs) -> KernelPattern:
    """Access pattern in kernel numbers: frequency as a count of samples, age as a count of aggregations.

    A lower bound is rounded up and an upper bound down, so that the kernel never selects a region that the
    scheme leaves out.

    Raises
    ------
    SchemeError : a range lies between two steps of the monitoring intervals, so nothing could match
    """
    top = attrs.max_nr_accesses
    max_freq = Fraction(100) if pattern.max_freq is None else pattern.max_freq
    numbers = KernelPattern(
        min_sz=pattern.min_sz_bytes,
        max_sz=ULONG_MAX if pattern.max_sz_bytes is None else pattern.max_sz_bytes,
        min_nr_accesses=math.ceil(pattern.min_freq * top / 100),
        max_nr_accesses=math.floor(max_freq * top / 100),
        min_age=-(-pattern.min_age_us // attrs.aggr_us),
        max_age=UINT_MAX if pattern.max_age_us is None else pattern.max_age_us // attrs.aggr_us,
    )
    if numbers.min_nr_accesses > numbers.max_nr_accesses:
        raise SchemeError(f"frequency: no count of {top} samples lies in the range; widen it to {100 / top:g}% or more")
    if numbers.min_age > numbers.max_age:
        raise SchemeError(f"age: no whole aggregation interval ({attrs.aggr_us} us) lies in the range")
    return numbers


@dataclass(frozen=True)
class DamosStats:
    """What a scheme tried and applied since its kdamond started (bytes, counts)."""

    nr_tried: int = 0
    sz_tried_bytes: int = 0
    nr_applied: int = 0
    sz_applied_bytes: int = 0
    qt_exceeds: int = 0

    def __add__(self, other: DamosStats) -> DamosStats:
        """What both did together."""
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return DamosStats(*(a + b for a, b in zip(mine, others)))

    def as_dict(self) -> dict[str, int]:
        """Plain form for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Context:
    """What one kdamond is asked to do: where to look, how, and which schemes to apply."""

    schemes: tuple[Scheme, ...]
    operations: str = "vaddr"
    attrs: Attrs = field(default_factory=Attrs)

    def __post_init__(self) -> None:
        """Refuse an operations set that the kernel does not have."""
        if self.operations not in OPERATIONS:
            raise SchemeError(f"unknown operations '{self.operations}'{nearest(self.operations, OPERATIONS)}")
