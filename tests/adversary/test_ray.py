"""A Ray cluster, and a user of the computer who does not have its token, or who lies in wait for a driver."""

from __future__ import annotations

import ast
import base64
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from damoos.dispatch.cluster import ONLY_HERE
from damoos.dispatch.ray_address import RayCluster, access
from damoos.dispatch.ray_tls import variables
from damoos.errors import ConfigError
from damoos.testing.fleet import plugin
from tests.adversary.conftest import ATTACKER, needs_two_users, plant
from tests.conftest import DAMOOS, until
from tests.integration.test_fleet import SHORT, family, lives, named, sockets, state


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("fleet")
    return {**plugin(place), "DAMOOS_CACHE": str(place / "cache")}


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder as /tmp is, in which the attacker has put modules."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        if os.geteuid() == 0:
            plant(Path(name))
        yield Path(name)


@pytest.fixture(scope="module")
def cluster(env: dict[str, str], open_folder: Path) -> Iterator[None]:
    """A head and a node, started in a folder that others may write to."""
    words = [DAMOOS, "cluster", "up", "--local", "fake:a"]
    subprocess.run(words, env=env, cwd=open_folder, check=True, capture_output=True)
    yield
    subprocess.run([DAMOOS, "cluster", "down"], env=env, check=False, capture_output=True)


# What a user without the token would call: join with a node, read, write, start a job, have a task done.
CALLS = (
    "NodeInfoGcsService/GetClusterId", "NodeInfoGcsService/GetAllNodeInfo", "NodeInfoGcsService/RegisterNode",
    "InternalKVGcsService/InternalKVGet", "InternalKVGcsService/InternalKVPut", "JobInfoGcsService/AddJob",
    "NodeManagerService/RequestWorkerLease", "NodeManagerService/GetNodeStats", "ObjectManagerService/Pull",
    "CoreWorkerService/PushTask",
)  # fmt: skip
ATTACK = """
import json, os, sys
import grpc
user, ports, calls, token, certificates = json.load(sys.stdin)
if user:
    os.setgroups([])
    os.setresuid(user, user, user)
shown = (("authorization", "Bearer " + token),) if token else ()
known = grpc.ssl_channel_credentials(*map(str.encode, certificates)) if certificates else None
def channel_to(port):
    where = f"127.0.0.1:{port}"
    return grpc.secure_channel(where, known) if known else grpc.insecure_channel(where)
answers = []
for port in ports:
    with channel_to(port) as channel:
        for call in calls:
            try:
                channel.unary_unary("/ray.rpc." + call)(b"", timeout=20, metadata=shown)
                answers.append([port, call, "OK"])
            except grpc.RpcError as error:
                answers.append([port, call, error.code().name])
print(json.dumps(answers))
"""


def answers(
    ports: list[int], calls: tuple[str, ...], token: str = "", certificates: tuple[str, ...] = ()
) -> list[tuple[int, str, str]]:
    """What a cluster answers to calls of another user, who may have got hold of its token or of its certificates."""
    words = json.dumps([ATTACKER, ports, calls, token, certificates])
    done = subprocess.run([sys.executable, "-c", ATTACK], input=words, capture_output=True, text=True, check=True)
    return [tuple(answer) for answer in json.loads(done.stdout)]


def ports_of(keeper: int) -> dict[int, str]:
    """Ports on which processes of a cluster listen, and which process does."""
    inodes = {inode: pid for pid in family(keeper) for inode in sockets(pid)}
    found = {}
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            row = line.split()
            if row[3] == "0A" and row[9] in inodes:
                port = int(row[1].split(":")[1], 16)
                found[port] = Path(f"/proc/{inodes[row[9]]}/comm").read_text().strip()
    return found


def token_of(env: dict[str, str]) -> str:
    file = Path(state(env)["folder"], "token")
    assert file.stat().st_mode & 0o777 == 0o600
    return file.read_text()


def test_no_agent_of_the_cluster_is_to_serve_metrics(cluster: None, env: dict[str, str]) -> None:
    """Its agents come with ray[default], and would answer every user."""
    words = [word for pid in family(state(env)["pid"]) for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
    configs = [word.removeprefix("--config_list=") for word in words if word.startswith("--config_list=")]
    assert configs
    assert all(json.loads(base64.b64decode(config))["enable_metrics_collection"] is False for config in configs)


DRIVER = """
import sys
from damoos.dispatch.ray_address import RayCluster
from damoos.dispatch.ray_connection import Connection
connection = Connection(RayCluster("auto"))
print("connected", flush=True)
sys.stdin.read()
connection.close()
"""


# A task that looks for a module of the attacker's, and says which folders a worker has on its path, and is in.
LOOKS = """
import sys
from damoos.dispatch.ray_address import RayCluster
from damoos.dispatch.ray_connection import Connection
def look():
    import importlib.util, os, sys
    return importlib.util.find_spec("planted_module") is not None, os.getcwd(), sys.path
connection = Connection(RayCluster("auto"))
print(connection.ray.get(connection.ray.remote(num_cpus=0)(look).remote()))
connection.close()
"""


@needs_two_users
def test_modules_in_the_current_folder_are_not_imported(cluster: None, env: dict[str, str], open_folder: Path) -> None:
    """Neither by the cluster's processes, which were started there, nor by the workers of a driver in that folder."""
    words = [sys.executable, "-P", "-c", LOOKS]
    done = subprocess.run(words, env=env, cwd=open_folder, capture_output=True, text=True, check=True)
    found, where, path = ast.literal_eval(done.stdout.splitlines()[-1])
    assert (found, str(open_folder) in path) == (False, False), (where, path)
    assert not (open_folder / "came").exists()


@pytest.fixture
def driver(cluster: None, env: dict[str, str]) -> Iterator[int]:
    """Process id of a driver, which can be given tasks as a worker can."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", DRIVER], env=env, text=True, **pipes) as process:
        assert process.stdout.readline() == "connected\n"
        yield process.pid


@needs_two_users
def test_another_user_gets_nothing_from_a_cluster(cluster, driver, env) -> None:
    found = ports_of(state(env)["pid"]) | ports_of(driver)
    web_ports = [port for port, name in found.items() if name.startswith("ray::RuntimeEnv")]
    grpc_ports = [port for port in found if port not in web_ports]
    assert {answer for *_, answer in answers(grpc_ports, CALLS)} == {"UNAVAILABLE"}
    folder = Path(state(env)["folder"])
    stolen = tuple((folder / f"{name}.pem").read_text() for name in ("ca_cert", "server_key", "server_cert"))
    told = answers(grpc_ports, CALLS, certificates=stolen)
    assert {answer for *_, answer in told} == {"UNAUTHENTICATED", "UNIMPLEMENTED"}
    assert {call for _, call, answer in told if answer == "UNAUTHENTICATED"} == set(CALLS)
    assert {port for port, _, answer in told if answer == "UNAUTHENTICATED"} == set(grpc_ports)
    assert {answer for *_, answer in answers(grpc_ports, CALLS[:2], token_of(env))} == {"UNAVAILABLE"}
    with_both = answers(grpc_ports, CALLS[:2], token_of(env), stolen)
    assert {call for _, call, answer in with_both if answer == "OK"} == set(CALLS[:2]), "the calls are Ray's own"
    for port in web_ports:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)


@needs_two_users
def test_another_user_does_not_get_to_the_sockets_and_files_of_a_cluster(cluster, env) -> None:
    folder = state(env)["folder"]
    assert Path(folder, "ray").is_dir()
    looks = "import os, sys; os.setresuid(*3 * [int(sys.argv[2])]); os.listdir(sys.argv[1])"
    for path in (folder, f"{folder}/ray", f"{folder}/ray/session_latest/sockets"):
        done = subprocess.run([sys.executable, "-c", looks, path, str(ATTACKER)], capture_output=True, text=True)
        assert "PermissionError" in done.stderr, done.stderr


def test_the_token_is_in_no_command_line_and_in_no_environment(cluster, env) -> None:
    token = token_of(env).encode()
    assert len(token) == 64
    for pid in family(state(env)["pid"]):
        for name in ("cmdline", "environ"):
            assert token not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_a_cluster_that_asks_for_no_token_is_refused(env, tmp_path: Path) -> None:
    """And used where its user says so."""
    head = (
        "import sys\n"
        "from ray.cluster_utils import Cluster\n"
        "head = {'num_cpus': 0, 'resources': {'fake:a': 1}, 'no_monitor': True, 'object_store_memory': 80 << 20}\n"
        "cluster = Cluster(True, head_node_args={'node_ip_address': '127.0.0.1', **head})\n"
        "print(cluster.address, flush=True)\n"
        "sys.stdin.read()\n"
        "cluster.shutdown()\n"
    )
    looks = (
        "from damoos.dispatch.ray_address import RayCluster\n"
        "from damoos.dispatch.ray_connection import Connection\n"
        "import sys\n"
        "connection = Connection(RayCluster(sys.argv[1], insecure=True))\n"
        "print(list(connection.offers()))\n"
        "connection.close()\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        opened = {**env, **ONLY_HERE, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": folder}
        argv = [sys.executable, "-c", head]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(argv, env=opened, stderr=subprocess.DEVNULL, text=True, **pipes) as server:
            address = server.stdout.readline().strip()
            words = [DAMOOS, *SHORT, "--results", tmp_path, "--ray", address]
            refused = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
            used = subprocess.run(
                [sys.executable, "-c", looks, address],
                env={**env, "RAY_TMPDIR": folder},
                capture_output=True,
                text=True,
            )
            server.stdin.close()
    assert refused.returncode == 2
    assert "this cluster asks for no token" in refused.stderr.splitlines()[-1]
    assert "--insecure-cluster" in refused.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("sweep-1-*"))
    assert used.stdout.strip() == "['fake:a']", used.stderr


LIES_IN_WAIT = """
import os, socket, sys
os.setresuid(*3 * [int(sys.argv[1])])
server = socket.create_server((sys.argv[2], int(sys.argv[3])))
print(server.getsockname()[1], flush=True)
link, _ = server.accept()
if sys.argv[4] == "closes":
    server.close()
print(link.recv(100), flush=True)
sys.stdin.read()  # until the look at the listeners is over, which comes after the knock
"""


def knocked(kind: str, port: int = 0, host: str = "127.0.0.1") -> tuple[str, bytes]:
    """What is said of a head of another user, and what that user gets."""
    argv = [sys.executable, "-c", LIES_IN_WAIT, str(ATTACKER), host, str(port), kind]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        found = int(server.stdout.readline())
        with pytest.raises(ConfigError) as refused:
            access(RayCluster(f"{'localhost' if host == '127.0.0.1' else host}:{found}"))
        return str(refused.value), server.stdout.readline().strip()


@needs_two_users
def test_a_head_of_another_user_is_sent_nothing(env, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would learn the token, and what it sends would be unpickled."""
    monkeypatch.setenv("DAMOOS_CACHE", env["DAMOOS_CACHE"])
    told, got = knocked("stays")
    assert f"the cluster there belongs to user {ATTACKER}" in told
    assert got == "b''"


class Mute(grpc.GenericRpcHandler):
    """A head that asks for a token, takes any, and answers nothing else until it is told to."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.asked: list[str] = []

    def service(self, call):
        is_shown = "authorization" in dict(call.invocation_metadata)
        self.asked.append(call.method.rpartition("/")[2])

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            if not is_shown:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
            if not call.method.endswith("GetClusterId"):
                self.may_end.wait(30)
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


def test_a_head_that_takes_the_token_and_falls_silent_is_given_up(env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would wait for it for five minutes, heed no signal meanwhile, and then end the process."""
    monkeypatch.setenv("DAMOOS_CACHE", env["DAMOOS_CACHE"])
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    monkeypatch.setattr("damoos.dispatch.ray_address.KNOCK_S", 1.0)
    mute = Mute()
    server = grpc.server(ThreadPoolExecutor(4), handlers=[mute])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(ConfigError, match=f"--ray 127.0.0.1:{port}: no Ray cluster answers there: Deadline"):
            access(RayCluster(f"127.0.0.1:{port}"))
    finally:
        mute.may_end.set()
        server.stop(None)
    assert mute.asked == ["GetClusterId", "GetClusterId", "InternalKVGet"]


NAMES = """
import os, socket, sys
os.setresuid(*3 * [int(sys.argv[1])])
server = socket.socket(socket.AF_UNIX)
server.bind(b"\\0x\\nbad")
server.listen(1)
print("up", flush=True)
sys.stdin.read()
"""


@needs_two_users
def test_a_unix_socket_of_another_user_s_keeps_nobody_from_a_cluster(
    cluster, env, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name has a line break, and is a line of its own in /proc/net/unix."""
    monkeypatch.setenv("DAMOOS_CACHE", env["DAMOOS_CACHE"])
    argv = [sys.executable, "-c", NAMES, str(ATTACKER)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attacker:
        assert attacker.stdout.readline() == "up\n"
        assert access(RayCluster("auto")).address == state(env)["address"]
        attacker.communicate()


@needs_two_users
def test_nor_is_one_that_closes_its_door_behind_the_knock(env, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody seems to listen there."""
    monkeypatch.setenv("DAMOOS_CACHE", env["DAMOOS_CACHE"])
    told, got = knocked("closes")
    assert "the cluster there is gone again" in told or f"belongs to user {ATTACKER}" in told
    assert got == "b''"


@needs_two_users
def test_nor_is_one_at_debian_s_address_of_the_host_s_name(env, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to it comes from 127.0.0.1, as one to another computer would come from another address."""
    monkeypatch.setenv("DAMOOS_CACHE", env["DAMOOS_CACHE"])
    told, got = knocked("stays", host="127.0.1.1")
    assert f"the cluster there belongs to user {ATTACKER}" in told
    assert got == "b''"


@needs_two_users
def test_nor_one_beside_a_listener_of_ours_at_another_address(env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAMOOS_CACHE", env["DAMOOS_CACHE"])
    with socket.create_server(("127.0.0.2", 0)) as ours:
        told, got = knocked("stays", ours.getsockname()[1])
    assert f"the cluster there belongs to user {ATTACKER}" in told
    assert got == "b''"


def test_a_wrong_token_is_told_at_once(cluster, env, tmp_path: Path) -> None:
    other = tmp_path / "token"
    other.write_text("0" * 64)
    other.chmod(0o600)
    words = [DAMOOS, *SHORT, "--results", tmp_path, "--ray", state(env)["address"]]
    # A cache of its own does not know that the cluster is damoos's.
    stranger = {
        **env, **variables(Path(state(env)["folder"])), "DAMOOS_CACHE": str(tmp_path / "cache"),
        "RAY_AUTH_TOKEN_PATH": str(other),
    }  # fmt: skip
    done = subprocess.run(words, env=stranger, capture_output=True, text=True, check=False)
    assert (done.returncode, f"another token than that of {other}" in done.stderr) == (2, True)
    other.chmod(0o644)
    done = subprocess.run(words, env=stranger, capture_output=True, text=True, check=False)
    assert (done.returncode, f"other users can read {other}" in done.stderr) == (2, True)


def test_the_own_cluster_is_shown_its_own_token(cluster, env) -> None:
    """Whatever token Ray's variables name for other clusters."""
    script = DRIVER.replace("sys.stdin.read()", "print(list(connection.offers()))")
    others = {**env, "RAY_AUTH_TOKEN": "0" * 64, "RAY_AUTH_TOKEN_PATH": "/nowhere", "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run([sys.executable, "-c", script], env=others, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["connected", "['fake:a']"], done.stderr


TAKES_THE_PORT = """
import os, socket, sys
os.setresuid(*3 * [int(sys.argv[1])])
server = socket.create_server(("127.0.0.1", int(sys.argv[2])))
print("ready", flush=True)
got = b""
server.settimeout(2)
while got.count(b"knock") < 1:
    try:
        link, _ = server.accept()
        link.settimeout(2)
        got += link.recv(1 << 16)
    except TimeoutError:
        pass
print(got.hex(), flush=True)
"""


@needs_two_users
def test_a_dead_head_is_the_end_of_its_cluster_and_its_port_learns_nothing(cluster, env) -> None:
    """The rest of the cluster calls the head again and again, and would show it the token in plain text."""
    left, token = state(env), token_of(env)
    port = left["address"].partition(":")[2]
    for pid in named(left["pid"], "gcs_server"):
        os.kill(pid, signal.SIGKILL)
    argv = [sys.executable, "-c", TAKES_THE_PORT, str(ATTACKER), port]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as thief:
        assert thief.stdout.readline() == "ready\n"
        until(lambda: not lives(left["pid"]))
        with socket.create_connection(("127.0.0.1", int(port))) as link:
            link.sendall(b"knock")  # the last that it hears
        got = bytes.fromhex(thief.stdout.readline().strip())
    assert token.encode() not in got
    assert b"PRI * HTTP/2" not in got, "with which a call in plain text begins"
    assert not Path(left["folder"], "token").exists()
