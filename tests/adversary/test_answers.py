"""A machine whose agent answers in the right form what no machine is like: each ends as damoos's own error."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from damoos import cli
from damoos.common import terminal
from damoos.dispatch.run import run_once
from damoos.doctor import examine_machine
from damoos.errors import DamoosError, MachineError, MachineLost, from_wire
from damoos.machines import answers, catalog, wire
from damoos.machines import link as agent_link
from damoos.machines.base import AS_IT_IS, Conditions, Machine, Session, looked
from damoos.machines.link import AgentLink
from damoos.policies.base import NonePolicy
from damoos.testing.fake import FakeMachine
from damoos.workloads.base import Program, ProgramWorkload, Tuning
from tests import hostile_json

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
STEERING = "\x1b]0;owned\x07\x1b[2J\r\u202e\u2066\x9b31m"
FACTS: dict[str, Any] = {
    "kernel": "6.12", "kernel_version": "#1", "arch": "x86_64", "hostname": "h", "vcpus": 1, "mem_bytes": 1 << 30,
    "swap_bytes": 1 << 28, "cmdline": "quiet", "boot_id": "b", "damon_in_use": "", "damon_stat": None,
    "flushes_tlb": False, "has_thp": True, "metrics": [], "records": "trace", "left_behind": [],
}  # fmt: skip
values = hostile_json.values([10**400, -1, 0, STEERING, "x" * 200])
changed = hostile_json.changed_by(values)


class Peer:
    """An agent's streams: answers each call at once, in the thread that makes it."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told
        self._from, self._to = os.pipe()
        self.answers = os.fdopen(self._from, "rb")
        self._say({"id": 0, "result": {"pid": 1}})

    def _say(self, message: Any) -> None:
        os.write(self._to, json.dumps(message).encode() + b"\n")

    def write(self, line: bytes) -> None:
        call = json.loads(line)
        if "id" in call:
            self._say({"id": call["id"], "result": self._told.get(call["call"])})

    def flush(self) -> None: ...

    def close(self) -> None:
        if self._to >= 0:
            os.close(self._to)
        self._to = -1


class HostileSession(Session):
    """A session with such an agent."""

    def __init__(self, told: dict[str, Any]) -> None:
        peer = Peer(told)
        self.agent = AgentLink(peer, peer.answers, "token")  # type: ignore[arg-type]
        try:
            self.facts = self.agent.call("facts")
        except BaseException:
            self.close()
            raise

    def copy(self, path: Path) -> str:
        return str(path)

    def close(self) -> None:
        self.agent.hang_up()


class HostileMachine(Machine):
    """Opens such sessions."""

    name = "hostile"
    conditions = AS_IT_IS

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told

    def open(self, say: Any = None) -> HostileSession:
        return HostileSession(self._told)

    def look(self) -> dict[str, Any]:
        return answers.checked("look", self._told["look"])


def honest() -> dict[str, Any]:
    """What an agent answers, by call."""
    fake = FakeMachine().open().agent
    told = {name: fake.call(name) for name in ("probe", "seen_accesses", "state", "steadiness", "swap_cost", "clean")}
    ran = fake.call("run", context=None) | {"files": {}}
    return {**told, "facts": FACTS, "run": ran, "tryout": {"pageout": 1 << 20}, "bye": []}


HONEST = honest()


def run(machine: Machine) -> None:
    """Run a workload there once."""
    session = machine.open()
    try:
        run_once(session, machine, ProgramWorkload("true", Program(("true",)), Tuning()), NonePolicy(), 9)
    finally:
        session.close()


def test_the_honest_one_is_fit_and_measured() -> None:
    machine = HostileMachine(HONEST)
    assert {finding.state for finding in examine_machine(machine)} <= {"ok", "warn"}
    run(machine)


@FUZZ
@given(told=st.sampled_from(sorted(HONEST)).flatmap(lambda name: changed(HONEST[name]).map(lambda one: {name: one})))
@example(told={"facts": {**FACTS, "mem_bytes": "much"}})
@example(told={"facts": {**FACTS, "vcpus": None}})
@example(told={"facts": {**FACTS, "left_behind": [{}]}})
@example(told={"facts": []})
@example(told={"run": {**HONEST["run"], "samples": [[1]]}})
@example(told={"run": {**HONEST["run"], "runtime_s": float("nan")}})
@example(told={"steadiness": {**HONEST["steadiness"], "a_s": [0, 0]}})
def test_any_answer(told: dict[str, Any]) -> None:
    for use in (examine_machine, run):
        with contextlib.suppress(DamoosError):
            use(HostileMachine({**HONEST, **told}))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("run", {"samples": [[*HONEST["run"]["samples"][0][:-1], 2**64 - 1]]}),
        ("run", {"samples": [[*HONEST["run"]["samples"][0][:-1], 1e305]]}),
        ("run", {"counters": {"pswpin": 1e305}}),
        ("run", {"runtime_s": 1e308}),
        ("run", {"runtime_s": 5e-324}),
        ("run", {"controller": {"cpu_s": 1e308}}),
        ("run", {"accepted": {"operations": 10**1000}}),
        ("run", {"placement": [[["x"]]]}),
        ("state", {"boot_s": 1e308}),
        ("steadiness", {"elapsed_s": 5e-324}),
        ("swap_cost", {"fault_us": 1e308}),
    ],
)
def test_numbers_that_no_machine_has_are_refused_when_they_arrive(call: str, told: dict[str, Any]) -> None:
    answers.checked(call, HONEST[call])
    with pytest.raises(MachineError, match=f"the machine's answer to '{call}' is none"):
        answers.checked(call, HONEST[call] | told)


def test_an_offer_of_damon_without_what_is_read_of_it_is_none() -> None:
    for name in ("files", "modules"):
        with pytest.raises(MachineError, match="it does not say which files and modules there are"):
            answers.checked("probe", {key: words for key, words in HONEST["probe"].items() if key != name})


def test_a_machine_that_says_it_has_no_swap_after_all_is_unfit() -> None:
    machine = HostileMachine({**HONEST, "prepare": None, "state": {**HONEST["state"], "swaps": []}})
    machine.conditions = Conditions.model_validate({"swap": {"kind": "zram", "size": "1G"}})
    (line,) = (finding for finding in examine_machine(machine) if finding.name == "other swap")
    assert line.state == "unfit"


IN_SERVICE = FakeMachine().open().agent.call("status")


@pytest.mark.parametrize("key", [key for key in IN_SERVICE if key not in ("damos", "reading")])
def test_a_status_has_all_that_a_keeper_reads(key: str) -> None:
    answers.checked("status", IN_SERVICE)
    answers.checked("status", {"in_service": False, "alive": False})
    with pytest.raises(MachineError, match="the machine's answer to 'status' is none"):
        answers.checked("status", {name: value for name, value in IN_SERVICE.items() if name != key})


@pytest.mark.parametrize(
    "told",
    [
        {"rule": "x"}, {"kdamond_cpu_s": "x"}, {"kdamond_cpu_s": 1e308}, {"effective_bytes": [10**30]}, {"why": {}},
        {"more": "x" * 1000}, {"reading": {**IN_SERVICE["reading"], "more": 1}}, {"for_s": 1e308},
    ],
)  # fmt: skip
def test_what_a_keeper_passes_on_has_a_type(told: dict[str, Any]) -> None:
    with pytest.raises(MachineError, match="the machine's answer to 'status' is none"):
        answers.checked("status", IN_SERVICE | told)


def test_a_quota_and_a_threshold_may_have_no_end() -> None:
    told = {"effective_bytes": [2**64 - 1], "rule": {"cpu_s": 0.1, "threshold_s": float("inf")}}
    assert answers.checked("status", IN_SERVICE | told) == IN_SERVICE | told


@pytest.mark.parametrize(
    "told",
    [
        {"stdout": "x" * (1 << 17)},
        {"stderr": "x" * (1 << 17)},
        {"files": {"a.csv": "1" * (21 << 20)}},
        {"files": {f"{number}.csv": "" for number in range(1001)}},
    ],
    ids=["output", "error output", "large files", "many files"],
)
def test_no_more_output_is_taken_than_an_agent_sends(told: dict[str, Any]) -> None:
    with pytest.raises(MachineError, match="the machine's answer to 'run' is none"):
        run(HostileMachine({**HONEST, "run": HONEST["run"] | told}))


def test_a_flood_that_nobody_asked_for_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_link, "MOST_UNASKED_BYTES", 8 << 20)
    line = json.dumps({"id": 7, "result": "x" * 10_000}).encode() + b"\n"
    flood = io.BytesIO(b'{"id": 0, "result": {"pid": 1}}\n' + line * 2000)
    link = AgentLink(io.BytesIO(), flood, "token")
    with pytest.raises(MachineLost, match="sent more than 8 MiB that nobody had asked for during 'facts'"):
        link.call("facts")
    assert flood.tell() < 10 << 20  # the rest is not even read
    link.hang_up()


MANY = {
    "lists": b'{"id": 0, "result": [' + b"[]," * (2 << 20) + b"[]]}",
    "dicts": b'{"id": 0, "result": [' + b'{"a":{}},' * (1 << 20) + b"{}]}",
    "numbers": b'{"id": 0, "result": [' + b"1.5," * (2 << 20) + b"1]}",
    "strings": b'{"id": 0, "result": [' + b'"",' * (2 << 20) + b'""]}',
    "behind an escaped quote": b'{"id": 0, "result": ["\\\\", ' + b'"\\\\",[],' * (1 << 20) + b"[]]}",
    "an event's": b'{"event": "record", "data": [' + b"[]," * (1 << 17) + b"[]]}",
    "in UTF-16": ('{"id": 0, "result": ["\u2200", ' + "[]," * (1 << 20) + "[]]}").encode("utf-16-le"),
    "of no JSON": b'"" ' * (2 << 20),
}


@pytest.mark.parametrize("line", MANY.values(), ids=MANY)
def test_a_line_of_many_values_is_refused_and_few_of_them_made(line: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"^b'"):
            wire.message(line)
        assert tracemalloc.get_traced_memory()[1] < max(5 * len(line), 16 << 20)
    finally:
        tracemalloc.stop()


def test_signs_within_a_program_s_output_are_no_values() -> None:
    text = ',[{:"\\' * (1 << 20)
    answer = wire.message(json.dumps({"id": 1, "result": {"files": {"a.csv": text}, "samples": [[1.5]] * 99}}).encode())
    assert isinstance(answer, wire.Answer)
    assert answer.result["files"]["a.csv"] == text


def test_the_first_line_is_short() -> None:
    begun = io.BytesIO(b'{"id": 0, "result": "' + b"x" * (1 << 20) + b'"}\n')
    with pytest.raises(MachineLost, match="sent what is no answer"):
        AgentLink(io.BytesIO(), begun, "token")
    assert begun.tell() == wire.HELLO_BYTES


def test_what_an_agent_printed_instead_of_a_look_is_plain() -> None:
    for out, err in (("", f"Trouble\n{STEERING} here"), (f"{STEERING} here", "")):
        with pytest.raises(MachineError, match=r"could not look: .*owned.* here$") as caught:
            looked(out, err, "root@host:22")
        assert str(caught.value).isprintable()
        assert "'" not in str(caught.value)


def test_a_machine_waits_with_what_is_not_yet_taken() -> None:
    """Parts of a recording come faster than they are kept: the machine waits, and not this computer's memory."""
    sent = 10_000
    line = b'{"event": "record", "data": "' + b"x" * 1000 + b'"}\n'
    tail = b'{"id": 1, "result": null}\n'
    stream = io.BytesIO(b'{"id": 0, "result": {"pid": 1}}\n' + line * sent + tail)
    begun, seen = threading.Event(), 0
    # It begins to send when the call is made.
    gate = Gate(stream, begun)
    link = AgentLink(gate.calls, gate, "token")  # type: ignore[arg-type]

    def sink(message: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1
        assert stream.tell() - seen * len(line) < 20 * len(line)

    link.stream(sink, "prepare")
    assert seen == sent
    link.hang_up()


class Gate:
    """A stream of which only the first line can be read until a call comes."""

    def __init__(self, stream: io.BytesIO, begun: threading.Event) -> None:
        self._stream, self._begun, self._nr_read = stream, begun, 0
        self.calls = self

    def readline(self, most: int) -> bytes:
        self._nr_read += 1
        if self._nr_read > 1:
            self._begun.wait()
        return self._stream.readline(most)

    def write(self, line: bytes) -> None:
        self._begun.set()

    def flush(self) -> None: ...

    def close(self) -> None:
        self._begun.set()


@pytest.mark.parametrize("argv", [["doctor", "hostile"], ["doctor", "hostile", "--clean"], ["look", "hostile"]])
def test_no_machine_steers_the_terminal(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {
        **HONEST,
        "facts": {**FACTS, "kernel": STEERING, "arch": STEERING, "left_behind": [STEERING]},
        "look": {
            "kernel": STEERING, "hostname": STEERING, "boot_id": "b", "mem_bytes": 1, "uid": 0,
            "damon_in_use": STEERING, "has_damon_stat": False, "damon_stat": None,
        },
        "clean": [STEERING],
        "probe": {**HONEST["probe"], "unknown": [STEERING]},
    }  # fmt: skip
    monkeypatch.setattr(catalog, "machine", lambda name: HostileMachine(told))
    monkeypatch.setattr("sys.argv", ["damoos", *argv])
    with pytest.raises(SystemExit):
        cli.main()
    shown = "".join(capsys.readouterr())
    assert "owned" in shown
    assert not set(shown) & set("\x1b\x07\r\u202e\u2066\x9b")


def test_an_error_of_a_machine_s_is_plain_for_programs_too() -> None:
    line = json.dumps({"id": 1, "error": {"type": "MachineError", "message": STEERING}}).encode()
    answer = wire.message(line)
    assert isinstance(answer, wire.Answer)
    assert answer.error
    error = from_wire(answer.error)
    assert isinstance(error, MachineError)
    assert "owned" in str(error)
    assert str(error).isprintable()


PRINTS = f"""
from damoos.common import terminal
terminal.guard()
import sys
from rich.table import Table
words = {STEERING!r} + "fine"
print(words)
print(words, file=sys.stderr)
console = terminal.console(width=200)
table = Table("x", "y")
table.add_row(words, "fine")
console.print(table)
console.print(words, markup=False)
"""


def test_nothing_that_is_printed_steers_a_terminal() -> None:
    """On a real one: Rich's own colours are all that there is."""
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", PRINTS], stdout=theirs, stderr=theirs, check=True)
    os.close(theirs)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as out:
        while True:
            try:
                shown += out.read(1 << 16)
            except OSError:  # the last of it has been read
                break
    text = shown.decode()
    assert text.count("fine") >= 4
    assert not set(text) & set("\x07\u202e\u2066\x9b")
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text


@pytest.mark.parametrize("text", ["a\tb\n", "ß±µ … │█", "日本語"])
def test_words_of_people_are_shown_as_they_are(text: str) -> None:
    assert terminal.plain(text) == text
