"""Numbers of what is in service, for Prometheus: as a file for node_exporter's textfile collector, and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from damoos.errors import MachineError
from damoos.service.journal import Journal

LOOPBACK = "127.0.0.1"
# A dashboard of all numbers here, for people to import.
GRAFANA = Path(__file__).with_name("grafana.json")
State = Mapping[str, Any]
States = Mapping[str, Mapping[str, State]]  # of each service, by machine and name

_LABELS = ("machine", "service", "study")
_SINGLE: Mapping[str, tuple[str, Callable[[State], float | None]]] = {
    "in_force": ("1 while the policy acts", lambda state: float(_acts(state))),
    "paused": ("1 while the guard has paused the policy", lambda state: float(bool(state.get("paused")))),
    "failed": (
        "1 if the policy was taken off: by the guard, an error, or somebody's change",
        lambda state: float("failed" in state),
    ),
    "processes": ("processes that the policy is on", lambda state: state.get("nr_processes")),
    "restarts": ("how often processes came in the place of others", lambda state: state.get("restarts")),
    "policy_cpu_seconds": ("CPU time of the kdamond and the rule", lambda state: _cpu_s(state)),
    "rss_bytes": ("resident memory of the processes", lambda state: state.get("rss_bytes")),
    "memory_bytes": ("memory that is charged to their cgroup", lambda state: _reading(state, "memory_bytes")),
    "swap_bytes": ("memory of theirs that is on swap", lambda state: _reading(state, "swap_bytes")),
    "compressed_bytes": ("what that takes in zram and zswap", lambda state: _reading(state, "compressed_bytes")),
    "saved_bytes": (
        "memory on swap less what it takes in zram and zswap; dropped file pages are not counted",
        lambda state: _saved_bytes(state),
    ),
}


def _acts(state: State) -> bool:
    return bool(state.get("in_force")) and not state.get("paused")


def _cpu_s(state: State) -> float | None:
    if not state.get("in_force"):
        return None
    return float(state.get("kdamond_cpu_s", 0.0) + state.get("rule", {}).get("cpu_s", 0.0))


def _reading(state: State, name: str) -> float | None:
    value: float | None = state.get("reading", {}).get(name)
    return value


def _saved_bytes(state: State) -> float | None:
    swapped, compressed = _reading(state, "swap_bytes"), _reading(state, "compressed_bytes")
    return None if swapped is None or compressed is None else swapped - compressed


class InService(Collector):
    """What a registry of Prometheus's library collects, looked up anew each time.

    Parameters
    ----------
    look : callable
        States of all services, by machine and name.
    """

    def __init__(self, look: Callable[[], States]) -> None:
        self._look = look

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All numbers, as gauges."""
        found = [
            ((machine, name, state.get("study", "")), state)
            for machine, states in self._look().items()
            for name, state in states.items()
        ]
        for name, (meaning, value_of) in _SINGLE.items():
            yield _gauge(name, meaning, (), ((labels, value_of(state)) for labels, state in found))
        watched = (
            ((*labels, metric), value) for labels, state in found for metric, value in state.get("watched", {}).items()
        )
        yield _gauge("watched", "the guard's last window", ("metric",), watched)
        applied = (
            ((*labels, str(nth)), scheme["sz_applied_bytes"])
            for labels, state in found
            for nth, scheme in enumerate(state.get("damos", ()))
        )
        yield _gauge("scheme_applied_bytes", "what the scheme was applied to since it was put on", ("scheme",), applied)


def _gauge(
    name: str, meaning: str, more: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(f"damoos_{name}", meaning, labels=[*_LABELS, *more])
    for labels, value in values:
        if value is not None:
            gauge.add_metric(labels, value)
    return gauge


def write(path: Path, states: Mapping[str, State], machine: str) -> None:
    """Write the numbers of all that is in service on a machine, in one step.

    Parameters
    ----------
    states : mapping
        The state of each, by its name.
    """
    registry = CollectorRegistry()
    registry.register(InService(lambda: {machine: states}))
    write_to_textfile(str(path), registry)


def serve(results: Path, port: int) -> Any:
    """Answer Prometheus on loopback, with the numbers of all that is in service from a results folder.

    Parameters
    ----------
    port : int
        0 for any that is free.

    Returns
    -------
    http.server.HTTPServer
        It answers in a thread of its own until `shutdown`.

    Raises
    ------
    MachineError : the port is taken, or not this user's to take
    """
    registry = CollectorRegistry()
    registry.register(InService(lambda: {one.folder.name: one.states() for one in Journal.all(results)}))
    try:
        server, _ = start_http_server(port, LOOPBACK, registry)
    except OSError as error:
        raise MachineError(f"port {port} of {LOOPBACK}: {error.strerror}; choose another --port") from None
    return server
