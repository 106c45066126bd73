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

BUILT_IN = frozenset((*METRICS, *ROLE_METRICS))
"""Names that a workload's own metrics cannot have."""
