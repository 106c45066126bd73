"""A machine that answers what no agent does, late, in part, or not at all. The controller says so, and never hangs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from damoos.errors import MachineError, MachineLost
from damoos.machines import link as agent_link
from damoos.machines import wire
from damoos.machines.link import AgentLink

HELLO = b'{"id": 0, "result": {"pid": 1}}\n'
Peer = Callable[[int, int], None]


class Target:
    """Both pipes to a machine that behaves as a function does; it reads calls and writes answers."""

    def __init__(self, peer: Peer) -> None:
        calls, self._to = os.pipe()
        self._from, answers = os.pipe()
        self._thread = threading.Thread(target=self._run, args=(peer, calls, answers))
        self._thread.start()

    @staticmethod
    def _run(peer: Peer, calls: int, answers: int) -> None:
        peer(calls, answers)
        os.close(answers)
        while os.read(calls, 1 << 16):  # until the controller hangs up
            pass
        os.close(calls)

    def link(self) -> AgentLink:
        return AgentLink(os.fdopen(self._to, "wb"), os.fdopen(self._from, "rb"), "token")

    def ended(self) -> None:
        self._thread.join()


Connect = Callable[[Peer], AgentLink]


@pytest.fixture
def connect() -> Iterator[Connect]:
    targets, links = [], []

    def connect(peer: Peer) -> AgentLink:
        targets.append(Target(peer))
        links.append(targets[-1].link())
        return links[-1]

    yield connect
    for link in links:
        link.hang_up()
    for target in targets:
        target.ended()


def says(*lines: bytes) -> Peer:
    """Hello, and then some lines, each after a call; pings are no calls."""

    def peer(calls: int, answers: int) -> None:
        os.write(answers, HELLO)
        with os.fdopen(os.dup(calls), "rb", buffering=0) as read:
            for line in lines:
                while b'"ping"' in read.readline():
                    pass
                os.write(answers, line)

    return peer


NO_ANSWERS = (
    b"junk\n", b"\xff\xfe\n", b"[]\n", b"3\n", b"{}\n", b'{"id": "1", "result": 1}\n', b'{"id": 1}\n',
    b'{"id": 1, "error": "gone"}\n', b'{"id": 1, "error": {"type": "MachineError"}}\n', b"[" * 100_000 + b"\n",
    b'{"id": 1, "resu', b'{"id": 1, "error": {"type": ["x"], "message": "m"}}\n', b'{"id": true, "result": 1}\n',
    b'{"id": 1, "error": {"type": "MachineError", "message": {}}}\n', b'{"id": 1, "result": 1, "more": 2}\n',
    b'{"event": ["record"]}\n', b'{"event": "beat", "x": 1}\n', b'{"event": "else"}\n', b'{"id": 1.0, "result": 1}\n',
)  # fmt: skip


@pytest.mark.parametrize("line", NO_ANSWERS, ids=lambda line: line[:24])
def test_what_is_no_answer_is_a_lost_machine(connect: Connect, line: bytes) -> None:
    with pytest.raises(MachineLost, match=r"^the machine sent what is no answer: b.* during 'facts'$"):
        connect(says(line)).call("facts")


def test_a_line_without_end_is_a_lost_machine(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LINE_BYTES", 1000)
    with pytest.raises(MachineLost, match="sent what is no answer"):
        connect(says(b'{"id": 1, "result": "' + b"x" * 2000)).call("facts")


def test_a_machine_that_hangs_up_at_each_message_in_turn(connect: Connect) -> None:
    answers = [b'{"id": %d, "result": "%d"}\n' % (number, number) for number in range(1, 5)]
    for nr_answered in range(len(answers)):
        link = connect(says(*answers[:nr_answered]))
        assert [link.call("which") for _ in range(nr_answered)] == [*"1234"][:nr_answered]
        with pytest.raises(MachineLost, match=r"hung up during|connection to the agent broke"):
            link.call("run")
    with pytest.raises(MachineLost, match="hung up during 'hello'"):
        connect(lambda calls, answers: None)


def test_an_answer_to_a_former_call_is_passed_over(connect: Connect) -> None:
    late = b'{"id": 1, "result": "late"}\n{"id": 2, "result": "now"}\n'
    link = connect(says(b'{"id": 1, "error": {"type": "MachineError", "message": "no"}}\n', late))
    with pytest.raises(MachineError, match=r"^no$"):
        link.call("run")
    assert link.call("which") == "now"


def test_a_silent_machine_is_lost(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_link, "SILENCE_S", 0.5)
    silent = threading.Event()

    def peer(calls: int, answers: int) -> None:
        os.write(answers, HELLO)
        silent.wait()

    link = connect(peer)
    try:
        with pytest.raises(MachineLost, match=r"no sign of life for 0.5 s during 'run'"):
            link.call("run")
    finally:
        silent.set()


BEAT = b'{"event": "beat"}\n'


def answers_pings(then: Callable[[int, int], bytes]) -> Peer:
    """Hello, a beat for each ping, and after a call what a function says, by the number of pings since.

    The function is given the call's number and that of the pings.
    """

    def peer(calls: int, answers: int) -> None:
        os.write(answers, HELLO)
        call_id = nr_pings = 0
        with os.fdopen(os.dup(calls), "rb", buffering=0) as read, contextlib.suppress(BrokenPipeError):
            while line := read.readline():
                if b'"ping"' not in line:
                    call_id, nr_pings = json.loads(line)["id"], 0
                    continue
                nr_pings += 1
                os.write(answers, BEAT + (then(call_id, nr_pings) if call_id else b""))

    return peer


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_link, "_LOOK_S", 0.05)
    monkeypatch.setattr(agent_link, "PING_S", 0.05)
    for name in ("CALL_S", "MOVING_S"):
        monkeypatch.setattr(f"damoos.machines.patience.{name}", 0.5)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("name", "args"), [("facts", {}), ("bye", {}), ("run", {"limit_s": 0.2})])
def test_signs_of_life_alone_hold_no_call(connect: Connect, impatient: None, name: str, args: dict[str, float]) -> None:
    link = connect(answers_pings(lambda call_id, nr_pings: b""))
    limit_s = 0.5 + sum(args.values())
    with pytest.raises(
        MachineLost, match=f"the machine shows that it lives, and has not answered '{name}' for {limit_s:g} s"
    ):
        link.call(name, **args)
    link.close()  # which says no bye to it


@pytest.mark.timeout(20)
def test_a_machine_that_never_begins_is_lost_as_well(impatient: None) -> None:
    """It shows that it lives before it has said hello."""
    read, write = os.pipe()
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.02):
            os.write(write, BEAT)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(MachineLost, match="has not answered 'hello'"):
            AgentLink(io.BytesIO(), os.fdopen(read, "rb"), "token")
    finally:
        ended.set()
        thread.join()
        os.close(write)


@pytest.mark.timeout(20)
def test_a_run_may_last_as_long_as_its_limit(connect: Connect, impatient: None) -> None:
    link = connect(answers_pings(lambda call_id, nr: b'{"id": %d, "result": "1"}\n' % call_id if nr == 24 else b""))
    assert link.call("which", for_s=9.0) == "1"


def beats_until(nr_last: int) -> Callable[[int, int], bytes]:
    """Parts of a recording now and then, and at last the answer."""

    def says(call_id: int, nr_pings: int) -> bytes:
        if nr_pings == nr_last:
            return b'{"id": %d, "result": "end"}\n' % call_id
        return b'{"event": "record", "data": ""}\n' if nr_pings % 4 == 0 else b""

    return says


@pytest.mark.timeout(20)
def test_a_recording_may_take_a_second_for_each_64_kib(connect: Connect, impatient: None) -> None:
    parts: list[object] = []
    link = connect(answers_pings(beats_until(24)))
    assert link.stream(parts.append, "which", record={"sz_bytes": 9 * (64 << 10)}) == "end"
    assert len(parts) == 5


@pytest.mark.timeout(20)
def test_parts_of_a_recording_alone_hold_no_call(connect: Connect, impatient: None) -> None:
    link = connect(answers_pings(beats_until(-1)))
    with pytest.raises(MachineLost, match="has not answered 'which' for"):
        link.stream(lambda part: None, "which", record={"sz_bytes": 64 << 10})


def test_an_error_of_an_unknown_kind_is_the_machine_s(connect: Connect) -> None:
    for kind in ("SystemExit", "DamoosError2", "to_wire", "StoreError", "PluginError", "NothingFeasible"):
        link = connect(says(b'{"id": 1, "error": {"type": "%s", "message": "why"}}\n' % kind.encode()))
        with pytest.raises(MachineError, match=r"^why$"):
            link.call("run")
