"""A policy, and the two there are so far: nothing, and a set of DAMOS schemes."""

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
class DamosPolicy(Policy):
    """DAMOS schemes on the workload's process tree (vaddr) or on all of the machine's memory (paddr)."""

    schemes: tuple[Scheme, ...]
    operations: str = "vaddr"
    attrs: Attrs = field(default_factory=Attrs)
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
        return {"context": context_to_json(self.context)}
