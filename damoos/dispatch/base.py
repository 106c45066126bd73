"""Where jobs are done: each on a machine, one at a time, and what came of it is fetched in the order of its arrival."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from damoos.dispatch.lease import Lease
from damoos.machines.base import Machine

Job = Callable[[Lease], Any]


def job(function: Callable[..., Any], *args: Any) -> Job:
    """A function of a lease and of other things, which it gets now; it can be pickled if they can."""
    return partial(_with_lease, function, args)


def _with_lease(function: Callable[..., Any], args: tuple[Any, ...], lease: Lease) -> Any:
    return function(lease, *args)


@dataclass(frozen=True)
class Slot:
    """One of the machines of a name."""

    machine: str
    number: int = 0

    def __str__(self) -> str:
        """The machine's name; with a number where it has several."""
        return self.machine if self.number == 0 else f"{self.machine}#{self.number}"


@dataclass(frozen=True)
class Order:
    """A job for a slot.

    Parameters
    ----------
    slot : Slot
    tenant : str
        Who has the slot; a machine is kept open between jobs of one tenant.
    make : callable
        Makes the machine; what it needs for this tenant included.
    job : callable
        A function of a `Lease`.
    """

    slot: Slot
    tenant: str
    make: Callable[[], Machine]
    job: Job


@dataclass(frozen=True)
class Outcome:
    """What came of an order: a value, or the error that was raised."""

    order: Order
    value: Any = None
    error: Exception | None = None


class Dispatcher(ABC):
    """Machines, near or far. One thread submits and waits; jobs of different slots are done at the same time."""

    @abstractmethod
    def capacity(self, machine: str) -> int:
        """How many machines of a name there are, 1 or more.

        Raises
        ------
        ConfigError : none will ever be there
        """

    @abstractmethod
    def submit(self, order: Order) -> None:
        """Have a job done; its slot must have none under way."""

    @abstractmethod
    def release(self, slot: Slot) -> None:
        """The tenant of a slot is done with it: close its machine."""

    @abstractmethod
    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """The next outcome, in the order of arrival; None if there is none in that time."""

    @abstractmethod
    def close(self) -> None:
        """Close all machines; what is under way is given up."""
