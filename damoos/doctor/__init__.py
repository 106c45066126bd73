"""Whether a machine is fit to measure on: what it has, what it lacks, how much noise it makes, and what to do about it.

Findings are `OK`, `WARN` (results are less than they could be) or `UNFIT` (they would not be worth having). The bounds
are named in `finding`, `noise` and `clock`; docs/machines.md explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from damoos.doctor.clock import clock, look
from damoos.doctor.damon import damon, damon_free, damon_stat
from damoos.doctor.finding import OK, UNFIT, WARN, Finding, fit, graded, why_unfit
from damoos.doctor.noise import neighbours
from damoos.doctor.tiers import tiers
from damoos.errors import DamoosError, MachineTransientError
from damoos.machines.answers import computed_with
from damoos.machines.base import Conditions, Machine
from damoos.units import show_bytes

__all__ = ["OK", "UNFIT", "WARN", "Finding", "examine", "examine_machine", "fit", "why_unfit"]

STEADY_S = 10.0
# Of an emulated CPU, so much work is repeated: its host pays for each instruction, and nobody beside it slows it down.
# Only where that seems not to be steady is it more, since one short piece of the kernel's own work weighs much in it.
STEADY_INSTRUCTIONS = (1e9, 5e9)
# Fraction of the machine's memory that is free; with less, the kernel reclaims for others what a run then misses.
FREE_WARN = 0.25
FREE_UNFIT = 0.1

Call = Callable[..., Any]


def examine(
    call: Call,
    machine_name: str,
    conditions: Conditions,
    steady_s: float = STEADY_S,
    needs: Sequence[tuple[str, str]] = (("", "pageout"),),
) -> list[Finding]:
    """Look at a machine that has been prepared for runs.

    Nothing of it is changed but for what the agent takes back at once: a kdamond of its own, if DAMON is free.

    Parameters
    ----------
    call : callable
        Calls the machine's agent.
    machine_name : str
        As the user knows it, for what there is to do.
    conditions : Conditions
        Of its machine file.
    steady_s : float
        How long the same work is repeated (machine's time).
    needs : sequence of (str, str)
        Operations sets, and actions that have to do something on them here; without a set, on the first one of
        vaddr and paddr that there is.

    Raises
    ------
    MachineTransientError : the machine was lost meanwhile
    MachineError : its answers are those of no machine
    """
    with computed_with(machine_name):
        return _findings(call, machine_name, conditions, steady_s, needs)


def _findings(
    call: Call, machine_name: str, conditions: Conditions, steady_s: float, needs: Sequence[tuple[str, str]]
) -> list[Finding]:
    facts, start = call("facts"), look(call)
    root = start.state["uid"] == 0
    findings = [_kernel(facts), _privileges(start.state), _left_behind(facts, machine_name)]
    findings += [damon_free(facts, root), damon_stat(facts)]
    # With DAMON in somebody else's hands there is nothing to try: damoos leaves it alone.
    findings += damon(call, machine_name, needs, facts, start.state["swaps"]) if fit(findings) else []
    findings += [_other_swap(conditions, start.state)] if conditions.swap else []
    findings += tiers(start.state["nodes"], conditions)
    findings += [_cgroup(start.state), _psi(start.state), _memory(facts, start.state)]
    findings.append(_neighbours(call, conditions, facts["vcpus"], steady_s, start.instructions_per_s))
    findings.append(clock(start, look(call)))
    return findings


def _neighbours(
    call: Call, conditions: Conditions, vcpus: int, steady_s: float, instructions_per_s: float | None
) -> Finding:
    """Whether others disturb what runs here; the speed of a CPU is known where it is emulated."""
    if instructions_per_s is None:
        return neighbours(call, conditions, vcpus, steady_s)
    short_s, long_s = (min(steady_s, instructions / instructions_per_s) for instructions in STEADY_INSTRUCTIONS)
    found = neighbours(call, conditions, vcpus, short_s)
    return found if found.state == OK or short_s == long_s else neighbours(call, conditions, vcpus, long_s)


def examine_machine(
    machine: Machine, say: Callable[[str], None] = lambda _: None, clean: bool = False
) -> list[Finding]:
    """Open a machine, prepare it as its file says, look at it, and leave it as it was.

    Parameters
    ----------
    clean : bool
        Whether what earlier runs could not undo there is tried once more first.

    Raises
    ------
    DamoosError : it cannot be opened
    """
    # A guest of ours gets the clock of programs that mostly wait, as most workloads that are measured on it do.
    machine.suit(paced=True)
    session = machine.open(say)
    try:
        if clean:
            for problem in session.agent.call("clean"):
                say(f"could not undo {problem}")
        conditions = _conditions(session.agent.call, machine.conditions)
        return [conditions, *examine(session.agent.call, machine.name, machine.conditions)]
    finally:
        session.close()


def _conditions(call: Call, conditions: Conditions) -> Finding:
    settings = conditions.wanted()
    try:
        call("prepare", **settings)
    except MachineTransientError:
        raise
    except DamoosError as error:
        return Finding("conditions", UNFIT, str(error), "give the machine what its file asks for, or change the file")
    return Finding(
        "conditions", OK, f"prepared: {', '.join(settings)}" if settings else "the machine is taken as it is"
    )


def _kernel(facts: dict[str, Any]) -> Finding:
    size = f"{facts['vcpus']} CPU{'s' if facts['vcpus'] != 1 else ''}, {show_bytes(facts['mem_bytes'])}"
    return Finding("kernel", OK, f"Linux {facts['kernel']} on {facts['arch']}, {size}")


def _privileges(state: dict[str, Any]) -> Finding:
    if state["uid"] == 0:
        return Finding("privileges", OK, "root")
    todo = "log in as root, or give [ssh] of its machine file sudo = true; on machine 'local' run damoos as root"
    return Finding("privileges", UNFIT, f"user {state['uid']} is not root; only root can use DAMON", todo)


def _left_behind(facts: dict[str, Any], machine: str) -> Finding:
    changes = facts["left_behind"]
    if not changes:
        return Finding("earlier runs", OK, "undid all that they changed")
    return Finding("earlier runs", WARN, f"could not undo {'; '.join(changes)}", f"damoos doctor {machine} --clean")


def _other_swap(conditions: Conditions, state: dict[str, Any]) -> Finding:
    if not state["swaps"]:
        todo = "see with 'swapon --show' on the machine what takes it off"
        return Finding("other swap", UNFIT, "no swap is on, although [swap] of its machine file asks for one", todo)
    own, *others = state["swaps"]
    if not others:
        return Finding("other swap", OK, f"none: all pages go to {own}")
    found = f"{' '.join(others)}: pages go to damoos's {own} first, and there when it is full"
    return Finding("other swap", WARN, found, f"make [swap] size larger than the workload, or swapoff {others[0]}")


def _cgroup(state: dict[str, Any]) -> Finding:
    if state["cgroups"]:
        return Finding("cgroup v2", OK, "runs have groups of their own")
    missing = "no cgroup_avg_bytes; psi_* are the whole machine's; a run's processes are found by their parents"
    if state["cgroup_v2"]:
        todo = "run as root, outside a container"
        return Finding("cgroup v2", WARN, f"there, but groups cannot be made: {missing}", todo)
    todo = "boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2 on /sys/fs/cgroup"
    return Finding("cgroup v2", WARN, f"not on /sys/fs/cgroup: {missing}", todo)


def _psi(state: dict[str, Any]) -> Finding:
    if state["psi"]:
        return Finding("PSI", OK, "on")
    return Finding("PSI", WARN, "off: no psi_* metrics, and score 'psi' is refused", "boot with psi=1 (CONFIG_PSI)")


def _memory(facts: dict[str, Any], state: dict[str, Any]) -> Finding:
    free = state["mem_available_bytes"] / facts["mem_bytes"]
    detail = f"{show_bytes(state['mem_available_bytes'])} available of {show_bytes(facts['mem_bytes'])}"
    level = graded(-free, -FREE_WARN, -FREE_UNFIT)
    return Finding(
        "free memory", level, detail, "" if level == OK else "end other programs, or give the machine more memory"
    )
