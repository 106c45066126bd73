"""A Ray cluster on this computer: a head and a node for each machine, all on loopback, kept by a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import RootModel

from damoos.agent import proc
from damoos.common import interpreter
from damoos.common.atomic_file import fill
from damoos.common.json_file import JsonForm
from damoos.dispatch import ray_tls, ray_token
from damoos.dispatch.own_process import OwnProcess
from damoos.errors import ConfigError, MachineError, UnsupportedError
from damoos.machines import catalog as machines

STOP_S = 30.0
POLL_S = 0.2
# What passes between driver and workers is small; by default each node would take a third of the memory for it.
_STORE_BYTES = 80 << 20
# Ray moves away from loopback on Linux unless it is told that this is no cluster of several computers.
ONLY_HERE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
# The metrics ports of Ray's agents, which ray[default] brings, would answer every user without asking for the token. As
# a variable of the environment, RAY_enable_metrics_collection=0 did not reach each agent (Ray 2.60).
_SYSTEM = {"enable_metrics_collection": False}
_DASHBOARD = "--dashboard"
# What a keeper reads when its cluster can be found, so that it stays.
_STAY = b"stay\n"
# What is imported by it and not by the rest of Ray.
_OF_DASHBOARD = ("aiohttp", "aiohttp_cors", "opencensus", "prometheus_client")


@dataclass(frozen=True)
class RunningCluster:
    """A cluster of this computer, as its keeper leaves word of it for other processes of this user.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of its head.
    dashboard : str
        Address of Ray's dashboard; empty for none.
    pid : int
        Its keeper.
    machines : list of str
        One for each node.
    folder : str
        Ray's files and sockets; only this user can enter it.
    start_ticks : int or None
        When its keeper began; None for a cluster of an older damoos.
    """

    address: str
    dashboard: str
    pid: int
    machines: list[str]
    folder: str
    start_ticks: int | None = None

    @property
    def keeper(self) -> OwnProcess:
        """Its keeper, which is this user's and no other process that has got its number."""
        return OwnProcess(self.pid, __spec__.name, self.start_ticks)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of Ray for processes that use it."""
        return {**ONLY_HERE, "RAY_TMPDIR": self.folder, **ray_tls.variables(Path(self.folder))}

    @property
    def token_file(self) -> Path:
        """File of its token, which is no other cluster's."""
        return Path(self.folder) / "token"


_WORD = JsonForm(RootModel[RunningCluster], 1 << 20)


def _file() -> Path:
    return ray_token.folder() / "cluster.json"


def state() -> RunningCluster | None:
    """The cluster that runs here; None if none does."""
    found = _left()
    return found if found and found.keeper.is_running else None


def _left() -> RunningCluster | None:
    """The cluster that was started last and not ended by 'damoos cluster down'."""
    word = _WORD.read_if_good(_file())
    known = {field.name for field in fields(RunningCluster)}
    if word is None:
        return None
    return RunningCluster(**{name: value for name, value in word.items() if name in known})


def up(names: Sequence[str], dashboard: bool = False) -> RunningCluster:
    """Start one; each machine may be named several times, which makes several nodes that offer it.

    Parameters
    ----------
    names : sequence of str
    dashboard : bool
        With Ray's own dashboard, on loopback. It asks for the token.

    Raises
    ------
    ConfigError : one runs already, or a machine is not known
    UnsupportedError : Ray, or what its dashboard needs, is not installed
    """
    if running := state():
        raise ConfigError(f"a cluster runs here already at {running.address}; end it with 'damoos cluster down'")
    for name in names:
        machines.machine(name)
    _check_ray(dashboard)
    if former := _left():
        shutil.rmtree(former.folder, ignore_errors=True)
    # Ray makes its own folders writable to all users, so the one around them is closed. Its sockets need a short path.
    folder = tempfile.mkdtemp(prefix="damoos-ray-")
    keeper: subprocess.Popen[bytes] | None = None
    try:
        keeper = _keeper(folder, names, dashboard)
        assert keeper.stdout
        address, _, url = keeper.stdout.readline().decode().strip().partition(" ")
        if not address:
            last = (_log().read_text().strip().splitlines() or ["it said nothing"])[-1]
            raise MachineError(f"the cluster did not start: {last} (the whole log: {_log()})")
        started = RunningCluster(address, url, keeper.pid, list(names), folder, proc.start_ticks(keeper.pid))
        fill(_file(), [json.dumps(asdict(started)).encode()])
        _let_stay(keeper)
    except BaseException:  # a full disk, or Ctrl-C: nobody would find the cluster again
        if keeper:
            _end(keeper)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return started


def _log() -> Path:
    return _file().with_suffix(".log")


def _keeper(folder: str, names: Sequence[str], dashboard: bool) -> subprocess.Popen[bytes]:
    """Start the process that keeps a cluster; both end with its standard input, until `_let_stay`."""
    token_file = ray_token.made(Path(folder) / "token")
    with open(_log(), "w") as output:
        return subprocess.Popen(
            interpreter.module(__spec__.name, *([_DASHBOARD] if dashboard else []), *names),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, start_new_session=True,
            env={
                **ray_token.without_token(os.environ), **ray_token.demanded(token_file), **ONLY_HERE,
                **ray_tls.certified(Path(folder)), **interpreter.SAFE_PATH, "RAY_TMPDIR": folder,
            },
        )  # fmt: skip


def _let_stay(keeper: subprocess.Popen[bytes]) -> None:
    """Have a keeper outlive this process.

    Raises
    ------
    MachineError : it has ended
    """
    assert keeper.stdin
    try:
        keeper.stdin.write(_STAY)
        keeper.stdin.close()
    except BrokenPipeError:
        raise MachineError(f"the cluster ended as soon as it had started (the whole log: {_log()})") from None


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """End a keeper that was not let stay, and its cluster with it."""
    assert keeper.stdin
    with contextlib.suppress(OSError):
        keeper.stdin.close()
    try:
        keeper.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(keeper.pid, signal.SIGKILL)
        keeper.wait()


def down() -> RunningCluster:
    """End the cluster that runs here.

    Raises
    ------
    ConfigError : there is none
    """
    cluster = state()
    if cluster is None:
        raise ConfigError("no damoos cluster runs here; start one with 'damoos cluster up --local i3,m5d'")
    cluster.keeper.send(signal.SIGTERM)
    end = time.monotonic() + STOP_S
    while cluster.keeper.is_running:
        if time.monotonic() > end:
            raise MachineError(f"the cluster's keeper process (pid {cluster.pid}) does not end")
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
        # Nothing grows here, and Ray's monitor would listen on a port of its own without asking for the token.
        head = {"num_cpus": 0, "include_dashboard": dashboard, "no_monitor": True, **self._common}
        head["_system_config"] = _SYSTEM
        self._has_dashboard = dashboard
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self._nodes: list[tuple[str, Any]] = [(name, self._add(name)) for name in names]

    @property
    def address(self) -> str:
        """The address of the cluster's head."""
        address: str = self._cluster.address
        return address

    @property
    def dashboard(self) -> str:
        """Address of Ray's dashboard; empty for none."""
        url = self._cluster.head_node.webui_url if self._has_dashboard else None
        return f"http://{url}" if url else ""

    def _add(self, name: str) -> Any:
        return self._cluster.add_node(num_cpus=1, resources={name: 1}, **self._common)

    @property
    def has_head(self) -> bool:
        """Whether the head lives; a cluster without it is none, and its nodes would look for another one."""
        servers = self._cluster.head_node.all_processes.get("gcs_server", ())
        return bool(servers) and all(server.process.poll() is None for server in servers)

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
    """Keep a cluster until SIGTERM; end it at once if the process that starts it ends before it says `_STAY`."""
    answer, sys.stdout = sys.stdout, sys.stderr
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    words = sys.argv[1:]
    kept = _Kept([word for word in words if word != _DASHBOARD], _DASHBOARD in words)
    try:
        print(kept.address, kept.dashboard, file=answer, flush=True)
        answer.close()
        if sys.stdin.buffer.readline() != _STAY:
            return 1
        while not stopped and kept.has_head:
            time.sleep(POLL_S)
            kept.replace_dead()
    finally:
        kept.end()
        shutil.rmtree(os.environ["RAY_TMPDIR"], ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
