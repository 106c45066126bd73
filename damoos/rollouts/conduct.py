"""Rollouts from their first words to their end: begun, driven, gone on with, and taken back."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from damoos.dispatch import cluster as own_cluster
from damoos.dispatch.ray_address import RayCluster
from damoos.errors import ConfigError, DamoosError, MachineError, StoreError
from damoos.machines import catalog as machines
from damoos.rollouts.driver import POLL_S, UNDO_S, Driver, drive
from damoos.rollouts.kept_fleet import KeptFleet, name_of
from damoos.rollouts.plan import Plan, checked, parse_steps
from damoos.rollouts.ray_fleet import RayFleet
from damoos.rollouts.rollout import Part, Rollout, State, load, names, whys
from damoos.service import guard
from damoos.service.specification import specification
from damoos.store.artifacts import HeldError

# How long 'damoos stop' waits for a driver that does not go on with the undoing, which itself waits for half of that.
HELD_S = 2 * UNDO_S


def begin(
    study: str,
    hosts: Sequence[str],
    on: str,
    results: Path,
    storage: str | None = None,
    *,
    arm: str = "tuned",
    label: str | None = None,
    steps: str = "1,10%,50%,100%",
    bake_s: float = 3600.0,
    guards: Sequence[str] = (),
    window_s: float = guard.WINDOW_S,
    metrics: Sequence[str] = (),
    tolerance: float = 0.1,
    least_saving: float = 0.0,
    seed: int = 0,
    ray: str | None = None,
    insecure_cluster: bool = False,
) -> Rollout:
    """A new rollout, which nobody drives yet; parameters are those of `Plan` and of `specification`.

    Raises
    ------
    ConfigError : words that cannot be, or a machine has a policy of this name in service
    NothingFeasible : the study's validation found that the policy breaks the limits
    """
    if not hosts:
        raise ConfigError("--machines: name the machines of the rollout")
    for host in hosts:
        machines.machine(host)
    if ray is None:  # the nodes of a cluster offer machines by their names as they are
        hosts = [machines.located(host) for host in hosts]
    spec = specification(
        study, results, storage, arm=arm, machine=hosts[0], on=on, label=label, guards=guards, window_s=window_s,
        metrics=metrics,
    )  # fmt: skip
    if spec["on"]["kind"] == "pid":
        raise ConfigError(f"--on '{on}': a process id is one machine's own; use unit:, cgroup:, pid-file:, match:")
    cluster = RayCluster.named(ray, insecure_cluster)
    plan = Plan(spec, list(hosts), parse_steps(steps, len(hosts)), bake_s, tolerance, least_saving, seed, ray)
    checked(plan)
    with fleet(plan, cluster) as found:
        found.begin()
    return Rollout.create(results, plan, cluster)


@contextmanager
def fleet(
    plan: Plan, cluster: RayCluster | None = None, event: Callable[[str], Any] = lambda _: None
) -> Iterator[KeptFleet | RayFleet]:
    """The machines of a plan, whose keepers are here, or on the nodes of its cluster.

    Parameters
    ----------
    plan : Plan
    cluster : RayCluster or None
        As the user of this process names it; None for the cluster of ``damoos cluster up`` or of ``RAY_ADDRESS``.
    event : callable
        Told, in one line, which nodes do not answer.

    Raises
    ------
    UnsupportedError : Ray is not installed
    ConfigError : there is no such cluster, or only the plan names it
    """
    found = RayFleet(plan, cluster or _known_cluster(plan.ray), event) if plan.ray else KeptFleet(plan)
    try:
        yield found
    finally:
        found.close()


def _known_cluster(address: str) -> RayCluster:
    """A cluster that the file of a rollout names, if the user has started it, or has named it in the environment."""
    running = own_cluster.state()
    if address in ("auto", running and running.address, os.environ.get("RAY_ADDRESS")):
        return RayCluster(address)
    shown = shlex.quote(address)
    raise ConfigError(
        f"the rollout was begun on the Ray cluster at {shown}, says its file; if you know that cluster, set"
        f" RAY_ADDRESS={shown}, or give --ray {shown} to 'damoos resume' or 'damoos stop'"
    )


def run(rollout: Rollout, event: Callable[[str], Any], wait: Callable[[float], Any] = time.sleep) -> State:
    """Drive a rollout until it is done, undone or held; one that was held goes on.

    Raises
    ------
    HeldError : another process drives it
    StoreError : its files cannot be written
    MachineError : it is undone, but for machines that could not be told so, or have not confirmed it
    """
    with rollout.driving(), fleet(rollout.plan, rollout.cluster, event) as machines_of_it:
        drive(Driver(rollout, machines_of_it, event), wait)
    if rollout.progress.state is State.UNDOING:
        missed = rollout.progress.not_off
        raise MachineError(
            f"{rollout.name} may still be in force on {len(missed)} of its machines: {whys(missed)}; then run 'damoos"
            f" stop {rollout.name}' again"
        )
    return rollout.progress.state


def undo(rollout: Rollout, event: Callable[[str], Any], wait: Callable[[float], Any] = time.sleep) -> State:
    """Take a rollout's policy off all its machines, however far it has come, and whoever drives it.

    Raises
    ------
    StoreError : its files cannot be written; its machines are told all the same, unless another process drives it
    MachineError : as of `run`; or another process drives it, and does not undo it
    """
    refusal = None
    try:
        rollout.ask_for_undo()
    except StoreError as error:  # nobody else can be told, on a full disk, say
        refusal = error
    state, waited_s, driver = None, 0.0, ""
    while True:
        try:
            return run(rollout, event, wait)
        except HeldError:
            if refusal:
                raise refusal from None
        if driver != (driver := rollout.driver()):
            event(f"{driver} drives it, and is to undo it")
            waited_s = 0.0
        if state is not (state := rollout.reread().state):
            waited_s = 0.0
        if waited_s >= HELD_S:
            raise MachineError(
                f"{rollout.name} may still be in force: {driver} drives it, and has not gone on with the undoing for"
                f" {HELD_S:g} s; end that process on the computer on which it runs, and run 'damoos stop"
                f" {rollout.name}' again"
            )
        wait(POLL_S)
        waited_s += POLL_S


def wanted_again(results: Path) -> dict[str, str]:
    """Names in service that somebody drives a rollout for, by which they would be put on again, and that rollout's."""
    found: dict[str, str] = {}
    for name in names(results):
        with suppress(DamoosError):  # one that cannot be read, nobody can drive
            rollout = load(results, name)
            if rollout.driven() and not rollout.is_undo_asked_for():
                label = rollout.plan.spec["name"]
                found |= {name_of(label, machine, part): name for machine in rollout.plan.machines for part in Part}
    return found
