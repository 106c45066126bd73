"""One policy that a keeper has in force: put on, looked at, put back when it is lost, and taken off by its guard."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from damoos.errors import DamoosError, MachineBusy, MachineError, MachineTransientError
from damoos.service import guard
from damoos.service.guard import WATCHED_ONLY, Action, Decision, Guard
from damoos.service.journal import Journal

# A policy that is lost more often than this in an hour is not put back again.
RENEWALS_AN_HOUR = 3
# What of a status is kept for those who ask.
_REPORTED = (
    "pid", "nr_processes", "in_force", "paused", "for_s", "restarts", "rss_bytes", "damos", "effective_bytes", "rule",
    "kdamond_cpu_s", "reading",
)  # fmt: skip


class Kept:
    """From `begin` until `look` says that it has ended, or `stop`.

    Each window of its guard goes into the journal: ``at_s`` (its end, of this machine's clock), ``paused``,
    ``net_bytes`` (memory of the processes and what their pages take in zram and zswap, at its end; None where the
    kernel does not tell), ``watched`` (values by name).

    Parameters
    ----------
    name : str
    call : callable
        Calls the machine's agent, a new one after a lost connection.
    applied : mapping
        Arguments of the call ``apply``: the policy, and what it is put on.
    about : mapping
        What its state says beside what the machine tells: its study, scheme and the like.
    watched : Guard
    journal : Journal
    now : callable
        Seconds of a steady clock.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        applied: Mapping[str, Any],
        about: Mapping[str, Any],
        watched: Guard,
        journal: Journal,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._call = call
        self.applied = dict(applied)
        self._about = dict(about)
        self._guard = watched
        self._journal = journal
        self._now = now
        self._renewed_s: list[float] = []
        self._restarts = 0
        self._unreached = ""

    def begin(self) -> None:
        """Put it into force.

        Raises
        ------
        DamoosError : it cannot be
        """
        begun = self._call("apply", service=self.name, **self.applied)
        if (on := self.applied.get("on")) and on["kind"] == "pid":
            self.applied["on"] = {**on, "started": begun["started"]}
        self._about["pid"] = begun["pid"]
        self._journal.audit(self.name, f"put into force: {self._about['scheme']} on {self._about['on']}")
        self._publish({"in_force": begun["pid"] > 0})

    def look(self) -> bool:
        """See how it is, and do what is to be done; False once there is nothing left to keep.

        Raises
        ------
        MachineTransientError, MachineBusy : the machine is out of reach
        """
        try:
            return self._looked()
        except (MachineTransientError, MachineBusy):
            raise
        except DamoosError as error:
            self._fail(str(error))
            return False

    def _looked(self) -> bool:
        status = self._call("status", service=self.name)
        if self._unreached:
            self._unreached = ""
            self._journal.audit(self.name, "within reach again")
        if status["in_service"] and not status["alive"]:
            self._call("stop", service=self.name)
            self._journal.audit(self.name, "its program has ended, and with it what was in service")
            return False
        if status.get("changed"):
            why = f"somebody else has changed it, and theirs stays: {'; '.join(status['changed'])}"
            self._fail(why, stood_down=True)
            return False
        decision = self._guarded(status)
        self._publish({"in_force": False, **{key: status[key] for key in _REPORTED if key in status}})
        if decision.action is Action.UNDO:
            self._fail(f"its guard has taken it off: {decision.why}")
            return False
        if decision.action in (Action.PAUSE, Action.RESUME):
            self._call(decision.action.value, service=self.name)
            self._guard.restart()
            self._journal.audit(self.name, f"guard: {decision.action.value}: {decision.why}")
        self._keep_in_force(status)
        return True

    def _guarded(self, status: Mapping[str, Any]) -> Decision:
        """What the guard says of a policy that acts, or that it has paused."""
        restarts = status.get("restarts", 0)  # a new agent counts anew
        if restarts > self._restarts:
            self._guard.restart()
            self._journal.audit(self.name, f"put on the processes that have come, process {status['pid']} first")
        self._restarts = restarts
        if "reading" not in status or not (status["in_force"] or status["paused"]):
            self._guard.restart()
            return Decision(Action.NONE)
        before = self._guard.nr_windows
        decision = self._guard.add(status["reading"], status["paused"])
        if self._guard.nr_windows > before:
            window = {"at_s": time.time(), "paused": status["paused"], "net_bytes": _net_bytes(status)}
            self._journal.add_window(self.name, {**window, "watched": self._guard.values})
        return decision

    def _keep_in_force(self, status: Mapping[str, Any]) -> None:
        """Put it back if it was lost: its kdamond or rule ended, or its agent has."""
        if status["in_service"] and (status["in_force"] or not status["nr_processes"]):
            return
        self._renewed_s = [at_s for at_s in self._renewed_s if self._now() - at_s < 3600]
        why = f": {status['why']}" if status.get("why") else ""
        if len(self._renewed_s) == RENEWALS_AN_HOUR:
            raise MachineError(f"it was lost {len(self._renewed_s) + 1} times within an hour{why}")
        if status["in_service"]:
            self._call("renew", service=self.name)  # if the agent dies of it, the next status tells
        elif self.applied.get("on"):
            self._call("apply", service=self.name, **self.applied)
        else:
            raise MachineError("the connection to its machine was lost, and the program that damoos ran ended with it")
        self._renewed_s.append(self._now())
        self._guard.restart()
        self._journal.audit(self.name, f"put back, because it was lost{why}")

    def out_of_reach(self, error: DamoosError) -> None:
        """Say that nobody knows how it is; its agent takes it off by itself when it hears nothing for too long."""
        if not self._unreached:
            self._journal.audit(self.name, f"out of reach: {error}")
        self._unreached = str(error)
        self._guard.restart()
        self._publish({"in_force": False, "out_of_reach": str(error)})

    def _fail(self, why: str, stood_down: bool = False) -> None:
        try:
            self._call("stop", service=self.name)
        except DamoosError as error:  # its agent undoes it all the same, or the next one does
            why = f"{why}; and taking it off failed: {error}"
        self._journal.audit(self.name, f"no longer in force: {why}")
        self._publish({"in_force": False, "failed": why, "stood_down": stood_down})
        self._journal.forget(self.name)

    def stop(self, why: str) -> None:
        """Take it off; of a machine out of reach, its agent does that when it hears nothing for too long."""
        try:
            self._call("stop", service=self.name)
        except DamoosError as error:
            why = f"{why}; the machine did not confirm it: {error}"
        self._journal.audit(self.name, f"taken off: {why}")

    def _publish(self, status: Mapping[str, Any]) -> None:
        self._journal.tell(self.name, {**self._about, **status, "watched": self._guard.values})


def _net_bytes(status: Mapping[str, Any]) -> int | None:
    reading = status["reading"]
    held = reading["memory_bytes"] if reading["memory_bytes"] is not None else status["rss_bytes"]
    return held + reading["compressed_bytes"] if reading["compressed_bytes"] is not None else None


def guard_of(spec: Mapping[str, Any]) -> Guard:
    """The guard that a specification asks for."""
    names = [name for name, *_ in spec["metrics"]]
    limits = [guard.parse(text, names) for text in spec["guards"]]
    return Guard(limits, spec["window_s"], judges=spec["arm"] != WATCHED_ONLY)
