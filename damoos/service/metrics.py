"""Numbers of what is in service, for Prometheus's node_exporter (its textfile collector) or anything that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BYTES = {
    "rss_bytes": "resident memory of the processes",
    "memory_bytes": "memory that is charged to their cgroup",
    "swap_bytes": "memory of theirs that is on swap",
    "compressed_bytes": "what that takes in zram and zswap",
    "saved_bytes": "memory on swap less what it takes in zram and zswap; dropped file pages are not counted",
}


def write(path: Path, states: Mapping[str, Mapping[str, Any]], machine: str) -> None:
    """Write the numbers of all that is in service on a machine, in one step.

    Parameters
    ----------
    states : mapping
        The state of each, by its name.
    """
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}

    def put(name: str, meaning: str, value: float | None, labels: Mapping[str, str], **more: str) -> None:
        if value is None:
            return
        if name not in gauges:
            gauges[name] = Gauge(f"damoos_{name}", meaning, [*labels, *more], registry=registry)
        gauges[name].labels(**labels, **more).set(value)

    for service, state in states.items():
        labels = {"machine": machine, "service": service, "study": state.get("study", "")}
        put("in_force", "1 while the policy acts", int(_acts(state)), labels)
        put("paused", "1 while the guard has paused the policy", int(bool(state.get("paused"))), labels)
        put("failed", "1 if the policy was taken off: by the guard, an error, or somebody's change",
            int("failed" in state), labels)  # fmt: skip
        put("processes", "processes that the policy is on", state.get("nr_processes"), labels)
        put("restarts", "how often processes came in the place of others", state.get("restarts"), labels)
        put("policy_cpu_seconds", "CPU time of the kdamond and the rule", _cpu_s(state), labels)
        for name, meaning in _BYTES.items():
            put(name, meaning, _bytes(state, name), labels)
        for watched, value in state.get("watched", {}).items():
            put("watched", "the guard's last window", value, labels, metric=watched)
        for nth, scheme in enumerate(state.get("damos", ())):
            put("scheme_applied_bytes", "what the scheme was applied to since it was put on",
                scheme["sz_applied_bytes"], labels, scheme=str(nth))  # fmt: skip
    write_to_textfile(str(path), registry)


def _acts(state: Mapping[str, Any]) -> bool:
    return bool(state.get("in_force")) and not state.get("paused")


def _cpu_s(state: Mapping[str, Any]) -> float | None:
    if not state.get("in_force"):
        return None
    return float(state.get("kdamond_cpu_s", 0.0) + state.get("rule", {}).get("cpu_s", 0.0))


def _bytes(state: Mapping[str, Any], name: str) -> float | None:
    reading = {**state.get("reading", {}), "rss_bytes": state.get("rss_bytes")}
    if name != "saved_bytes":
        value: float | None = reading.get(name)
        return value
    if reading.get("compressed_bytes") is None or reading.get("swap_bytes") is None:
        return None
    return float(reading["swap_bytes"] - reading["compressed_bytes"])
