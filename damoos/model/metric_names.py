"""Names of what damoos measures of a run itself."""

from __future__ import annotations

from damoos.model.roles import ROLE_METRICS

# What every run reports, on every machine; the agent's facts name what the machine adds, the workload its own.
METRICS = (
    "runtime_s",
    "user_s",
    "system_s",
    "rss_avg_bytes",
    "rss_max_bytes",
    "pss_avg_bytes",
    "anon_huge_avg_bytes",
    "anon_huge_max_bytes",
    "kdamond_cpu_s",
    "sampling_cpu_s",
    "pswpin",
    "pswpout",
    "pgmajfault",
    "system_used_avg_bytes",
    "promotions_per_s",
    "swap_written_bytes_per_s",
)

TIER_METRICS = ("fast_hits", "modelled_s", "modelled_all_fast_s", "modelled_all_slow_s")
"""Of a guest whose accesses are counted: the share of those to memory that fell on the fastest nodes; the runtime with
the latencies of the nodes (see `damoos.dispatch.modelled_time`), with that of the fastest for all, of the slowest."""

BUILT_IN = frozenset((*METRICS, *ROLE_METRICS, *TIER_METRICS))
"""Names that a workload's own metrics cannot have."""
