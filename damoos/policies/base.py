"""A policy, and those there are: nothing, DAMOS schemes, a recording, another THP mode, a limit, locked memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from damoos.damon.attrs import Attrs
from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context, Scheme, kernel_pattern
from damoos.errors import SchemeError


class Policy(ABC):
    """What the agent is asked to hold in force during a run."""

    name: str

    @property
    def text(self) -> str:
        """The policy in the words that people write."""
        return self.name

    @property
    def lines(self) -> list[str]:
        """What the policy does, line by line, without what it is monitored with."""
        return [self.text]

    @property
    def damo(self) -> dict[str, Any] | None:
        """The policy as a document that ``damo start`` takes; None for what is no DAMOS scheme."""
        return None

    @property
    def damon_context(self) -> Context | None:
        """What DAMON is to do; None where it is left alone."""
        return None

    @property
    def peak_shares(self) -> Mapping[str, float]:
        """Limits of memory as shares of the workload's peak, by the names of the files; empty for none."""
        return {}

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Keys of the agent's ``run`` call that this policy decides."""


@dataclass(frozen=True)
class NonePolicy(Policy):
    """The kernel's own memory management: the baseline."""

    name = "none"

    def spec(self) -> dict[str, Any]:
        """No DAMON context."""
        return {"context": None}


@dataclass(frozen=True)
class ThpPolicy(Policy):
    """A THP mode of the kernel's own: the DAOS paper's ``thp`` is ``always``.

    Parameters
    ----------
    mode : {"always", "madvise", "never"}
        In force for the run only.
    """

    mode: str = "always"
    name = "thp"

    def spec(self) -> dict[str, Any]:
        """The mode, and no DAMON context."""
        return {"context": None, "thp": self.mode}


@dataclass(frozen=True)
class DamosPolicy(Policy):
    """DAMOS schemes on the workload's process tree (vaddr) or on all of the machine's memory (paddr).

    ``thp`` is the THP mode that they are to meet, None for that of the machine; ``hugepage`` does nothing under never.
    """

    context: Context
    thp: str | None = None
    name = "damos"

    def __post_init__(self) -> None:
        """Refuse now what a kernel would take in another sense, or not at all."""
        for scheme in self.schemes:
            kernel_pattern(scheme.pattern, self.context.attrs)
        if self.context.pause:
            raise SchemeError("attrs.pause=Y: a policy that is paused does nothing")

    @property
    def damon_context(self) -> Context:
        """The context."""
        return self.context

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The schemes of the policy's context."""
        return self.context.schemes

    @property
    def operations(self) -> str:
        """The context's operations set."""
        return self.context.operations

    @property
    def text(self) -> str:
        """The context's text."""
        return str(self.context)

    @property
    def lines(self) -> list[str]:
        """Its schemes."""
        return list(map(str, self.schemes))

    @property
    def damo(self) -> dict[str, Any]:
        """The context in damo's JSON."""
        return context_to_json(self.context)

    def spec(self) -> dict[str, Any]:
        """The context in damo's JSON."""
        return {"context": context_to_json(self.context), "thp": self.thp}


@dataclass(frozen=True)
class LimitedPolicy(Policy):
    """Another policy, with the memory of the run's cgroup limited, or what is written to swap.

    Parameters
    ----------
    policy : Policy
    limits : mapping of str to int, bytes
        ``memory.max`` is of all that is charged to the run: the kernel reclaims what is beyond it, and kills where it
        cannot. Beyond ``memory.high`` it reclaims and slows the run down, and never kills. ``memory.swap.max`` is of
        what may be swapped out.
    swap_write_bytes_per_s : int, bytes a second
        What may be written to swap; 0 for no limit. See `damoos.agent.write_limit`.
    """

    policy: Policy
    limits: Mapping[str, int]
    swap_write_bytes_per_s: int = 0

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the policy that is limited."""
        return self.policy.name

    @property
    def damon_context(self) -> Context | None:
        """The context of the policy that is limited."""
        return self.policy.damon_context

    def spec(self) -> dict[str, Any]:
        """The other's keys, and the limits."""
        writes = {"swap_write_bytes_per_s": self.swap_write_bytes_per_s} if self.swap_write_bytes_per_s else {}
        return {**self.policy.spec(), "memory_limits": dict(self.limits), **writes}


def limited(policy: Policy, limits: Mapping[str, int], peak_bytes: float, swap_write_bytes_per_s: int = 0) -> Policy:
    """A policy under limits, and under those that it has itself as shares of a peak; the lower of two counts.

    Parameters
    ----------
    limits : mapping of str to int, bytes
        By the names of files of a cgroup.
    peak_bytes : float
        Used only where the policy has shares.
    swap_write_bytes_per_s : int, bytes a second
        0 for no limit; a baseline has none.
    """
    own = {file: int(share * peak_bytes) for file, share in policy.peak_shares.items()}
    both = {file: min(own.get(file, limit), limit) for file, limit in limits.items()}
    writes = 0 if isinstance(policy, NonePolicy) else swap_write_bytes_per_s
    return LimitedPolicy(policy, own | both, writes) if own or both or writes else policy


@dataclass(frozen=True)
class ProtectPolicy(Policy):
    """Parts of the program's memory are locked as it touches them: what mlock() in the right places would do.

    The addresses of a run must be those of the recording that told the parts, so they are not random in such a run. A
    program that is linked statically cannot be protected.

    Parameters
    ----------
    ranges : tuple of (int, int), bytes
        Start and end of each part, the end excluded.

    References
    ----------
    DAMON v8 patch set, Appendix F
    """

    ranges: tuple[tuple[int, int], ...]
    name = "protect"

    def spec(self) -> dict[str, Any]:
        """The parts, and that addresses are not random."""
        return {"context": None, "aslr": False, "protect": [list(one) for one in self.ranges]}


@dataclass(frozen=True)
class RecordPolicy(Policy):
    """Nothing is changed, and what DAMON sees is recorded: the DAOS paper's ``rec`` (vaddr) and ``prec`` (paddr).

    Parameters
    ----------
    sz_bytes : int
        The recording ends when it is this large, as the kernel writes it; the run goes on.
    pages : bool
        Whether what the machine counts of accesses to each page comes with it (``count_accesses`` of a machine file),
        and on which of them each page of the targets is.
    objects : bool
        Whether the kernel's own objects are watched as well: `damoos.recordings.kernel_objects`.
    """

    operations: str = "vaddr"
    attrs: Attrs = field(default_factory=Attrs)
    sz_bytes: int = 64 << 20
    pages: bool = False
    objects: bool = False
    name = "record"

    @property
    def context(self) -> Context:
        """One without a scheme."""
        return Context((), self.operations, self.attrs)

    @property
    def damon_context(self) -> Context:
        """The context."""
        return self.context

    def spec(self) -> dict[str, Any]:
        """The context, and the bound."""
        record = {"sz_bytes": self.sz_bytes, "pages": self.pages, "objects": self.objects}
        return {"context": context_to_json(self.context), "record": record}
