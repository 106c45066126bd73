"""The roles of containers on a machine, and a run's metrics by role: ``memory_avg_bytes.tax``.

References
----------
Weiner et al., "TMO: Transparent Memory Offloading in Datacenters" (ASPLOS'22), section 2.3: applications, and the
memory tax of datacenters and of microservices
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from damoos.model.trial import Measurement

ROLES = ("application", "sidecar", "tax")
"""The work itself; what comes with each application, such as a proxy or a logger; what each machine runs."""
ROLE_METRICS = (
    "memory_avg_bytes", "memory_max_bytes", "net_avg_bytes", "rss_avg_bytes", "rss_max_bytes", "swap_avg_bytes",
    "anon_avg_bytes", "file_avg_bytes", "refaults_per_s", "psi_some_us", "psi_io_some_us", "user_s", "system_s",
)  # fmt: skip
"""What is told of each role of a run that has containers; a machine that does not report one of all has none by role.
"""


def of_role(metric: str, role: str) -> str:
    """The name of a metric of one role."""
    return f"{metric}.{role}"


def by_role(metrics: Iterable[str], roles: Iterable[str]) -> set[str]:
    """Names of what is told of some roles, of these metrics of the whole run."""
    return {of_role(name, role) for name in set(metrics) & set(ROLE_METRICS) for role in roles}


def part(run: Measurement, role: str) -> Measurement:
    """A run with a role's metrics in place of those of all.

    What is not told of roles, such as the runtime, is as it is. What is told of roles, and not of this one, is absent.
    """
    whole = {name: value for name, value in run.metrics.items() if name not in ROLE_METRICS}
    own = {name: run.metrics[key] for name in ROLE_METRICS if (key := of_role(name, role)) in run.metrics}
    return replace(run, metrics={**whole, **own})
