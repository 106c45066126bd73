"""Numbers of what is in service, for Prometheus: as a file for node_exporter's textfile collector, and over HTTP."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, make_wsgi_app, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from damoos.common.loopback import HOST, App, Handler, Server, Start, is_for_here
from damoos.common.terminal import printable
from damoos.errors import MachineError
from damoos.service.journal import Journal
from damoos.service.listing import of_machine

# A dashboard of all numbers here, for people to import.
GRAFANA = Path(__file__).with_name("grafana.json")
State = Mapping[str, Any]

_LABELS = ("machine", "service", "study")
# What is known of a service whose keeper is gone.
_LASTING = ("study", "failed")
_SINGLE: Mapping[str, tuple[str, Callable[[State], float | None]]] = {
    "in_force": ("1 while the policy acts and a keeper that looks guards it", lambda state: float(_acts(state))),
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


@dataclass(frozen=True)
class Machine:
    """A machine with policies in service.

    Parameters
    ----------
    states : mapping
        The state of each service, by its name.
    has_keeper : bool
        Whether its keeper lives.
    looked_s : float, seconds since 1970
        When that has looked last; 0 where it never has.
    is_failing : bool
        Whether the keeper cannot write its journal.
    is_late : bool
        Whether the keeper lives and has not looked for long.
    """

    states: Mapping[str, State]
    has_keeper: bool
    looked_s: float
    is_failing: bool
    is_late: bool = False

    @property
    def now(self) -> Mapping[str, State]:
        """What of the states holds now: without a keeper that looks nothing is in force, and the numbers are old."""
        if self.has_keeper and not self.is_late:
            return self.states
        return {name: {key: state[key] for key in _LASTING if key in state} for name, state in self.states.items()}


_OF_KEEPER: Mapping[str, tuple[str, Callable[[Machine], float | None]]] = {
    "keeper_up": ("1 while the machine's keeper lives", lambda machine: float(machine.has_keeper)),
    "keeper_last_look_timestamp_seconds": (
        "when the keeper has looked at its machine last, as Unix time",
        lambda machine: machine.looked_s or None,
    ),
    "keeper_journal_failing": (
        "1 while the keeper cannot write its journal: the disk is full, say",
        lambda machine: float(machine.is_failing),
    ),
}


def _acts(state: State) -> bool:
    return bool(state.get("in_force")) and not state.get("paused")


def _cpu_s(state: State) -> float | None:
    if not state.get("in_force"):
        return None
    return float(state.get("kdamond_cpu_s", 0.0) + (state.get("rule") or {}).get("cpu_s", 0.0))


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
        All machines, by name.
    """

    def __init__(self, look: Callable[[], Mapping[str, Machine]]) -> None:
        self._look = look

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All numbers, as gauges."""
        machines = self._look()
        for name, (meaning, of_keeper) in _OF_KEEPER.items():
            yield _gauge(name, meaning, ("machine",), (((one,), of_keeper(machines[one])) for one in machines))
        found = [
            ((name, service, state.get("study", "")), state)
            for name, machine in machines.items()
            for service, state in machine.now.items()
        ]
        for name, (meaning, value_of) in _SINGLE.items():
            yield _gauge(name, meaning, _LABELS, ((labels, value_of(state)) for labels, state in found))
        watched = (
            ((*labels, metric), value) for labels, state in found for metric, value in state.get("watched", {}).items()
        )
        yield _gauge("watched", "the guard's last window", (*_LABELS, "metric"), watched)
        applied = (
            ((*labels, str(nth)), scheme.get("sz_applied_bytes"))
            for labels, state in found
            for nth, scheme in enumerate(state.get("damos", ()))
        )
        what = "what the scheme was applied to since it was put on"
        yield _gauge("scheme_applied_bytes", what, (*_LABELS, "scheme"), applied)


def _gauge(
    name: str, meaning: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(f"damoos_{name}", meaning, labels=labels)
    for of_labels, value in values:
        if value is not None and math.isfinite(value):  # what nobody knows is no sample
            gauge.add_metric(of_labels, value)
    return gauge


def write(path: Path, name: str, machine: Machine) -> None:
    """Write the numbers of all that is in service on a machine, in one step.

    Raises
    ------
    OSError : it cannot be written; what was there stays
    """
    registry = CollectorRegistry()
    registry.register(InService(lambda: {name: machine}))
    write_to_textfile(str(path), registry)


def serve(results: Path, port: int) -> Server:
    """Answer Prometheus on loopback, with the numbers of all that is in service from a results folder.

    Parameters
    ----------
    port : int
        0 for any that is free.

    Returns
    -------
    Server
        It answers in a thread of its own until `shutdown`.

    Raises
    ------
    MachineError : the port is taken, or not this user's to take
    """
    registry = CollectorRegistry()
    registry.register(InService(lambda: _all_looked_up(results)))
    try:
        server = Server((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", error)
        raise MachineError(f"port {port} of {HOST}: {why}; choose another --port") from None
    server.set_app(_for_here(make_wsgi_app(registry)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _for_here(app: App) -> App:
    """Answer as the app does, but nothing to a page of another computer."""

    def asked(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        if is_for_here(environ):
            return app(environ, start)
        start("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"these numbers are for the computer that they are of; ask 127.0.0.1 or localhost\n"]

    return asked


def _all_looked_up(results: Path) -> dict[str, Machine]:
    """Machines by name; one whose journal cannot be read at this moment is left out, and does not keep the others."""
    found = {}
    for journal in Journal.all(results):
        try:
            found[journal.folder.name] = _looked_up(journal)
        except OSError as error:
            print(printable(f"damoos: {journal.folder}: {error.strerror or error}"), file=sys.stderr)
    return found


def _looked_up(journal: Journal) -> Machine:
    """A machine as its journal tells."""
    keeper = journal.keeper
    return Machine(of_machine(journal), keeper.lives, keeper.looked_s, bool(keeper.unwritten_s), keeper.is_late)
