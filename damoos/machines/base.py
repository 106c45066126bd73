"""What every machine is to the rest of damoos: a lease that gives a session, and a session that talks to an agent."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from damoos import errors
from damoos.agent import proc
from damoos.common.terminal import printable
from damoos.common.toml_file import Table
from damoos.common.unpack import parsed
from damoos.machines import answers
from damoos.machines.link import DEAD_MAN_S, AgentLink, Sink, agent_words, new_token
from damoos.model.memory_limits import MemoryLimits
from damoos.model.quantities import SomeSize, SomeTime
from damoos.units import parse_bytes, parse_time

__all__ = [
    "AS_IT_IS", "DEAD_MAN_S", "LOOK", "AgentLink", "Conditions", "Machine", "Session", "Sink", "Swap", "agent_words",
    "looked", "new_token",
]  # fmt: skip

# The agent's word for a look, see `Machine.look`.
LOOK = "look"
# How much of what an agent printed is shown.
_SAID_CHARS = 300
# Those that kernels have for zram and zswap.
ALGORITHMS = ("842", "deflate", "lz4", "lz4hc", "lzo", "lzo-rle", "zstd")
# Kinds of swap that are on a disk, at last.
ON_DISK = ("zswap", "file", "disk")


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


# That Linux can have on any machine (NR_CPUS).
MOST_CPUS = 8192


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
            if max(map(len, (first, last))) > 5 or max(int(first or 0), int(last or 0)) >= MOST_CPUS:
                raise ValueError(f"'{span[:20]}': no machine has more than {MOST_CPUS} CPUs")
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


def looked(out: str, err: str, where: str) -> dict[str, Any]:
    """What an agent that was told to look has printed.

    Raises
    ------
    MachineError : it could not, or what it printed is something else
    """
    try:
        return dict(answers.checked("look", parsed(out)))
    except ValueError:
        said = " | ".join(err.strip().splitlines()[-3:]) or out.strip() or "it printed nothing"
        raise errors.MachineError(f"{where}: the agent could not look: {printable(said[-_SAID_CHARS:])}") from None


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

    def suit(self, *, paced: bool) -> None:
        """Have a clock, if it is a machine of our own, that suits programs run from beginning to end.

        Parameters
        ----------
        paced : bool
            Whether they mostly wait, rather than compute all the time.
        """
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

    def is_here(self) -> bool:
        """Whether this is the host that damoos runs on, by whatever name or address: the kernels have one boot id.

        A machine that is there only while it is leased is made for the lease, so it is another one.

        Raises
        ------
        MachineError : the machine cannot be asked
        ConfigError : its machine file names a key or a host key that is not there
        """
        try:
            return bool(self.look().get("boot_id") == proc.boot_id())
        except errors.UnsupportedError:
            return False

    def describe(self) -> str:
        """One line on what this machine stands for, printed before a study; empty if there is nothing to say."""
        return self.description
