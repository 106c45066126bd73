"""A cluster that cannot be found again: 'damoos cluster up' leaves nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from damoos.testing.fleet import plugin
from tests.conftest import DAMOOS, until

UP = [DAMOOS, "cluster", "up", "--local", "fake:a"]


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    found = {**plugin(tmp_path), "DAMOOS_CACHE": str(tmp_path / "cache")}
    yield found
    for pid in left(found):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def left(env: dict[str, str]) -> list[int]:
    """Processes with this test's cache."""
    mark = f"DAMOOS_CACHE={env['DAMOOS_CACHE']}\0".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in file.read_bytes():
                found.append(int(file.parent.name))
    return found


def test_a_cluster_whose_file_cannot_be_written_ends(env: dict[str, str]) -> None:
    """A folder of its name stands for a disk that is full."""
    (Path(env["DAMOOS_CACHE"]) / f"ray-{os.geteuid()}/cluster.json/full").mkdir(parents=True)
    done = subprocess.run(UP, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    until(lambda: left(env) == [])


def test_a_cluster_whose_start_is_interrupted_ends(env: dict[str, str]) -> None:
    up = subprocess.Popen(UP, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: len(left(env)) > 2)
    up.send_signal(signal.SIGINT)
    up.communicate(timeout=120)
    assert up.returncode == 130
    until(lambda: left(env) == [])


def test_a_cluster_whose_starter_is_killed_ends(env: dict[str, str]) -> None:
    up = subprocess.Popen(UP, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: len(left(env)) > 2)
    up.kill()
    up.communicate(timeout=120)
    until(lambda: left(env) == [])
