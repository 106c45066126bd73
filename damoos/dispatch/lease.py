"""A machine held for a series of runs, lost and found again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from damoos.common import plugins
from damoos.dispatch.run import run_once
from damoos.errors import DamoosError, MachineError, MachineTransientError
from damoos.machines.base import Machine, Session, Sink
from damoos.model.trial import Measurement, RawSamples
from damoos.policies.base import Policy
from damoos.workloads.base import Workload
from damoos.workloads.catalog import Place

ATTEMPTS = 3
BACKOFF_S = 1.0
_T = TypeVar("_T")


class Lease:
    """A machine held for a series of runs; lost machines are opened again, and the run that was lost is repeated.

    Must be used by the thread that made it: a guest dies with that thread.

    Parameters
    ----------
    machine : Machine
    say : callable
        Told what takes time.
    attempts : int
        How often a job is tried on a machine that gets lost; 1 where somebody else counts.
    """

    def __init__(self, machine: Machine, say: Callable[[str], None] = lambda _: None, attempts: int = ATTEMPTS) -> None:
        self.machine = machine
        self._say = say
        self._attempts = attempts
        self._session: Session | None = None
        self._used = False

    def __enter__(self) -> Lease:
        """Open the machine now, so that its problems show at once."""
        self._trying(lambda session: session)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the machine; using it again would open it anew."""
        self._drop()

    @property
    def facts(self) -> dict[str, Any]:
        """What the machine said of itself."""
        return self._trying(lambda session: session.facts)

    def call(self, name: str, **args: Any) -> Any:
        """A call to the machine's agent."""
        return self._trying(lambda session: session.agent.call(name, **args))

    def which(self, program: str) -> str | None:
        """Path of a program on the machine, or None."""
        path: str | None = self.call("which", program=program)
        return path

    @property
    def place(self) -> Place:
        """What a workload's input is chosen by."""
        facts = self.facts
        return Place(self.which, facts["mem_bytes"], facts.get("accel") == "tcg")

    def copy(self, path: Path) -> str:
        """Bring a file to the machine."""
        return self._trying(lambda session: session.copy(path))

    def run(
        self,
        workload: Workload,
        policy: Policy,
        limit_s: float,
        abort_s: float | None = None,
        sink: Sink | None = None,
    ) -> tuple[Measurement, RawSamples]:
        """Run a workload once, on a machine opened anew as often as `ATTEMPTS` allows."""
        if self._used and self.machine.conditions.isolation == "boot":
            self._drop()
        self._used = True
        return self._trying(lambda session: run_once(session, self.machine, workload, policy, limit_s, abort_s, sink))

    def cancel(self) -> None:
        """End the run that is under way, if any; from another thread."""
        if session := self._session:
            session.agent.cancel()

    def _trying(self, job: Callable[[Session], _T]) -> _T:
        for attempt in range(1, self._attempts + 1):
            try:
                return job(self._opened())
            except MachineTransientError as error:
                self._drop()
                if attempt == self._attempts:
                    raise
                self._say(f"machine '{self.machine.name}' lost ({error}); trying again")
                time.sleep(BACKOFF_S * attempt)
        raise AssertionError("unreachable")

    def _opened(self) -> Session:
        if self._session is None:
            session = self._open()
            try:
                session.agent.call("prepare", **self.machine.conditions.wanted())
            except BaseException:
                with contextlib.suppress(DamoosError):
                    session.close()
                raise
            if session.facts.get("damon_stat"):
                self._say(f"machine '{self.machine.name}': DAMON_STAT is switched off while damoos has the machine")
            self._session = session
        return self._session

    def _open(self) -> Session:
        if plugins.is_own(self.machine):
            return self.machine.open(self._say)
        with plugins.guarded(f"machine '{self.machine.name}'", MachineError):
            return self.machine.open(self._say)

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session:
            session.close()


class KeptOpen:
    """A machine that stays open from one job of a tenant to the next; another tenant gets it opened anew.

    Parameters
    ----------
    say : callable
        Told what takes time.
    """

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self._say = say
        self._tenant = ""
        self.lease: Lease | None = None

    def leased(self, tenant: str, make: Callable[[], Machine]) -> Lease:
        """The tenant's lease; one attempt at a time, as a dispatcher's driver counts them."""
        if self.lease is None or self._tenant != tenant:
            self.close()
            self._tenant, self.lease = tenant, Lease(make(), self._say, attempts=1)
        return self.lease

    def close(self) -> None:
        """Close the machine, if one is open; what goes wrong with that is nobody's business any more."""
        lease, self.lease = self.lease, None
        if lease:
            with contextlib.suppress(DamoosError):
                lease.close()
