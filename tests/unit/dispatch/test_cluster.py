"""The word that a cluster's keeper leaves: it names that process, and none that has got its number since."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.agent import proc
from damoos.dispatch import cluster
from damoos.errors import ConfigError

OTHER = 61235
Process = subprocess.Popen[bytes]


def running(user: int | None = None) -> Process:
    """A process with the words of a cluster's keeper."""
    words = [os.path.realpath(sys.executable), "-S", "-c", "print(flush=True); input()", "damoos.dispatch.cluster"]
    process = subprocess.Popen(words, user=user, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    return process


@pytest.fixture
def process() -> Iterator[Process]:
    """One of this user's."""
    with running() as found:
        yield found
        found.kill()


def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int, start_ticks: int | None) -> None:
    """What a cluster has left."""
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    folder = tmp_path / f"ray-{os.geteuid()}"
    folder.mkdir(0o700)
    word = {"address": "127.0.0.1:1", "dashboard": "", "pid": pid, "machines": ["i3"], "folder": str(tmp_path / "none")}
    started = {} if start_ticks is None else {"start_ticks": start_ticks}
    (folder / "cluster.json").write_text(json.dumps({**word, **started}))


def test_a_keeper_is_known_by_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process) -> None:
    ticks = proc.start_ticks(process.pid)
    assert ticks is not None
    left(tmp_path, monkeypatch, process.pid, ticks)
    found = cluster.state()
    assert found
    assert found.pid == process.pid


def test_a_process_with_its_number_is_no_cluster_and_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process
) -> None:
    left(tmp_path, monkeypatch, process.pid, 1)
    assert cluster.state() is None
    with pytest.raises(ConfigError, match="no damoos cluster runs here"):
        cluster.down()
    assert process.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_process_of_another_user_is_no_cluster_and_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(OTHER) as other:
        left(tmp_path, monkeypatch, other.pid, None)
        assert cluster.state() is None
        with pytest.raises(ConfigError, match="no damoos cluster runs here"):
            cluster.down()
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"address": ' + b"[" * 100_000,
        b"[1]",
        b'{"pid": 1}',
        b"\xff",
        b'{"address": "' + b"x" * (1 << 20),
    ],
    ids=["deep", "deep value", "list", "incomplete", "no UTF-8", "large"],
)
def test_a_damaged_word_is_that_of_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    left(tmp_path, monkeypatch, os.getpid(), None)
    cluster._file().write_bytes(content)
    assert cluster.state() is None
    with pytest.raises(ConfigError, match="no damoos cluster runs here"):
        cluster.down()


def test_a_pipe_in_the_place_of_the_word_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(tmp_path, monkeypatch, os.getpid(), None)
    cluster._file().unlink()
    os.mkfifo(cluster._file())
    assert cluster.state() is None
