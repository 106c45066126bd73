"""A policy, and those there are: nothing, a set of DAMOS schemes, a recording, another THP mode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Attrs, Context, Scheme, kernel_pattern


class Policy(ABC):
    """What the agent is asked to hold in force during a run."""

    name: str

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

    schemes: tuple[Scheme, ...]
    operations: str = "vaddr"
    attrs: Attrs = field(default_factory=Attrs)
    thp: str | None = None
    name = "damos"

    def __post_init__(self) -> None:
        """Refuse now what a context would refuse on the machine."""
        for scheme in self.context.schemes:
            kernel_pattern(scheme.pattern, self.attrs)

    @property
    def context(self) -> Context:
        """The DAMON context that this policy asks for."""
        return Context(self.schemes, self.operations, self.attrs)

    def spec(self) -> dict[str, Any]:
        """The context in damo's JSON."""
        return {"context": context_to_json(self.context), "thp": self.thp}


@dataclass(frozen=True)
class RecordPolicy(Policy):
    """Nothing is changed, and what DAMON sees is recorded: the DAOS paper's ``rec`` (vaddr) and ``prec`` (paddr).

    Parameters
    ----------
    sz_bytes : int
        The recording ends when it is this large, as the kernel writes it; the run goes on.
    """

    operations: str = "vaddr"
    attrs: Attrs = field(default_factory=Attrs)
    sz_bytes: int = 64 << 20
    name = "record"

    def spec(self) -> dict[str, Any]:
        """A context without a scheme, and the bound."""
        context = Context((), self.operations, self.attrs)
        return {"context": context_to_json(context), "record": {"sz_bytes": self.sz_bytes}}
