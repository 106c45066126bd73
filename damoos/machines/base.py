"""What every machine is to the rest of damoos: a lease that gives a session, and a session that talks to an agent."""

from __future__ import annotations

import json
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from damoos import errors
from damoos.tomlfile import Table
from damoos.units import parse_bytes

PING_S = 5.0
DEAD_MAN_S = 60.0
SILENCE_S = 120.0


class Swap(Table):
    """Swap device of the study: a zram of its own."""

    kind: str = "zram"
    size: str
    algorithm: str = "lz4"


def setting_of(swap: Swap | None, thp: str | None) -> dict[str, Any]:
    """What the agent is to prepare, from the words of a machine file."""
    setting: dict[str, Any] = {}
    if swap:
        setting["swap"] = {"kind": swap.kind, "sz_bytes": parse_bytes(swap.size), "algorithm": swap.algorithm}
    if thp:
        setting["thp"] = thp
    return setting


class AgentLink:
    """Calls to an agent over a pair of byte streams.

    Parameters
    ----------
    to_agent, from_agent : binary streams
    why_lost : callable
        Asked when the agent is silent or gone; what it knows ends the error message.
    """

    def __init__(self, to_agent: IO[bytes], from_agent: IO[bytes], why_lost: Callable[[], str] = lambda: "") -> None:
        self._to = to_agent
        self._from = from_agent
        self._why_lost = why_lost
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._next_id = 0
        self._heard = time.monotonic()
        self._closed = threading.Event()
        self._write_lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True, name="agent-reader").start()
        threading.Thread(target=self._ping, daemon=True, name="agent-ping").start()
        self._answer(0, "hello")

    def call(self, name: str, **args: Any) -> Any:
        """Make one call and wait for its answer, for as long as the agent shows that it lives.

        Raises
        ------
        MachineLost : the agent is gone or has been silent for `SILENCE_S`
        DamoosError : whatever the agent raised, as the same class
        """
        self._next_id += 1
        self._send({"id": self._next_id, "call": name, "args": args})
        try:
            return self._answer(self._next_id, name)
        except KeyboardInterrupt:
            self.cancel()
            raise

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

    def _answer(self, call_id: int, name: str) -> Any:
        while True:
            try:
                answer = self._answers.get(timeout=1.0)
            except queue.Empty:
                if time.monotonic() - self._heard > SILENCE_S:
                    raise self._lost(f"no sign of life for {SILENCE_S:g} s during '{name}'") from None
                continue
            if answer is None:
                raise self._lost(f"the machine hung up during '{name}'")
            if answer["id"] == call_id:
                break
        if "error" in answer:
            raise errors.from_wire(answer["error"])
        return answer["result"]

    def _lost(self, what: str) -> errors.MachineLost:
        self._closed.set()
        detail = self._why_lost()
        return errors.MachineLost(f"{what}{': ' + detail if detail else ''}")

    def _read(self) -> None:
        try:
            for line in self._from:
                self._heard = time.monotonic()
                message = json.loads(line)
                if "event" not in message:
                    self._answers.put(message)
        except (OSError, ValueError):
            pass
        self._answers.put(None)

    def _ping(self) -> None:
        while not self._closed.wait(PING_S):
            self._send({"call": "ping"}, quiet=True)


class Session(ABC):
    """A machine in use: its agent's calls, and files brought to it."""

    agent: AgentLink
    facts: dict[str, Any]

    @abstractmethod
    def copy(self, path: Path) -> str:
        """Bring a file to the machine, unless it is there already; returns its path there."""

    @abstractmethod
    def close(self) -> None:
        """Undo everything on the machine and release it."""


class Machine(ABC):
    """A machine that can be leased.

    ``setting`` is what the agent prepares (swap, THP); ``drop_caches`` says whether the page cache is dropped
    before each run, which only a machine of our own may have done to it.
    """

    name: str
    description: str = ""
    setting: Mapping[str, Any] = MappingProxyType({})
    drop_caches: bool = False

    @abstractmethod
    def open(self, say: Callable[[str], None] = lambda _: None) -> Session:
        """Lease the machine and start an agent on it; ``say`` is told what takes time."""

    def describe(self) -> str:
        """One line on what this machine stands for, printed before a study; empty if there is nothing to say."""
        return self.description
