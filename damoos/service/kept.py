"""One policy that a keeper has in force: put on, looked at, put back when it is lost, and taken off by its guard."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from damoos.common.unpack import MALFORMED, in_short
from damoos.damon.damo_json import context_from_json
from damoos.errors import MOST_CHARS, DamoosError, MachineBusy, MachineError, MachineTransientError
from damoos.service import guard
from damoos.service.adaptation import SIGNATURE, Adaptation, Change
from damoos.service.forms import STATE
from damoos.service.guard import NOTHING, WATCHED_ONLY, Action, Decision, Guard, Reason
from damoos.service.journal import Journal
from damoos.service.min_age import ages_around, min_age_us, with_min_age
from damoos.units import format_us

# A policy that is lost more often than this in an hour is not put back again.
RENEWALS_AN_HOUR = 3
NO_SWAP = "the machine has no swap, so anonymous memory cannot be paged out; only pages of files can"
# What of a status is kept for those who ask.
_REPORTED = (
    "pid", "nr_processes", "in_force", "paused", "for_s", "restarts", "rss_bytes", "damos", "effective_bytes", "rule",
    "kdamond_cpu_s", "reading",
)  # fmt: skip


class Kept:
    """From `begin` until `look` says that it has ended, or `stop`.

    Each window of its guard goes into the journal: ``at_s`` (its end, of this machine's clock; later than the one
    before, also if the clock was set back), ``paused``, ``net_bytes`` (memory of the processes and what their pages
    take in zram and zswap, at its end; None where the kernel does not tell), ``rss_bytes``, ``watched`` (values by
    name).

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
    adaptation : Adaptation or None
        Moves the age from which its scheme pages out; None leaves it as it is.
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
        adaptation: Adaptation | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._call = call
        self.applied = dict(applied)
        self._about = dict(about)
        self._guard = watched
        self._journal = journal
        self._adaptation = adaptation
        self._age_us = adaptation.age_us if adaptation else 0
        self._matched: tuple[float, float] | None = None
        self._now = now
        self._renewed_s: list[float] = []
        self._restarts = 0
        self._window_s = 0.0
        self._unreached = ""

    @property
    def window_s(self) -> float:
        """How long a window of its guard lasts, in seconds."""
        return self._guard.window_s

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
        if begun.get("swap_bytes") == 0 and _reclaims(self.applied):
            self._about["note"] = NO_SWAP
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
        except MALFORMED as error:  # each answer has its form, and they do not fit together
            self._fail(f"what its machine answers cannot be computed with: {in_short(error)}")
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
        self._publish({"in_force": status.get("in_force", False)}, _told(status))
        if decision.action is Action.UNDO:
            self._fail(f"its guard has taken it off: {decision}")
            return False
        if decision.action in (Action.PAUSE, Action.RESUME):
            self._call(decision.action.value, service=self.name)
            self._guard.restart()
            self._journal.audit(self.name, f"guard: {decision.action.value}: {decision}")
        if self._adaptation and decision.action is Action.PAUSE:
            is_far = decision.reason is Reason.FAR
            self._change(self._adaptation.paused() if is_far else self._adaptation.interrupted())
        self._keep_in_force(status)
        return True

    def _adapted(self, window: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """What a window in which it was in force says of the workload."""
        if not self._adaptation:
            return
        reading, net_bytes = status["reading"], window["net_bytes"]
        applied = math.fsum(one["sz_tried_bytes"] for one in status["damos"])
        before, self._matched = self._matched, (reading["at_s"], applied)
        told = {"net_bytes": net_bytes, "used_bytes": _sum(reading["memory_bytes"], reading["swap_bytes"])}
        if before and applied >= before[1]:
            told["matched_bytes_per_s"] = (applied - before[1]) / (reading["at_s"] - before[0])
        signature = {name: value for name, value in {**told, **self._guard.rates}.items() if name in SIGNATURE}
        known = {name: value for name, value in signature.items() if value is not None}
        net = math.nan if net_bytes is None else net_bytes
        self._change(self._adaptation.add(net, window["watched"], known))

    def _interrupted(self) -> None:
        """The processes are others, or the policy was put on anew: windows before say nothing of those to come."""
        self._guard.restart()
        self._matched = None
        if self._adaptation:
            self._change(self._adaptation.interrupted())

    def _change(self, change: Change | None) -> None:
        """Have another age in force, online."""
        if not change:
            return
        if change.why:
            self._journal.audit(self.name, f"adapt: min_age {format_us(change.age_us)}: {change.why}")
        context = with_min_age(self.applied["context"], change.age_us)
        self._about["scheme"] = str(context_from_json(context))
        if change.is_kept:
            self._journal.adapt(self.name, context, self._about["scheme"])
        if change.age_us == self._age_us:
            return
        self._age_us = change.age_us
        self.applied["context"] = context
        self._guard.forget()
        self._guard.restart()
        self._call("commit", service=self.name, context=context)

    def _guarded(self, status: Mapping[str, Any]) -> Decision:
        """What the guard says of a policy that acts, or that it has paused."""
        restarts = status.get("restarts", 0)  # a new agent counts anew
        if restarts > self._restarts:
            self._interrupted()
            self._journal.audit(self.name, f"put on the processes that have come, process {status['pid']} first")
        self._restarts = restarts
        if "reading" not in status or not (status["in_force"] or status["paused"]):
            self._guard.restart()
            return NOTHING
        before = self._guard.nr_windows
        decision = self._guard.add(status["reading"], status["paused"])
        if self._guard.nr_windows > before:
            self._window_s = max(
                time.time(), self._window_s + 1e-3
            )  # readers take windows after the last that they have
            window = {
                "at_s": self._window_s, "paused": status["paused"], "net_bytes": _net_bytes(status),
                "rss_bytes": status["rss_bytes"], "watched": self._guard.values,
                **({"min_age_us": self._age_us} if self._adaptation else {}),
            }  # fmt: skip
            self._journal.add_window(self.name, window)
            if decision.action is Action.NONE and not status["paused"]:
                self._adapted(window, status)
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
        self._interrupted()
        self._journal.audit(self.name, f"put back, because it was lost{why}")

    def out_of_reach(self, error: DamoosError) -> None:
        """Say that nobody knows how it is; its agent takes it off by itself when it hears nothing for too long."""
        if not self._unreached:
            self._journal.audit(self.name, f"out of reach: {error}")
        self._unreached = str(error)
        self._guard.restart()
        self._publish({"in_force": False, "out_of_reach": str(error)[:MOST_CHARS]})

    def _fail(self, why: str, stood_down: bool = False) -> None:
        doubt = {}
        try:
            self._call("stop", service=self.name)
        except DamoosError as error:
            why = f"{why}; and taking it off failed: {error}"
            doubt = self._doubt(error)
        why = why[:MOST_CHARS]
        self._journal.audit(self.name, f"{'to be off' if doubt else 'no longer in force'}: {why}")
        self._publish({"in_force": False, "failed": why, "stood_down": stood_down, **doubt})
        if doubt:
            self._journal.stop(self.name)
        else:
            self._journal.forget(self.name)

    def _doubt(self, error: DamoosError) -> dict[str, str]:
        """What its state says after it could not be taken off.

        An agent that hears nothing takes it off by itself, in time. One that could not do it does not, nor one that is
        there and lets nobody else in.
        """
        is_silent = isinstance(error, MachineTransientError) and not self.applied.get("stays")
        return {"out_of_reach" if is_silent else "unconfirmed": str(error)[:MOST_CHARS]}

    def stop(self, why: str) -> None:
        """Take it off.

        Raises
        ------
        MachineTransientError : its machine has not confirmed that, so it may be in force
        """
        try:
            self._call("stop", service=self.name)
        except DamoosError as error:
            self._journal.audit(self.name, f"not taken off yet: {error}")
            self._publish({"in_force": False, **self._doubt(error)})
            raise MachineTransientError(str(error)) from None
        self._journal.audit(self.name, f"taken off: {why}")

    def _publish(self, status: Mapping[str, Any], told: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write how it is; what the machine has told beside only if its state can be read again with that."""
        adapting = {"adapting": self._adaptation.doing} if self._adaptation else {}
        now = {**status, **adapting}
        state = {**self._about, **told, **now, "watched": self._guard.values}
        self._journal.tell(self.name, state if STATE.takes(state) else {**self._about, **now})


def _told(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a state says of a status; a number without an end, of a rule that has not decided yet, is left out."""
    told = {key: status[key] for key in _REPORTED if key in status}
    if "rule" in told:
        told["rule"] = {name: value for name, value in told["rule"].items() if math.isfinite(value)}
    return told


def _reclaims(applied: Mapping[str, Any]) -> bool:
    """Whether a policy gives memory back that is in use."""
    context = applied["context"] and context_from_json(applied["context"])
    pages_out = context and any(scheme.action == "pageout" for scheme in context.schemes)
    return bool(pages_out or applied.get("controller") or applied.get("memory_limits"))


def _net_bytes(status: Mapping[str, Any]) -> int | None:
    reading = status["reading"]
    held = reading["memory_bytes"] if reading["memory_bytes"] is not None else status["rss_bytes"]
    return _sum(held, reading["compressed_bytes"])


def _sum(*values: int | None) -> int | None:
    """None if one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def guard_of(spec: Mapping[str, Any]) -> Guard:
    """The guard that a specification asks for."""
    names = [name for name, *_ in spec["metrics"]]
    limits = [guard.parse(text, names) for text in spec["guards"]]
    return Guard(limits, spec["window_s"], judges=spec["arm"] != WATCHED_ONLY)


def adaptation_of(spec: Mapping[str, Any], watched: Guard) -> Adaptation | None:
    """What adapts the policy of a specification; None if it is to stay as it is."""
    if not spec.get("proven_us"):
        return None
    context = context_from_json(spec["policy"]["context"])
    ages_us = ages_around(spec["proven_us"], context.attrs.aggr_us)
    return Adaptation(watched.limits, watched.window_s, ages_us, min_age_us(spec["policy"]))
