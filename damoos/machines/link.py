"""The controller's end of the line to an agent: calls and their answers, for as long as the agent shows that it lives.

What the agent sends may be a hostile machine's: it is checked, and no more of it waits than a few messages.
"""

from __future__ import annotations

import contextlib
import json
import queue
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from damoos import errors
from damoos.machines import answers, patience, wire

PING_S = 5.0
DEAD_MAN_S = 60.0
SILENCE_S = 120.0
_LOOK_S = 1.0
# As many messages wait to be taken; the machine has to wait with more.
_MOST_WAITING = 8
# What may come that nobody asked for, such as the rest of a recording that was cancelled; each message counts for
# a little more than its length.
MOST_UNASKED_BYTES = 256 << 20
_COST_OF_MESSAGE = 1 << 10
_PUT_AGAIN_S = 0.5
Sink = Callable[[dict[str, Any]], None]


class Input(Protocol):
    """What an agent reads: a pipe, or a channel of SSH."""

    def write(self, data: bytes, /) -> object:
        """Take all of it."""

    def flush(self) -> None:
        """Send what waits."""

    def close(self) -> None:
        """Tell the agent that no more comes."""


class Output(Protocol):
    """What an agent prints."""

    def readline(self, most_bytes: int, /) -> bytes:
        """The next line, or as much of it as is asked for; nothing at the end."""

    def close(self) -> None:
        """Let go of it."""


_lost_tokens: list[str] = []
_TOKENS_SHOWN = 8


def new_token() -> str:
    """A secret of one connection, by which the next one is known should this one break."""
    return secrets.token_hex(16)


def agent_words(token: str, dead_man_s: float = DEAD_MAN_S) -> list[str]:
    """What an agent is started with: its dead-man time, its connection's secret, and those of connections that broke.

    An agent that was started with one of the latter makes way for the new one. With a dead-man time of 0 it waits for
    ever, which suits a machine that ends together with its controller.
    """
    return [str(dead_man_s), token, *_lost_tokens[-_TOKENS_SHOWN:]]


class AgentLink:
    """Calls to an agent over a pair of byte streams.

    Parameters
    ----------
    to_agent, from_agent : `Input` and `Output`
    token : str
        That the agent was started with.
    why_lost : callable
        Asked when the agent is silent or gone; what it knows ends the error message.
    stands_still : bool
        Whether the machine is stopped between calls, so that it is asked for signs of life only during one.
    second_s : float
        See `damoos.machines.patience.limit_s`.
    """

    def __init__(
        self,
        to_agent: Input,
        from_agent: Output,
        token: str,
        why_lost: Callable[[], str] = lambda: "",
        stands_still: bool = False,
        second_s: float = 1.0,
    ) -> None:
        self._second_s = second_s
        self._stands_still = stands_still
        self._token = token
        self._to = to_agent
        self._from = from_agent
        self._why_lost = why_lost
        self._inbox: queue.Queue[wire.Answer | wire.Event | None] = queue.Queue(_MOST_WAITING)
        self._next_id = 0
        self._awaited: int | None = 0
        self._unasked_bytes = 0
        self._sink: Sink | None = None
        self._fault = ""
        self._nr_heard = 0
        self._closed, self._ended = threading.Event(), threading.Event()
        self._write_lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True, name="agent-reader").start()
        threading.Thread(target=self._ping, daemon=True, name="agent-ping").start()
        try:
            self._answer(0, "hello", patience.limit_s("hello", {}, second_s))
        except BaseException:
            self._closed.set()  # whoever gave the streams closes them
            raise

    def call(self, name: str, **args: Any) -> Any:
        """Make one call and wait for its answer, for as long as the agent shows that it lives, and within its limit.

        Raises
        ------
        MachineLost : the agent is gone, is silent for `SILENCE_S`, or does not answer (`damoos.machines.patience`)
        MachineError : what it answers is no answer to this call
        DamoosError : whatever the agent raised, as the same class
        """
        self._next_id += 1
        self._awaited = self._next_id
        self._send({"id": self._next_id, "call": name, "args": args})
        try:
            return self._answer(self._next_id, name, patience.limit_s(name, args, self._second_s))
        except KeyboardInterrupt:
            self.cancel()
            raise

    def facts(self) -> dict[str, Any]:
        """What the machine is: the first call, after which nobody holds the link if it fails, so it hangs up itself."""
        try:
            return dict(self.call("facts"))
        except BaseException:
            self.hang_up()
            raise

    def stream(self, sink: Sink, name: str, **args: Any) -> Any:
        """`call`, with a callable that is given what the agent sends before its answer, as it comes."""
        self._sink = sink
        try:
            return self.call(name, **args)
        finally:
            self._sink = None

    def cancel(self) -> None:
        """End the run that is under way, if any; its call still gets its answer."""
        self._send({"call": "cancel"}, quiet=True)

    def close(self) -> None:
        """Say bye, so that the agent undoes everything, and hang up; an agent that is gone cleans up by itself."""
        if self._closed.is_set():
            return
        try:
            problems = self.call("bye")
            if problems:
                raise errors.MachineError(f"the agent could not undo: {'; '.join(problems)}")
        except errors.MachineLost:
            return
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        """Drop the line; the agent notices and cleans up by itself."""
        self._closed.set()
        for stream in (self._to, self._from):
            try:
                stream.close()
            except (OSError, EOFError):
                continue

    def _send(self, message: dict[str, Any], quiet: bool = False) -> None:
        try:
            with self._write_lock:
                self._to.write(json.dumps(message).encode() + b"\n")
                self._to.flush()
        except (OSError, ValueError) as error:
            if not quiet:
                raise self._lost("the connection to the agent broke") from error

    def _answer(self, call_id: int, name: str, limit_s: float) -> Any:
        # In seconds that were spent here: while this process is stopped, the agent is not silent.
        silent_s, waited_s, nr_heard, looked_s = 0.0, 0.0, self._nr_heard, time.monotonic()
        while True:
            now_s = time.monotonic()
            waited_s, looked_s = waited_s + min(now_s - looked_s, 2 * _LOOK_S), now_s
            if waited_s > limit_s:  # whatever comes: parts of a recording could come for ever
                raise self._lost(f"the machine shows that it lives, and has not answered '{name}' for {limit_s:g} s")
            try:
                message = self._inbox.get(timeout=_LOOK_S)
            except queue.Empty:
                silent_s = silent_s + _LOOK_S if nr_heard == self._nr_heard else 0.0
                nr_heard = self._nr_heard
                if silent_s > SILENCE_S:
                    raise self._lost(f"no sign of life for {SILENCE_S:g} s during '{name}'") from None
                if not self._ended.is_set():
                    continue
                message = None
            if message is None:
                raise self._lost(f"the machine {self._fault or 'hung up'} during '{name}'")
            if isinstance(message, wire.Event):
                if self._sink:
                    self._sink(message.content)
            elif message.id == call_id:
                break
        if message.error:
            raise errors.from_wire(message.error)
        return answers.checked(name, message.result)

    def _lost(self, what: str) -> errors.MachineLost:
        self._closed.set()
        _lost_tokens.append(self._token)
        detail = self._why_lost()
        return errors.MachineLost(f"{what}{': ' + detail if detail else ''}")

    def _read(self) -> None:
        try:
            while not self._fault and (line := self._from.readline(self._most_bytes())):
                self._nr_heard += 1
                self._take(wire.message(line), len(line))
        except OSError:
            pass
        except ValueError as error:
            if not self._closed.is_set():  # else it is the stream that says it has been closed
                self._fault = f"sent what is no answer: {error}"
        self._ended.set()
        with contextlib.suppress(queue.Full):  # it wakes whoever waits
            self._inbox.put_nowait(None)

    def _most_bytes(self) -> int:
        return wire.HELLO_BYTES if self._awaited == 0 else wire.LINE_BYTES

    def _take(self, message: wire.Answer | wire.Event, sz_bytes: int) -> None:
        """Have a message wait for whoever asked for it, and count one that nobody asked for."""
        if isinstance(message, wire.Event) and message.kind == wire.BEAT:
            return
        if self._is_asked_for(message):
            self._put(message)
            return
        self._unasked_bytes += sz_bytes + _COST_OF_MESSAGE
        if self._unasked_bytes > MOST_UNASKED_BYTES:
            self._fault = f"sent more than {MOST_UNASKED_BYTES >> 20} MiB that nobody had asked for"

    def _is_asked_for(self, message: wire.Answer | wire.Event) -> bool:
        if isinstance(message, wire.Event):
            return self._sink is not None
        if message.id != self._awaited:
            return False
        self._awaited = None  # once
        return True

    def _put(self, message: wire.Answer | wire.Event) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                return self._inbox.put(message, timeout=_PUT_AGAIN_S)

    def _ping(self) -> None:
        while not self._closed.wait(PING_S):
            if self._awaited is not None or not self._stands_still:
                self._send({"call": "ping"}, quiet=True)
