"""Whether DAMON is there, free, and does what it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from damoos.doctor.finding import OK, UNFIT, WARN, Finding
from damoos.errors import DamoosError, MachineTransientError
from damoos.units import format_us, show_bytes

# The share of accessed memory that DAMON must see as accessed, and of idle memory as idle.
SEEN = 0.8
# Idle times that DAMON_STAT's percentiles are shown for; DAMON_RECLAIM begins at two minutes.
IDLE_MS = (1_000, 10_000, 120_000)

Call = Callable[..., Any]
Facts = dict[str, Any]


def damon_free(facts: Facts, root: bool) -> Finding:
    """Whether somebody else has a kdamond."""
    sign = facts["damon_in_use"]
    if not sign:
        return Finding("DAMON free", OK, "nobody uses it")
    if not root:  # the sign is that it could not be read
        return Finding("DAMON free", WARN, f"unknown: {sign}", "look again as root")
    todo = "stop what uses it (damo stop; a service; the module) or take another machine; damoos leaves it alone"
    return Finding("DAMON free", UNFIT, f"in use on this machine by another program: {sign}", todo)


def damon_stat(facts: Facts) -> Finding:
    """What the kernel's own monitor has seen of the machine before it was switched off."""
    seen = facts.get("damon_stat")
    if not seen:
        return Finding("DAMON_STAT", OK, "does not run")
    return Finding(
        "DAMON_STAT", OK, f"ran, is off while damoos has the machine, and on again after it; {idle_shares(seen)}"
    )


def idle_shares(seen: Facts) -> str:
    """What DAMON_STAT has seen, in one line."""
    idle = seen["idle_ms_percentiles"]
    shares = ", ".join(f"{100 - _first(idle, ms)} % for {format_us(1000 * ms)}" for ms in IDLE_MS)
    bandwidth = show_bytes(seen["bandwidth_bytes_per_s"])
    return f"of the memory was idle: {shares}; accessed about {bandwidth} per second"


def _first(idle: Sequence[int], ms: int) -> int:
    """The share of memory, in percent, that was idle for less than so long."""
    return next((n for n, value in enumerate(idle) if value >= ms), 100)


def damon(
    call: Call, machine: str, needs: Sequence[tuple[str, str]], facts: Facts, swaps: Sequence[str]
) -> Iterator[Finding]:
    """What DAMON offers here, and whether what is needed of it does anything."""
    try:
        offered = call("probe")
    except MachineTransientError:
        raise
    except DamoosError as error:
        yield Finding("DAMON", UNFIT, str(error), "mend what the message names, or take another machine")
        return
    if not offered:
        todo = "boot a kernel with CONFIG_DAMON_VADDR and CONFIG_DAMON_SYSFS, or take machine 'guest'"
        yield Finding("DAMON", UNFIT, "this kernel has none", todo)
        return
    words = (f"{name} {' '.join(offered[name])}" for name in ("interfaces", "operations", "actions"))
    unknown = offered.get("unknown", [])
    more = [f"unknown to damoos, and left alone: {' '.join(unknown)}"] if unknown else []
    yield Finding("DAMON", OK, "; ".join([*words, *more]))
    if "vaddr" in offered["operations"]:
        yield _accessed_bits(call, facts)
    usual = "vaddr" if "vaddr" in offered["operations"] else offered["operations"][0]
    swap = f"{' '.join(swaps)} ({show_bytes(facts['swap_bytes'])})" if swaps else ""
    for operations, action in needs:
        yield _action(call, machine, operations or usual, action, offered["actions"], swap)


def _accessed_bits(call: Call, facts: Facts) -> Finding:
    """The positive control: memory of which one half is accessed all the time, and the other never."""
    try:
        seen = call("seen_accesses")
    except MachineTransientError:
        raise
    except DamoosError as error:
        return Finding("accessed bits", UNFIT, f"could not be tried: {error}", "mend what the message names")
    found = f"DAMON saw {seen['accessed']:.0%} of memory that is accessed, and {seen['idle']:.0%} of memory that is not"
    if seen["accessed"] >= SEEN and seen["idle"] <= 1 - SEEN:
        return Finding("accessed bits", OK, found)
    todo = "take a machine that is not emulated, or a kernel with page-table isolation or flush_tlb: damoos kernel list"
    return Finding("accessed bits", UNFIT, found, todo)


def _action(call: Call, machine: str, operations: str, action: str, offered: Sequence[str], swap: str) -> Finding:
    name = "swap" if action == "pageout" else action
    there = f"{swap or 'no swap'}; " if action == "pageout" else ""
    if action not in offered:
        return Finding(name, UNFIT, f"{there}this kernel has no {action}", "boot another kernel: damoos kernel list")
    try:
        sz_bytes = call("tryout", operations=operations, actions=[action]).get(action, 0)
    except MachineTransientError:
        raise
    except DamoosError as error:
        return Finding(name, UNFIT, f"{there}{action} could not be tried: {error}", "mend what the message names")
    if sz_bytes:
        return Finding(name, OK, f"{there}{action} on {operations} applied to {show_bytes(sz_bytes)} in a trial")
    todo = f"give the machine file of '{machine}' a [swap]" if action == "pageout" and not swap else "another kernel"
    return Finding(name, UNFIT, f"{there}{action} on {operations} is accepted and applied to nothing", todo)
