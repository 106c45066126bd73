"""A workload that does what no workload should. Nothing of it is left, and the next run is as any other."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.adversary.conftest import AgentProcess, Start

SPEC = {"env": {}, "limit_s": 60, "sample_s": 0.1, "drop_caches": False, "context": None}
MARK = "31.41592"

DAEMON = f"""
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "{MARK}"])
    os._exit(0)
os.wait()
"""
BROOD = f"""
import os, time
for _ in range(200):
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.01)
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "{MARK}"])
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
RENAMED = """
import ctypes
ctypes.CDLL(None).prctl(15, b") R 1 1 (", 0, 0, 0)
import time
time.sleep(0.5)
"""
THREADS = """
import threading, time
threading.stack_size(64 << 10)
for _ in range(5000):
    threading.Thread(target=time.sleep, args=(1.5,), daemon=True).start()
time.sleep(1)
"""
GROUP_KILLER = "import os, signal; os.kill(0, signal.SIGKILL)"
FILLER = """
import sys
with open("big", "wb") as file:
    file.truncate(1 << 30)
    file.write(b"x" * (8 << 20))
for number in range(2000):
    open(f"file-{number}", "w").close()
"""


def survivors() -> str:
    return subprocess.run(["pgrep", "-f", f"sleep {MARK}"], capture_output=True, text=True, check=False).stdout


@pytest.fixture
def agent(start: Start) -> AgentProcess:
    agent = start()
    agent.answer()
    return agent


def run(agent: AgentProcess, code: str, number: int = 1, **changes) -> dict:
    return agent.call("run", number, argv=["/usr/bin/python3", "-S", "-c", code], **{**SPEC, **changes})


@pytest.mark.parametrize(
    "code", [DAEMON, BROOD, RENAMED, THREADS, FILLER], ids=["daemon", "brood", "renamed", "threads", "filler"]
)
def test_nothing_of_it_is_left(agent: AgentProcess, code: str) -> None:
    raw = run(agent, f"import os; print(os.getcwd(), flush=True)\n{code}")
    assert raw["exit_status"] == 0, raw["stderr"]
    assert survivors() == ""
    assert run(agent, "print(1)", 2)["stdout"] == "1\n"
    assert agent.call("bye", 3) == []
    folder = Path(raw["stdout"].splitlines()[0])
    assert folder.name.startswith("damoos-run-")
    assert not folder.exists()


def test_one_that_kills_its_group_kills_nobody_else(agent: AgentProcess) -> None:
    assert run(agent, GROUP_KILLER)["exit_status"] == -9
    assert run(agent, "print(1)", 2)["stdout"] == "1\n"


def test_many_threads_cost_the_measuring_little(agent: AgentProcess) -> None:
    raw = run(agent, THREADS)
    assert raw["runtime_s"] >= 1
    assert len(raw["samples"]) >= 3


def test_one_that_prints_without_end_is_ended(agent: AgentProcess) -> None:
    error = run(agent, "while True: print('x' * 100_000)")
    assert error["type"] == "WorkloadError"
    assert error["message"] == "the program printed more than 256 MiB; have it print less, or to /dev/null"
    assert run(agent, "print(1)", 2)["stdout"] == "1\n"


LEAVES = {
    "many files": "for number in range(5000): open(f'{number}.csv', 'w').close()",
    "large files": "for number in range(5): open(f'{number}.csv', 'w').write('\\0' * (1 << 20))",
    "a socket": "import socket; socket.socket(socket.AF_UNIX).bind('1.csv')",
    "a pipe": "import os; os.mkfifo('1.csv')",
    "a link to nothing": "import os; os.symlink('nosuch', '1.csv')",
    "a deep tree": "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')",
}
SAYS = {
    "many files": "metrics are read from more than 1000 files",
    "large files": "the files that metrics are read from have more than 20 MiB with",
    "a socket": "'1.csv' in the run's folder is no regular file",
    "a pipe": "'1.csv' in the run's folder is no regular file",
    "a link to nothing": "'1.csv' in the run's folder: No such file or directory",
    "a deep tree": "no files are found that match '**/*.csv': its folders are nested too deeply",
}


@pytest.mark.parametrize("name", LEAVES)
def test_what_it_leaves_for_its_metrics_fails_its_run_only(agent: AgentProcess, name: str) -> None:
    error = run(agent, LEAVES[name], files={"p99_ms": "**/*.csv"})
    assert error["type"] == "WorkloadError"
    assert error["message"].startswith(f"metric 'p99_ms': {SAYS[name]}")
    assert run(agent, "print(1)", 2, files={"p99_ms": "**/*.csv"})["stdout"] == "1\n"
    assert agent.call("bye", 3) == []


def test_one_that_is_gone_before_it_is_looked_at(agent: AgentProcess) -> None:
    for number in range(1, 20):
        answer = agent.call("run", number, argv=["true"], **SPEC)
        assert answer.get("exit_status") == 0, answer


def test_a_killed_agent_s_program_dies_with_it(agent: AgentProcess) -> None:
    """By its guardian."""
    call = {"id": 1, "call": "run", "args": {**SPEC, "argv": ["sleep", MARK]}}
    agent.send(json.dumps(call).encode() + b"\n")
    while not survivors():
        os.sched_yield()
    agent.process.kill()
    agent.process.wait()
    while survivors():
        os.sched_yield()
