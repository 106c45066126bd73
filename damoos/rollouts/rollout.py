"""A rollout in its folder: its plan, and how far it has come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from damoos.common.json_file import Damage, set_aside
from damoos.dispatch.ray_address import RayCluster
from damoos.errors import ConfigError, StoreError, nearest
from damoos.rollouts.forms import PROGRESS as PROGRESS_FORM
from damoos.rollouts.forms import ROLLOUT as ROLLOUT_FORM
from damoos.rollouts.plan import MOST_COMPARED, Plan
from damoos.store.artifacts import Artifacts, next_name, numbered
from damoos.store.studies import SCHEMA

PREFIX = "rollout-"
FILE, PROGRESS, LOG, UNDO = "rollout.json", "progress.json", "audit.log", "undo"


class State(StrEnum):
    """Whether it goes on."""

    RUNNING = "running"
    HELD = "held"  # a person has to say how it goes on
    UNDOING = "undoing"
    UNDONE = "undone"
    DONE = "done"


class Phase(StrEnum):
    """What a step of a rollout is doing."""

    BEFORE = "before"  # those that are to get the policy are watched
    BAKE = "bake"  # they have it


class Part(StrEnum):
    """What a machine has of a rollout."""

    POLICY = "policy"
    WATCHED = "watched"


@dataclass
class Progress:
    """How far it has come. Written down before anything is done about it, so that whoever goes on does the same.

    Parameters
    ----------
    step : int
        From 0.
    begun_s : float, seconds since 1970
        When the first phase of the step began.
    baking_s : float, seconds since 1970
        When its machines got the policy; 0 before.
    until_s : float, seconds since 1970
        When the phase is over, if there is enough to judge by.
    left : dict of str to str
        Machines that are left to others, and why.
    why : str
        Why it is held or was undone.
    not_off : dict of str to str
        Machines that an undo has left on which it may be in force, and why.
    findings : list of list of dict
        What each step has shown: the metric, its standing, and the words of the finding.
    """

    state: State = State.RUNNING
    step: int = 0
    phase: Phase = Phase.BEFORE
    begun_s: float = 0.0
    baking_s: float = 0.0
    until_s: float = 0.0
    left: dict[str, str] = field(default_factory=dict)
    why: str = ""
    not_off: dict[str, str] = field(default_factory=dict)
    findings: list[list[dict[str, Any]]] = field(default_factory=list)


class Rollout:
    """A rollout in its folder.

    Parameters
    ----------
    results : Path
    name : str
    cluster : RayCluster or None
        The cluster of its keepers, as the user of this process names it.
    """

    def __init__(self, results: Path, name: str, cluster: RayCluster | None = None) -> None:
        self.name = name
        self.cluster = cluster
        self.results = results
        self.artifacts = Artifacts(results.resolve() / name)
        self._is_undo_wanted = False
        self.plan = self._plan()
        self.progress = self._progress(self._written())

    @classmethod
    def create(cls, results: Path, plan: Plan, cluster: RayCluster | None = None) -> Rollout:
        """A new rollout with the next free number."""
        name = next_name(results, PREFIX, FILE)
        cls._write_plan(Artifacts(results / name), plan)
        return cls(results, name, cluster)

    @staticmethod
    def _write_plan(artifacts: Artifacts, plan: Plan) -> None:
        artifacts.write_json(FILE, {"schema": SCHEMA, "plan": asdict(plan)})

    def _plan(self) -> Plan:
        content = ROLLOUT_FORM.read(self.artifacts.path / FILE)
        if isinstance(content, Damage):
            raise StoreError(
                f"{content}, so '{self.name}' cannot be read; 'damoos stop' takes off what its machines have, by name"
            )
        if (schema := content["schema"]) != SCHEMA:
            raise StoreError(f"'{self.name}' was written by another version of damoos (schema {schema}, not {SCHEMA})")
        # Older versions have written "insecure_cluster", which only the command line says.
        words = {key: value for key, value in content["plan"].items() if key != "insecure_cluster"}
        # The journals are those of the folder in which it lies, whatever folder its file names.
        words["spec"] = {**words["spec"], "results": str(self.results.resolve())}
        return Plan(**words)

    def _written(self) -> dict[str, Any] | Damage | None:
        """What the file says of how far it has come; None where there is none.

        What is decided by it is decided by one reading: the disk may give the next one another content.
        """
        path = self.artifacts.path / PROGRESS
        try:
            content = PROGRESS_FORM.read(path)
            if isinstance(content, dict) and (wrong := self._wrong_step(content["step"], len(content["findings"]))):
                return Damage(path, wrong, path.lstat())
        except FileNotFoundError:
            return None
        return content

    def _progress(self, content: dict[str, Any] | Damage | None) -> Progress:
        """How far it has come; held before its first step, if the file that says so is damaged."""
        if content is None:
            return Progress()
        if isinstance(content, Damage):
            why = f"{content}: 'damoos stop {self.name}' undoes it, 'damoos resume {self.name}' begins again"
            return Progress(state=State.HELD, begun_s=time.time(), why=why, findings=[[]])
        found = Progress(**content)
        found.state, found.phase = State(found.state), Phase(found.phase)
        return found

    def _wrong_step(self, step: int, nr_found: int) -> str:
        """Tell a step that the plan does not have, or findings of one; empty where there is none."""
        nr_steps = len(self.plan.steps)
        if not 0 <= step < nr_steps:
            return f"key 'step': there is no step {step}"
        return "" if nr_found <= nr_steps else f"key 'findings': it has more than {nr_steps} steps"

    def _set_aside(self, damage: Damage) -> None:
        """Keep a damaged file from being written over.

        Raises
        ------
        StoreError : the disk does not give the file, which may be good; an undo does not need it
        """
        if damage.may_pass and not self.is_undo_asked_for():
            raise StoreError(f"{damage}; run 'damoos resume {self.name}' again once it can be read")
        if aside := set_aside(damage):
            self.artifacts.append(LOG, f"{damage}: set aside as {aside.name}")

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the right to drive it, from where it is by now.

        Raises
        ------
        HeldError : another process has it
        StoreError : how far it has come cannot be read now
        """
        with self.artifacts.held(f"'{self.name}' is being driven by another damoos process"):
            content = self._written()
            if isinstance(content, Damage):
                self._set_aside(content)
            self.progress = self._progress(content)
            yield

    def move(self, cluster: RayCluster) -> None:
        """Have another address of the cluster whose nodes keep its machines.

        Raises
        ------
        ConfigError : its machines are kept on this computer
        """
        if self.plan.ray is None:
            raise ConfigError(f"'{self.name}' was begun without --ray, so the keepers of its machines are here")
        self.cluster = cluster
        if cluster.address != self.plan.ray:
            self.plan = replace(self.plan, ray=cluster.address)
            self._write_plan(self.artifacts, self.plan)

    def reread(self) -> Progress:
        """How far it has come by now, as its driver has written it last."""
        return self._progress(self._written())

    def driver(self) -> str:
        """The process that drives it, as a message calls it."""
        return self.artifacts.holder() or "another damoos process"

    def driven(self) -> bool:
        """Whether a process of this computer drives it now."""
        return self.artifacts.in_use()

    def ask_for_undo(self) -> None:
        """Have whoever drives it, now or next, take it back.

        Raises
        ------
        StoreError : only a driver of this object hears of it
        """
        self._is_undo_wanted = True
        try:
            self.artifacts.write_text(UNDO, "", sync=True)
        except StoreError:
            self.artifacts.add_name(FILE, UNDO)

    def is_undo_asked_for(self) -> bool:
        """Whether somebody has asked to take it back."""
        return self._is_undo_wanted or (self.artifacts.path / UNDO).exists()

    def save(self, *, sync: bool = False) -> None:
        """Write down how far it has come; `sync` is that of `Artifacts.write_text`."""
        self.artifacts.write_json(PROGRESS, asdict(self.progress), sync=sync)

    def decide(self, what: str) -> None:
        """Write down how far it has come, so that a power failure leaves it, and a line of what has been decided.

        Raises
        ------
        StoreError : one of the two cannot be written
        """
        self.save(sync=True)
        self.artifacts.append(LOG, f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {' '.join(what.split())}")

    def machines_with_policy(self) -> list[str]:
        """The machines that are to have the policy by now."""
        progress = self.progress
        if progress.state in (State.UNDOING, State.UNDONE):
            return []
        is_on = progress.phase is Phase.BAKE
        nr = self.plan.steps[progress.step] if is_on else (self.plan.steps[progress.step - 1] if progress.step else 0)
        return [one for one in self.plan.order[:nr] if one not in progress.left]

    def machines_watched(self) -> list[str]:
        """The machines that are only watched by now."""
        progress = self.progress
        if progress.state in (State.UNDOING, State.UNDONE, State.DONE):
            return []
        cohort = self.plan.cohort(progress.step)[:MOST_COMPARED] if progress.phase is Phase.BEFORE else []
        return [one for one in [*cohort, *self.plan.control(progress.step)] if one not in progress.left]

    def parts(self) -> dict[str, Part | None]:
        """What each machine is to have by now, in the order in which they get the policy; None for nothing."""
        found: dict[str, Part | None] = dict.fromkeys(self.plan.order)
        found |= dict.fromkeys(self.machines_watched(), Part.WATCHED)
        return found | dict.fromkeys(self.machines_with_policy(), Part.POLICY)


def names(results: Path) -> list[str]:
    """Names of the rollouts in a results folder, oldest first."""
    return [folder.name for folder in numbered(results, PREFIX, FILE)]


def load(results: Path, name: str) -> Rollout:
    """A rollout by its name.

    Raises
    ------
    ConfigError : there is no such
    """
    known = names(results)
    if name not in known:
        raise ConfigError(f"unknown rollout '{name}'{nearest(name, known)}")
    return Rollout(results, name)


def whys(missed: Mapping[str, str]) -> str:
    """Machines and why something is wrong with each, in words."""
    return "; ".join(f"{machine}: {why}" for machine, why in missed.items())


def describe(rollout: Rollout) -> str:
    """One line on how far it has come."""
    plan, progress = rollout.plan, rollout.progress
    nr = f"{len(rollout.machines_with_policy())} of {len(plan.machines)} machines are to have it"
    if progress.state is State.UNDOING:
        left = progress.not_off
        nr = "it is being taken off all machines"
        if left:
            nr = f"it may be in force on {len(left)} of {len(plan.machines)} machines ({whys(left)})"
    where = f"step {progress.step + 1} of {len(plan.steps)}, {progress.phase}"
    said = {State.RUNNING: where, State.HELD: f"held in {where}"}.get(progress.state, str(progress.state))
    why = f": {progress.why}" if progress.why else ""
    return f"{rollout.name}: {plan.spec['study']} on {plan.spec['on_text']}: {nr}; {said}{why}"
