"""What every machine is to the rest of damoos: a lease that gives a session, and a session that talks to an agent."""

from __future__ import annotations

import json
import queue
import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field, field_validator, model_validator

from damoos import errors
from damoos.common.toml_file import Table
from damoos.model.memory_limits import MemoryLimits
from damoos.model.quantities import SomeSize, SomeTime
from damoos.units import parse_bytes, parse_time

# The agent's word for a look, see `Machine.look`.
LOOK = "look"
PING_S = 5.0
DEAD_MAN_S = 60.0
SILENCE_S = 120.0
# The longest line of an agent's: a recording comes in pages of the trace buffer.
LINE_BYTES = 256 << 20
# Those that kernels have for zram and zswap.
ALGORITHMS = ("842", "deflate", "lz4", "lz4hc", "lzo", "lzo-rle", "zstd")
Sink = Callable[[dict[str, Any]], None]


class Swap(Table):
    """``[swap]``: swap device of the study.

    Parameters
    ----------
    kind : {"zram", "zswap", "file", "disk", "null_blk"}
        zram: a device of damoos's own. file: a file of its own in ``/var/lib/damoos``. zswap: such a file behind the
        kernel's compressed cache. disk: a partition that its owner has made for swap.
        null_blk: a device in the machine's memory that takes ``latency`` for each request.
    size : str, size
        Needed by all but a disk.
    algorithm : str
        How zram and zswap compress.
    device : str
        The disk's partition, with ``mkswap`` done and not in use.
    latency : str, time
        That a null_blk takes to read or write a page.
    """

    kind: Literal["zram", "zswap", "file", "disk", "null_blk"] = "zram"
    size: SomeSize | None = None
    algorithm: str = "lz4"
    device: str | None = None
    latency: SomeTime | None = None

    @field_validator("algorithm")
    @classmethod
    def _is_known(cls, word: str) -> str:
        if word not in ALGORITHMS:
            raise ValueError(f"unknown algorithm '{word}'{errors.nearest(word, ALGORITHMS)}")
        return word

    @model_validator(mode="after")
    def _has_what_it_is(self) -> Swap:
        key = "device" if self.kind == "disk" else "size"
        if getattr(self, key) is None:
            raise ValueError(f"swap of kind '{self.kind}' needs its '{key}'")
        if (self.latency is not None) != (self.kind == "null_blk"):
            raise ValueError(
                "a 'latency' belongs to swap of kind 'null_blk', which needs one; other kinds have their own"
            )
        return self

    def wanted(self) -> dict[str, Any]:
        """What the agent is to add."""
        sz_bytes = 0 if self.size is None else parse_bytes(self.size)
        wanted = {"kind": self.kind, "sz_bytes": sz_bytes, "algorithm": self.algorithm, "device": self.device}
        return wanted | ({} if self.latency is None else {"latency_us": parse_time(self.latency)})


class Conditions(MemoryLimits):
    """Keys of a machine file that say under what runs are made; what is left out stays as it is on the machine.

    Parameters
    ----------
    swap : table
        Swap device of the study; without it the machine's swap is left alone.
    thp : str
        THP mode: always, madvise or never.
    swappiness : int
        ``vm.swappiness``.
    aslr : bool
        Whether addresses are random.
    numa_balancing : int
        ``kernel.numa_balancing``: 0 off, 1 between nodes, 2 promotion between tiers, 3 both.
    demotion : bool
        Whether reclaim moves pages to a slower tier first (``numa/demotion_enabled``).
    promote_rate : str, size
        The most that mode 2 promotes in a second, in whole MiB (``kernel.numa_balancing_promote_rate_limit_MBps``).
    zone_reclaim : int
        ``vm.zone_reclaim_mode``.
    cpus : str
        CPUs that the workload is pinned to, such as ``0-1,3``.
    memory_max, memory_high, swap_max : str, size
        Limits of a run's cgroup (memory.max, memory.high, memory.swap.max); a load has none.
    isolation : {"reset", "boot"}
        What is done between two runs: the swap device emptied (and, on a guest, the page cache dropped), which
        ``reset`` does, or a new boot, which only guests can have.
    """

    swap: Swap | None = None
    thp: Literal["always", "madvise", "never"] | None = None
    swappiness: int | None = Field(default=None, ge=0, le=200)
    aslr: bool | None = None
    numa_balancing: int | None = Field(default=None, ge=0, le=3)
    demotion: bool | None = None
    promote_rate: SomeSize | None = None
    zone_reclaim: int | None = Field(default=None, ge=0, le=7)
    cpus: str | None = None
    isolation: Literal["reset", "boot"] = "reset"

    @field_validator("cpus")
    @classmethod
    def _are_cpus(cls, words: str | None) -> str | None:
        if words is not None and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", words):
            raise ValueError(f"'{words}' is not a list of CPUs such as 0-1,3")
        for span in (words or "").split(","):
            first, dash, last = span.partition("-")
            if dash and int(first) > int(last):
                raise ValueError(f"'{span}': the first CPU is above the last one")
        return words

    def wanted(self) -> dict[str, Any]:
        """What the agent is to prepare."""
        keys = {name: getattr(self, name) for name in ("thp", "swappiness", "aslr")}
        keys |= {name: getattr(self, name) for name in ("numa_balancing", "demotion", "zone_reclaim")}
        keys["promote_mib_per_s"] = None if self.promote_rate is None else parse_bytes(self.promote_rate) >> 20
        settings = {name: value for name, value in keys.items() if value is not None}
        return settings | ({"swap": self.swap.wanted()} if self.swap else {})

    def cpu_list(self) -> tuple[int, ...]:
        """Numbers of the CPUs that the workload is pinned to; empty for all."""
        ends = [part.split("-") for part in (self.cpus or "").split(",") if part]
        return tuple(cpu for span in ends for cpu in range(int(span[0]), int(span[-1]) + 1))


AS_IT_IS = Conditions()


_lost_tokens: list[str] = []
_TOKENS_SHOWN = 8


def new_token() -> str:
    """A secret of one connection, by which the next one is known should this one break."""
    return secrets.token_hex(16)


def agent_words(token: str) -> list[str]:
    """What an agent is started with: its dead-man time, its connection's secret, and those of connections that broke.

    An agent that was started with one of the latter makes way for the new one.
    """
    return [str(DEAD_MAN_S), token, *_lost_tokens[-_TOKENS_SHOWN:]]


class AgentLink:
    """Calls to an agent over a pair of byte streams.

    Parameters
    ----------
    to_agent, from_agent : binary streams
    token : str
        That the agent was started with.
    why_lost : callable
        Asked when the agent is silent or gone; what it knows ends the error message.
    """

    def __init__(
        self, to_agent: IO[bytes], from_agent: IO[bytes], token: str, why_lost: Callable[[], str] = lambda: ""
    ) -> None:
        self._token = token
        self._to = to_agent
        self._from = from_agent
        self._why_lost = why_lost
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._next_id = 0
        self._sink: Sink | None = None
        self._bad_line = ""
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

    def _answer(self, call_id: int, name: str) -> Any:
        while True:
            try:
                answer = self._answers.get(timeout=1.0)
            except queue.Empty:
                if time.monotonic() - self._heard > SILENCE_S:
                    raise self._lost(f"no sign of life for {SILENCE_S:g} s during '{name}'") from None
                continue
            if answer is None:
                what = f"sent what is no answer: {self._bad_line}" if self._bad_line else "hung up"
                raise self._lost(f"the machine {what} during '{name}'")
            if "event" in answer:
                if self._sink:
                    self._sink(answer)
            elif answer["id"] == call_id:
                break
        if "error" in answer:
            raise errors.from_wire(answer["error"])
        return answer["result"]

    def _lost(self, what: str) -> errors.MachineLost:
        self._closed.set()
        _lost_tokens.append(self._token)
        detail = self._why_lost()
        return errors.MachineLost(f"{what}{': ' + detail if detail else ''}")

    def _read(self) -> None:
        try:
            while line := self._from.readline(LINE_BYTES):
                self._heard = time.monotonic()
                message = _message(line)
                if message.get("event") != "beat":
                    self._answers.put(message)
        except OSError:
            pass
        except ValueError as error:
            if not self._closed.is_set():  # else it is the stream that says it has been closed
                self._bad_line = str(error)
        self._answers.put(None)

    def _ping(self) -> None:
        while not self._closed.wait(PING_S):
            self._send({"call": "ping"}, quiet=True)


def looked(out: str, err: str, where: str) -> dict[str, Any]:
    """What an agent that was told to look has printed.

    Raises
    ------
    MachineError : it could not
    """
    try:
        return dict(json.loads(out))
    except (ValueError, TypeError):
        last = " | ".join(err.strip().splitlines()[-3:])
        raise errors.MachineError(f"{where}: the agent could not look: {last or out[:80]!r}") from None


def _message(line: bytes) -> dict[str, Any]:
    """A line of an agent's: an event, or an answer.

    Raises
    ------
    ValueError : it is neither
    """
    shown = repr(line[:80])
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(shown) from None
    if not isinstance(message, dict):
        raise ValueError(shown)
    error = message.get("error")
    is_error = isinstance(error, dict) and {"type", "message"} <= set(error)
    if "event" not in message and not (isinstance(message.get("id"), int) and ("result" in message or is_error)):
        raise ValueError(shown)
    return message


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

    ``conditions`` are what the agent prepares (swap, THP); ``drop_caches`` says whether the page cache is dropped
    before each run, which only a machine of our own may have done to it. ``doctor_first``: runs are made only after
    `damoos.doctor` has found it fit, because others use it and nobody has set it up for runs.
    """

    name: str
    description: str = ""
    conditions: Conditions = AS_IT_IS
    drop_caches: bool = False
    doctor_first: bool = False

    def provide(self, packages: Sequence[str], trees: Sequence[str]) -> None:
        """Have Debian packages and built suites there when it is next opened, if it is a machine of our own."""
        return None

    @abstractmethod
    def open(self, say: Callable[[str], None] = lambda _: None) -> Session:
        """Lease the machine and start an agent on it; ``say`` is told what takes time."""

    def look(self) -> dict[str, Any]:
        """What can be known of the machine without leasing it: the agent locks, writes and waits for nothing.

        Returns
        -------
        dict
            As `damoos.agent.__main__.look`.

        Raises
        ------
        UnsupportedError : the machine is there only while it is leased
        """
        raise errors.UnsupportedError(
            f"machine '{self.name}' is there only while it is used; look at a host, or 'local'"
        )

    def describe(self) -> str:
        """One line on what this machine stands for, printed before a study; empty if there is nothing to say."""
        return self.description
