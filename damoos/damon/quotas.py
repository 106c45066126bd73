"""How much a scheme may do, and what the kernel tunes that for."""

from __future__ import annotations

from dataclasses import dataclass

from damoos.damon.words import (
    BYTES,
    FRACTION,
    NUMBER,
    PERMIL,
    TEXT,
    TIME_MS,
    Kind,
    Part,
    Table,
    Word,
)  # fmt: skip
from damoos.errors import SchemeError, nearest
from damoos.units import parse_us

# Metrics of goals, and what their values are: counted, microseconds, or shares in basis points.
GOAL_METRICS = {
    "user_input": "count",
    "some_mem_psi_us": "us",
    "node_mem_used_bp": "bp",
    "node_mem_free_bp": "bp",
    "node_memcg_used_bp": "bp",
    "node_memcg_free_bp": "bp",
    "active_mem_bp": "bp",
    "inactive_mem_bp": "bp",
    "node_eligible_mem_bp": "bp",
}
# Those that are of a memory node, and of a group on it.
OF_NODE = ("node_mem_used_bp", "node_mem_free_bp", "node_memcg_used_bp", "node_memcg_free_bp", "node_eligible_mem_bp")
OF_GROUP = ("node_memcg_used_bp", "node_memcg_free_bp")
TUNERS = ("consist", "temporal")


@dataclass(frozen=True)
class Goal:
    """What a quota is tuned towards by the kernel: a metric and the value that it should have.

    Parameters
    ----------
    metric : str
        ``user_input``: a number that the user feeds. ``some_mem_psi_us``: the time per reset interval in which some
        task of the machine waited for memory. ``*_bp``: shares of a node's memory, of the machine's active and
        inactive memory, of the memory that the scheme can be applied to; in basis points (1/10,000).
    target_value, current_value : int
        ``current_value`` is read by the kernel for ``user_input`` only.
    nid : int
        Memory node of the metrics that are of one.
    memcg_path : str
        The group of the metrics that are of one.
    feed : str
        Of ``user_input``: the metric of the workload that is its current value, read once a second; empty for none.
    """

    metric: str
    target_value: int
    current_value: int = 0
    nid: int = 0
    memcg_path: str = ""
    feed: str = ""

    def __post_init__(self) -> None:
        """Refuse a metric that no kernel has, and a target that it would divide by."""
        if self.metric not in GOAL_METRICS:
            raise SchemeError(f"unknown quota goal metric '{self.metric}'{nearest(self.metric, GOAL_METRICS)}")
        if self.target_value <= 0:
            raise SchemeError(f"quota goal {self.metric}: the target must be more than 0, got {self.target_value}")
        if self.metric in OF_GROUP and not self.memcg_path:
            raise SchemeError(f"quota goal {self.metric} needs memcg_path, the path of a group")
        if self.feed and self.metric != "user_input":
            raise SchemeError(f"quota goal {self.metric} is measured by the kernel; feed is for user_input")


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
    goal_tuner : {"consist", "temporal"}
        ``temporal`` does nothing once the goals are met, and all it can until then (since Linux 7.1).
    fail_charge : (int, int)
        The share of memory to which the action could not be applied that is charged to the quota; (0, 0) for all of it.
    """

    time_ms: int = 0
    sz_bytes: int = 0
    reset_interval_ms: int = 0
    weight_sz_permil: int = 0
    weight_nr_accesses_permil: int = 0
    weight_age_permil: int = 0
    goals: tuple[Goal, ...] = ()
    goal_tuner: str = "consist"
    fail_charge: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        """Refuse limits without the interval that they are for; the kernel would reset them at every turn."""
        if (self.time_ms or self.sz_bytes or self.goals) and not self.reset_interval_ms:
            raise SchemeError("a quota needs reset_interval, the time in which it may be spent")
        if self.goal_tuner not in TUNERS:
            raise SchemeError(f"unknown goal_tuner '{self.goal_tuner}'{nearest(self.goal_tuner, TUNERS)}")


# Actions for which the regions that are accessed most often come first.
_HOT_FIRST = ("hugepage", "collapse", "willneed", "lru_prio", "migrate_hot")


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


def _target(text: str) -> int:
    """A goal's value: a plain number, or a time (of pressure) in microseconds."""
    return parse_us(text) if text[-1:].isalpha() else NUMBER.parse(text)  # type: ignore[no-any-return]


TARGET = Kind(_target, str, "count")
GOAL_WORDS: Table = {
    "metric": Word("metric", TEXT),
    "target": Word("target_value", TARGET),
    "current": Word("current_value", NUMBER),
    "nid": Word("nid", NUMBER),
    "memcg_path": Word("memcg_path", TEXT),
    "feed": Word("feed", TEXT),
}
QUOTA_WORDS: Table = {
    "time": Word("time_ms", TIME_MS),
    "sz": Word("sz_bytes", BYTES),
    "reset_interval": Word("reset_interval_ms", TIME_MS),
    "weights.sz": Word("weight_sz_permil", PERMIL),
    "weights.nr_accesses": Word("weight_nr_accesses_permil", PERMIL),
    "weights.age": Word("weight_age_permil", PERMIL),
    "goals": Part("goals", Goal, GOAL_WORDS, is_list=True),
    "goal_tuner": Word("goal_tuner", TEXT),
    "fail_charge": Word("fail_charge", FRACTION),
}
