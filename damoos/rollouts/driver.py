"""Driving a rollout: one look after the other at machines that keep what they have by themselves.

Each decision is written down before anything is done about it, and doing it again changes nothing. So a driver may be
killed at any point: the machines stay as they are, under their guards, and the next driver goes on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from damoos.errors import StoreError
from damoos.rollouts.effect import Track
from damoos.rollouts.judge import Finding, Standing, judge
from damoos.rollouts.plan import BEFORE_SHARE, LEAST_BEFORE, MOST_COMPARED, Plan, least_spans
from damoos.rollouts.rollout import Part, Phase, Rollout, State, whys
from damoos.statistics.sequential import LEAST_VALUES

# A phase that has too little to judge by after so many times its length will not get more. Short phases are waited for
# longer: keepers have to reach their machines first, and a busy machine takes longer for a window.
PATIENCE = 3.0
LEAST_PATIENCE_S = 600.0
# How long an undo waits for machines to say that they have done it.
UNDO_S = 60.0
POLL_S = 2.0
ASKED = "somebody has asked for it"
GOING_ON = (State.RUNNING, State.UNDOING)


@dataclass(frozen=True)
class Trouble:
    """A machine on which something has ended by itself.

    Parameters
    ----------
    machine : str
    part : Part
    why : str
    stood_down : bool
        Somebody else has changed what was set, and it stays as they want it.
    """

    machine: str
    part: Part
    why: str
    stood_down: bool = False


class Fleet(Protocol):
    """The machines of a rollout."""

    def settle(self, wanted: Mapping[str, Part | None]) -> None:
        """Have this on the machines, and nothing else of the rollout; what is so already stays as it is.

        What has ended by itself is among the `troubles` until `remaining` is asked.
        """

    def troubles(self) -> Iterable[Trouble]:
        """What has ended on its own, of all that was wanted and not yet taken back."""

    def unreachable(self) -> dict[str, str]:
        """Machines that could not be told what is wanted of them, and why; telling them again may help."""

    def remaining(self) -> list[str]:
        """Machines on which there is still something of it; what is off is forgotten, so an undo is decided before."""

    def tracks(self, machines: Iterable[str], part: Part, begun_s: float, baking_s: float) -> list[Track]:
        """Windows of machines: those since ``begun_s``, and from ``baking_s`` on those of the part."""


class Driver:
    """Drives one rollout; only one driver at a time (`Rollout.driving`).

    Parameters
    ----------
    rollout : Rollout
    fleet : Fleet
    event : callable
        Told each decision, in one line.
    now : callable
        Seconds since 1970.
    """

    def __init__(
        self, rollout: Rollout, fleet: Fleet, event: Callable[[str], Any] = print, now: Callable[[], float] = time.time
    ) -> None:
        self._rollout = rollout
        self._progress = rollout.progress
        self._fleet = fleet
        self._event = event
        self._now = now
        if self._is_to_be_undone():
            self._undo(ASKED)
        elif self._progress.state is State.UNDOING:  # not all machines have confirmed it to the driver before
            self._undo(self._progress.why)
        elif self._progress.state is State.HELD:
            self._go_on()
        elif self._progress.state is State.RUNNING and not self._progress.begun_s:
            self._begin_step(0)
        elif self._progress.state is not State.RUNNING or self._is_well():  # a trouble may not have been written down
            self._settle()
            if self._progress.state is State.UNDONE and self._fleet.remaining():
                self._undo(self._progress.why)

    @property
    def _plan(self) -> Plan:
        return self._rollout.plan

    def advance(self) -> bool:
        """Look at the machines and decide; False once there is nothing left to do."""
        if self._is_to_be_undone():
            self._undo(ASKED)
        if self._progress.state is State.UNDOING:
            return self._undoing()
        if self._progress.state is not State.RUNNING:
            return False
        if self._is_well():
            self._before() if self._progress.phase is Phase.BEFORE else self._bake()
        return self._progress.state in GOING_ON

    def _is_to_be_undone(self) -> bool:
        return self._rollout.is_undo_asked_for() and self._progress.state not in (State.UNDOING, State.UNDONE)

    def _decide(self, what: str) -> None:
        """Write a decision down, tell it, and have the machines follow."""
        self._tell(what)
        self._settle()

    def _tell(self, what: str) -> None:
        self._rollout.decide(what)
        self._event(what)

    def _settle(self) -> None:
        """Have each machine be as the progress says."""
        is_undone = self._progress.state in (State.UNDOING, State.UNDONE)  # those that are left are told, too
        left = () if is_undone else self._progress.left.keys()
        self._fleet.settle({machine: part for machine, part in self._rollout.parts().items() if machine not in left})

    def _begin_step(self, step: int) -> None:
        progress, plan = self._progress, self._plan
        progress.step, progress.phase = step, Phase.BEFORE
        progress.begun_s, progress.baking_s = self._now(), 0.0
        progress.until_s = progress.begun_s + BEFORE_SHARE * plan.bake_s
        progress.findings.append([])
        cohort, control = plan.cohort(step), plan.control(step)
        which = "" if plan.steps[step] < len(plan.machines) else ", which have the policy already"
        beside = (
            f"beside {some(control)}{which}"
            if control
            else "each to be compared with itself before, as there are no others"
        )
        self._decide(f"step {step + 1} of {len(plan.steps)}: {some(cohort)} watched, {beside}")

    def _go_on(self) -> None:
        """After it was held: as long again, if the machines have the policy by now."""
        progress = self._progress
        share = 1.0 if progress.phase is Phase.BAKE else BEFORE_SHARE
        progress.state, progress.why = State.RUNNING, ""
        progress.until_s = self._now() + share * self._plan.bake_s
        self._decide("goes on, as somebody has asked for")

    def _undo(self, why: str) -> None:
        self._progress.state, self._progress.why = State.UNDOING, why
        self._progress.until_s = self._now() + UNDO_S
        try:
            self._tell(f"undone everywhere: {why}")
        except StoreError as error:  # must not keep the policy on, nor have the next driver put it on again
            with suppress(StoreError):
                self._rollout.ask_for_undo()
            self._settle()
            name = self._rollout.name
            raise StoreError(
                f"{error}; the machines of {name} were told all the same to take the policy off; run 'damoos stop"
                f" {name}' again once that can be written"
            ) from None
        self._settle()

    def _hold(self, why: str) -> None:
        self._progress.state, self._progress.why = State.HELD, why
        self._decide(f"held: {why}")

    def _undoing(self) -> bool:
        if self._fleet.unreachable():  # telling them again may help
            self._settle()
        if self._fleet.remaining() and self._now() < self._progress.until_s:
            return True
        self._progress.not_off = left = not_off(self._fleet)
        self._progress.state = State.UNDOING if left else State.UNDONE
        self._tell(f"the policy is off all machines{f' but {some([*left])} ({whys(left)})' if left else ''}")
        return False

    def _is_well(self) -> bool:
        """Whether all is well; else it has been dealt with."""
        if missed := self._fleet.unreachable():
            self._hold(whys(missed))
            return False
        parts = self._rollout.parts()
        for trouble in self._fleet.troubles():
            if trouble.part is not parts[trouble.machine]:  # left already, or a watch that has given way
                continue
            if trouble.stood_down or trouble.part is Part.WATCHED:
                self._progress.left[trouble.machine] = trouble.why
                self._hold(f"{trouble.machine} is left as it is: {trouble.why}")
            else:
                self._undo(f"{trouble.machine}: {trouble.why}")
            return False
        return True

    def _tracks(self, machines: Sequence[str]) -> dict[str, Track]:
        """The windows of machines that all have the same part in this step."""
        progress = self._progress
        compared = [one for one in machines if one not in progress.left][:MOST_COMPARED]
        part = self._rollout.parts()[machines[0]] if machines else None
        if part is None:
            return {}
        tracks = self._fleet.tracks(compared, part, progress.begun_s, progress.baking_s)
        return dict(zip(compared, tracks, strict=True))

    def _before(self) -> None:
        progress, plan = self._progress, self._plan
        if self._now() < progress.until_s:
            return
        both = plan.cohort(progress.step), plan.control(progress.step)
        sides = [self._tracks(machines) for machines in both if machines]
        if all(map(_can_be_compared, sides)):
            progress.phase, progress.baking_s = Phase.BAKE, self._now()
            progress.until_s = progress.baking_s + plan.bake_s
            self._decide(f"step {progress.step + 1}: the policy goes on {some(plan.cohort(progress.step))}")
        elif self._is_overdue(BEFORE_SHARE * plan.bake_s):
            nr_windows = {one: len(track.before) for side in sides for one, track in side.items()}
            few = [f"{one} has {nr} of {LEAST_BEFORE} windows" for one, nr in nr_windows.items() if nr < LEAST_BEFORE]
            self._hold(
                "no data: half of its machines could not be watched for long enough before they get the policy"
                f" ({some(few) or 'all are left to others'})"
            )

    def _bake(self) -> None:
        progress, plan = self._progress, self._plan
        policy = self._tracks(plan.cohort(progress.step))
        control = self._tracks(plan.control(progress.step))
        findings = judge(plan, list(policy.values()), list(control.values()))
        progress.findings[progress.step] = [_plain(finding) for finding in findings]
        if broken := [finding for finding in findings if finding.standing is Standing.BROKEN]:
            self._undo(str(broken[0]))  # before anything is written: a full disk must not keep harm on
            return
        self._rollout.save()
        if self._now() < progress.until_s:
            return
        fewest = min(finding.effect.nr_windows for finding in findings)
        if fewest < least_spans(plan.tolerance) and not self._is_overdue(plan.bake_s):
            return
        if fewest < LEAST_VALUES:
            self._undo(f"no data: {'; '.join(map(str, findings))}")
        elif unclear := [finding for finding in findings if finding.standing is Standing.UNCLEAR]:
            self._hold(f"{'; '.join(map(str, unclear))}; 'damoos resume {self._rollout.name}' watches as long again")
        elif progress.step + 1 < len(plan.steps):
            self._tell(f"step {progress.step + 1} is proven: {'; '.join(map(str, findings))}")
            self._begin_step(progress.step + 1)
        else:
            progress.state = State.DONE
            self._decide(f"done: {'; '.join(map(str, findings))}")

    def _is_overdue(self, length_s: float) -> bool:
        """Whether the phase is over for so long that waiting does not help; one that was held gets as long again."""
        return self._now() > self._progress.until_s + max((PATIENCE - 1) * length_s, LEAST_PATIENCE_S)


def _can_be_compared(tracks: Mapping[str, Track]) -> bool:
    """Whether there are windows before of half of them; the others get the policy all the same, under its guard."""
    return 2 * sum(len(track.before) >= LEAST_BEFORE for track in tracks.values()) >= max(len(tracks), 1)


def not_off(fleet: Fleet) -> dict[str, str]:
    """Machines of a rollout that was undone on which it may be in force all the same, and why."""
    return {**dict.fromkeys(fleet.remaining(), "its keeper has not confirmed that it is off"), **fleet.unreachable()}


def some(machines: list[str]) -> str:
    """Machines in words, not all of many."""
    return ", ".join(machines) if len(machines) <= 4 else f"{', '.join(machines[:3])} and {len(machines) - 3} more"


def _plain(finding: Finding) -> dict[str, Any]:
    effect = finding.effect
    numbers = {"mean": effect.mean, "lower": effect.lower, "upper": effect.upper, "bound": finding.bound}
    return {
        "metric": finding.metric,
        "standing": str(finding.standing),
        "nr_windows": effect.nr_windows,
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
    }


def drive(driver: Driver, wait: Callable[[float], Any] = time.sleep) -> None:
    """Until it is done, undone or held."""
    while driver.advance():
        wait(POLL_S)
