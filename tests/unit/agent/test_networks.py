"""A network of a run's own, on this host: as root, and as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from damoos.agent import networks
from damoos.agent.networks import Network
from damoos.errors import UnsupportedError

SERVES = """
import socket
server = socket.socket()
server.bind(("127.0.0.1", 80))
server.listen()
socket.create_connection(("127.0.0.1", 80)).close()
print(open("/proc/net/dev").read())
"""


@pytest.fixture
def network() -> Iterator[Network]:
    """One that is let go of; a skip that says why where this host refuses them, with DAMOOS_REQUIRE_GUEST a failure."""
    try:
        network = Network()
    except UnsupportedError as error:
        if os.environ.get("DAMOOS_REQUIRE_GUEST"):
            raise
        pytest.skip(str(error))
    yield network
    network.close()


def test_it_has_loopback_and_nothing_else(network: Network) -> None:
    """A port below 1024 can be had by root only, or where the network's owner says so."""
    code = SERVES if os.geteuid() == 0 else SERVES.replace("80", "8080")
    argv = [sys.executable, "-S", "-c", code]
    out = subprocess.run(argv, preexec_fn=network.enter, capture_output=True, text=True, check=True).stdout
    devices = [line.split(":")[0].strip() for line in out.strip().splitlines()[2:]]
    assert devices == ["lo"]


def test_it_is_of_its_owner_and_gone_with_it(network: Network) -> None:
    here = os.readlink("/proc/self/ns/net")
    argv = ["readlink", "/proc/self/ns/net"]
    there = subprocess.run(argv, preexec_fn=network.enter, capture_output=True, text=True, check=True).stdout.strip()
    assert there != here
    assert os.readlink("/proc/self/ns/net") == here
    network.close()
    network.close()  # once more changes nothing


AS_A_USER = """
import ctypes, os, subprocess
from damoos.agent.networks import Network
os.setgid(61234)
os.setuid(61234)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as it is after an exec, /proc/self is the user's
network = Network()
tells = "import os, socket; print(os.getuid(), os.getgid(), socket.socket().bind(('127.0.0.1', 8080)))"
subprocess.run(["/usr/bin/python3", "-S", "-c", tells], preexec_fn=network.enter, check=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_is_itself_in_it() -> None:
    """In a process of its own, because one that has become another user stays it."""
    done = subprocess.run([sys.executable, "-c", AS_A_USER], capture_output=True, text=True, check=False)
    assert done.stdout == "61234 61234 None\n", done.stderr


def test_a_refusal_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "unshare")

    monkeypatch.setattr(networks, "_called", refuse)
    with pytest.raises(UnsupportedError, match=r'^this machine refuses a network of its own \(network = "own"\); run'):
        Network()
