"""'damoos watch' beside a study that a real process runs, on a machine that is not there."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.testing import fleet
from tests.conftest import DAMOOS

STUDY = "true-fake-a-1"
Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Start a command in a folder of its own; one that tunes waits for nobody."""

    def started(*words: str, latency_s: float = 0.0, **options) -> subprocess.Popen[str]:
        environment = fleet.plugin(tmp_path / "plugin", latency_s=latency_s)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([DAMOOS, *words], cwd=tmp_path, env=environment, text=True, **pipes)

    return started


def tune(begin: Begin, *words: str, **options) -> subprocess.Popen[str]:
    return begin(
        "tune", "--command", "true", "--machine", "fake:a", "--trials", "3", "--repeats", "2", *words, **options
    )


def read(end: int, until: bytes = b"") -> bytes:
    """What comes on a terminal, until something does or it is closed."""
    shown = b""
    while not until or until not in shown:
        try:
            shown += os.read(end, 65536)
        except OSError:
            break
    return shown


def test_on_a_terminal_there_is_a_table_until_the_end(begin: Begin, tmp_path: Path) -> None:
    runner = tune(begin, latency_s=0.3)
    while not (tmp_path / "results" / STUDY / "baseline-000.parquet").exists():
        assert runner.poll() is None
        time.sleep(0.05)
    runner.send_signal(signal.SIGSTOP)  # until both look on, however slow this machine is
    ours, theirs = pty.openpty()
    lookers = [begin("watch", STUDY, stderr=theirs), begin("watch", STUDY)]
    os.close(theirs)
    assert b"parameter" in read(ours, b"parameter")
    assert lookers[1].stderr
    assert lookers[1].stderr.readline().startswith("damoos: machine fake:a: ")
    lookers[1].send_signal(signal.SIGTERM)  # as Ctrl-C; the other one, and the study, go on
    assert lookers[1].communicate(timeout=900)[1].endswith(f"stopped watching; {STUDY} continues\n")
    assert lookers[1].returncode == 130
    runner.send_signal(signal.SIGCONT)
    last = read(ours).rpartition(b"parameter")[2]
    os.close(ours)
    assert last.count(b"trial-00") == 3
    assert b"validation-001-base" in last
    out = lookers[0].communicate(timeout=900)[0]
    assert "verdict: " in out
    assert runner.communicate(timeout=900)[0].startswith(out)  # the runner says besides where its figure is
    assert runner.returncode == lookers[0].returncode == 0


def test_the_exit_code_is_the_studys(begin: Begin, tmp_path: Path) -> None:
    runner = tune(begin, "--score", "sla", "--limit", "memory_saving>=99%")
    runner.communicate(timeout=600)
    looking = begin("watch", STUDY, "--format", "json")
    out, err = looking.communicate(timeout=900)
    assert looking.returncode == runner.returncode == 4
    assert json.loads(out) == json.loads((tmp_path / "results" / STUDY / "result.json").read_text())
    assert err.startswith(f"damoos: study '{STUDY}': none of its trials kept the limits of the score. Leave")
    assert len(err.splitlines()) == 1
