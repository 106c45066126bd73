"""A controller that sends what is no call, and one that is gone."""

from __future__ import annotations

import json
import time

import pytest

from tests.adversary.conftest import AgentProcess, Start

SLEEP = {"argv": ["sleep", "100"], "env": {}, "limit_s": 90, "sample_s": 0.2, "drop_caches": False, "context": None}


def is_working(agent: AgentProcess) -> int:
    """Have it run a program; returns a process id of the program's."""
    agent.send(json.dumps({"id": 7, "call": "run", "args": SLEEP}).encode() + b"\n")
    while True:
        with open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children") as children:
            for pid in map(int, children.read().split()):
                with open(f"/proc/{pid}/cmdline") as words:
                    if words.read().startswith("sleep"):
                        return pid
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


NO_CALLS = (
    b"junk", b"\xff\xfe", b"[]", b"null", b'{"id": 1}', b'{"call": 3}', b'{"call": "run"}',
    b'{"id": 1, "call": "facts", "args": 3}', b"{" * 100_000,
)  # fmt: skip


@pytest.mark.parametrize("line", NO_CALLS, ids=lambda line: line[:20])
def test_a_line_that_is_no_call_ends_the_agent_and_what_it_runs(start: Start, line: bytes) -> None:
    """It used to kill the thread that reads, so that the dead-man timer never fired."""
    agent = start()
    agent.answer()
    program = is_working(agent)
    agent.send(line + b"\n")
    agent.ended()
    assert is_gone(program)


def test_silence_ends_the_agent_and_what_it_runs(start: Start) -> None:
    agent = start(dead_man_s=1.0)
    agent.answer()
    program = is_working(agent)
    agent.ended()
    assert is_gone(program)


@pytest.mark.parametrize("name", ["_interrupted", "__init__", "no_such_call"])
def test_only_calls_are_called(start: Start, name: str) -> None:
    agent = start()
    agent.answer()
    assert agent.call(name)["message"] == f"the agent has no call '{name}'"
    assert agent.call("which", 2, program="sh").endswith("/sh")


def test_a_cancel_that_comes_with_its_call_is_not_lost(start: Start) -> None:
    agent = start()
    agent.answer()
    call = json.dumps({"id": 1, "call": "run", "args": SLEEP}).encode()
    agent.send(call + b'\n{"call": "cancel"}\n')
    assert agent.answer()["type"] == "MachineLost"
    assert agent.call("which", 2, program="sh").endswith("/sh")


def test_a_controller_that_comes_back_gets_the_machine_at_once(start: Start) -> None:
    """Its former agent still waits for a line; others are told that the machine is busy."""
    former = start("first")
    former.answer()
    program = is_working(former)
    mine = start("second", "older", "first")
    assert mine.answer()["pid"] == mine.process.pid
    other = start("another's", "another's first")
    assert is_gone(program)
    former.ended()
    assert other.answer()["type"] == "MachineBusy"
