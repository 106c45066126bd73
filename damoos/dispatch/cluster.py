"""A Ray cluster on this computer: a head and a node for each machine, all on loopback, kept by a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damoos.common import paths
from damoos.errors import ConfigError, MachineError, UnsupportedError
from damoos.machines import catalog as machines

STOP_S = 30.0
POLL_S = 0.2
# What passes between driver and workers is small; by default each node would take a third of the memory for it.
_STORE_BYTES = 80 << 20
# Ray moves away from loopback on Linux unless it is told that this is no cluster of several computers.
ONLY_HERE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
_DASHBOARD = "--dashboard"
# What is imported by it and not by the rest of Ray.
_OF_DASHBOARD = ("aiohttp", "aiohttp_cors", "opencensus", "prometheus_client")


def _file() -> Path:
    return paths.cache() / "cluster.json"


def state() -> dict[str, Any] | None:
    """The cluster that runs here; None if none does.

    Returns
    -------
    dict or None
        ``address``, ``machines``, the ``pid`` of its keeper, and ``dashboard``: the address of Ray's, empty for none.
    """
    try:
        cluster: dict[str, Any] = json.loads(_file().read_text())
    except (OSError, ValueError):
        return None
    return cluster if _lives(cluster["pid"]) else None


def _lives(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return __spec__.name.encode() in words


def up(names: Sequence[str], dashboard: bool = False) -> dict[str, Any]:
    """Start one; each machine may be named several times, which makes several nodes that offer it.

    Parameters
    ----------
    names : sequence of str
    dashboard : bool
        With Ray's own dashboard, on loopback. Whoever can reach that can run programs here.

    Raises
    ------
    ConfigError : one runs already, or a machine is not known
    UnsupportedError : Ray, or what its dashboard needs, is not installed
    """
    if running := state():
        raise ConfigError(f"a cluster runs here already at {running['address']}; end it with 'damoos cluster down'")
    for name in names:
        machines.machine(name)
    _check_ray(dashboard)
    _file().parent.mkdir(parents=True, exist_ok=True)
    log = _file().with_suffix(".log")
    with open(log, "w") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, *([_DASHBOARD] if dashboard else []), *names],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output,
            env={**os.environ, **ONLY_HERE}, start_new_session=True,
        )  # fmt: skip
    assert keeper.stdout
    address, _, url = keeper.stdout.readline().decode().strip().partition(" ")
    if not address:
        last = (log.read_text().strip().splitlines() or ["it said nothing"])[-1]
        raise MachineError(f"the cluster did not start: {last} (the whole log: {log})")
    cluster = {"address": address, "pid": keeper.pid, "machines": list(names), "dashboard": url}
    _file().write_text(json.dumps(cluster))
    return cluster


def down() -> dict[str, Any]:
    """End the cluster that runs here.

    Raises
    ------
    ConfigError : there is none
    """
    cluster = state()
    if cluster is None:
        raise ConfigError("no damoos cluster runs here; start one with 'damoos cluster up --local i3,m5d'")
    os.kill(cluster["pid"], signal.SIGTERM)
    end = time.monotonic() + STOP_S
    while _lives(cluster["pid"]):
        if time.monotonic() > end:
            raise MachineError(f"the cluster's keeper process (pid {cluster['pid']}) does not end")
        time.sleep(0.1)
    _file().unlink(missing_ok=True)
    return cluster


def _check_ray(dashboard: bool) -> None:
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise UnsupportedError("Ray is not installed; pip install 'damoos[ray]'")
    if dashboard and any(find_spec(name) is None for name in _OF_DASHBOARD):
        raise UnsupportedError("the packages of Ray's dashboard are not installed; pip install 'ray[default]'")


class _Kept:
    """The cluster; a node that dies is replaced, as a cloud's autoscaler would."""

    def __init__(self, names: Sequence[str], dashboard: bool) -> None:
        from ray.cluster_utils import Cluster

        self._common: dict[str, Any] = {"node_ip_address": "127.0.0.1", "object_store_memory": _STORE_BYTES}
        head = {"num_cpus": 0, "include_dashboard": dashboard, **self._common}
        self._has_dashboard = dashboard
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self._nodes: list[tuple[str, Any]] = [(name, self._add(name)) for name in names]

    @property
    def address(self) -> str:
        """Of its head."""
        address: str = self._cluster.address
        return address

    @property
    def dashboard(self) -> str:
        """Address of Ray's dashboard; empty for none."""
        url = self._cluster.head_node.webui_url if self._has_dashboard else None
        return f"http://{url}" if url else ""

    def _add(self, name: str) -> Any:
        return self._cluster.add_node(num_cpus=1, resources={name: 1}, **self._common)

    def replace_dead(self) -> None:
        """Look at each node once."""
        for number, (name, node) in enumerate(self._nodes):
            if node is not None and all(
                raylet.process.poll() is None for raylet in node.all_processes.get("raylet", ())
            ):
                continue
            if node is not None:
                with contextlib.suppress(Exception):
                    self._cluster.remove_node(node, allow_graceful=False)
            self._nodes[number] = (name, None)
            try:
                self._nodes[number] = (name, self._add(name))
            except Exception as error:  # killed while it started, say: the next look tries again
                print(f"node for {name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """End all of it."""
        with contextlib.suppress(Exception):
            self._cluster.shutdown()


def main() -> int:
    """Keep a cluster until SIGTERM."""
    answer, sys.stdout = sys.stdout, sys.stderr
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    words = sys.argv[1:]
    kept = _Kept([word for word in words if word != _DASHBOARD], _DASHBOARD in words)
    try:
        print(kept.address, kept.dashboard, file=answer, flush=True)
        answer.close()
        while not stopped:
            time.sleep(POLL_S)
            kept.replace_dead()
    finally:
        kept.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
