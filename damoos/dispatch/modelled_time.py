"""How long a run would have taken on memory with the latencies that a machine's nodes have: a model, and labelled so.

An emulated guest has no such latencies: its clock counts instructions, and memory of all nodes is as fast. What is
counted exactly is each access, by node. The model adds to the guest's time, for each access that the modelled cache did
not hold, the latency of its node. Moving a page costs what the kernel's copying of it costs, since its instructions and
accesses are counted as all others are. The model has no bandwidth, no prefetcher, and no access that waits while others
are under way, so it makes slow memory slower than it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from damoos.model.metrics import TIER_METRICS

_S_PER_NS = 1e-9


def of_tiers(counters: Mapping[str, int], runtime_s: float, counter: Mapping[str, Any]) -> dict[str, float]:
    """`damoos.model.metrics.TIER_METRICS` of a run; empty where accesses are not counted or have no latencies.

    Parameters
    ----------
    counters : mapping of str to int
        With ``misses_n0`` and so on.
    runtime_s : float, seconds
        Of the guest.
    counter : mapping
        What the machine says of its counter: ``latency_ns`` of each node.
    """
    latencies: Sequence[float | None] = counter.get("latency_ns", ())
    known = [latency for latency in latencies if latency is not None]
    names = [f"misses_n{node}" for node in range(len(latencies))]
    if len(known) < len(latencies) or not set(names) <= set(counters) or not names:
        return {}
    misses = [counters[name] for name in names]
    by_node = list(zip(misses, known, strict=True))
    total, fastest = sum(misses), min(known)
    on_fast = sum(count for count, latency in by_node if latency == fastest)
    values = (
        on_fast / total if total else 1.0,
        runtime_s + _S_PER_NS * sum(count * latency for count, latency in by_node),
        runtime_s + _S_PER_NS * total * fastest,
        runtime_s + _S_PER_NS * total * max(known),
    )
    return dict(zip(TIER_METRICS, values, strict=True))
