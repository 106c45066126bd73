"""Whether a machine's time is the driver's time, or an emulator's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from damoos.doctor.finding import NOISE_UNFIT, OK, UNFIT, WARN, Finding

# Wall clocks further apart than this make logs of the two machines hard to lay beside each other, no more.
WALL_WARN_S = 5.0
# A look at the clock has its own cost beyond the way there and back.
_LOOK_S = 0.1


@dataclass(frozen=True)
class Look:
    """The machine's state, and when it was asked by the driver's clocks."""

    state: dict[str, Any]
    at_s: float
    wall_s: float
    took_s: float
    instructions_per_s: float | None


def look(call: Callable[..., Any]) -> Look:
    """Ask a machine for its state, and an emulated one for the speed of its CPU."""
    begun, wall_s = time.monotonic(), time.time()
    state = call("state")
    took_s = time.monotonic() - begun
    rate = call("instruction_rate") if state["emulated"] else None
    return Look(state, begun + took_s / 2, wall_s + took_s / 2, took_s, rate)


def clock(start: Look, end: Look) -> Finding:
    """Compare the machine's clocks with the driver's, and with each other."""
    here_s = end.at_s - start.at_s
    boot_s, wall_s = (end.state[name] - start.state[name] for name in ("boot_s", "wall_s"))
    source = f"clock source {end.state['clocksource'] or 'unknown'}"
    if end.state["emulated"]:
        speed = f", {end.instructions_per_s / 1e6:,.0f} MIPS" if end.instructions_per_s else ""
        detail = f"virtual ({source}{speed}): {boot_s:.1f} s there took {here_s:.1f} s here; runs are in its time"
        return Finding("clock", OK, detail)
    slack_s = _LOOK_S + start.took_s + end.took_s
    strays_s = max(0.0, abs(boot_s - here_s) - slack_s)
    if strays_s > NOISE_UNFIT * max(here_s, boot_s):
        detail = f"{source}: {boot_s:.1f} s passed there in {here_s:.1f} s here"
        return Finding("clock", UNFIT, detail, "boot with another clock source (clocksource=tsc), or mend the host's")
    if abs(wall_s - boot_s) > slack_s:
        detail = f"{source}: its wall clock was set while we looked, by {wall_s - boot_s:+.1f} s"
        return Finding("clock", WARN, detail, "let its time service settle; runs are timed by the boot clock")
    off_s = end.state["wall_s"] - end.wall_s
    level = OK if abs(off_s) <= WALL_WARN_S + end.took_s else WARN
    detail = f"{source}, runs at our rate; wall clock {off_s:+.1f} s from ours"
    return Finding(
        "clock", level, detail, "" if level == OK else "run a time service (chrony, systemd-timesyncd) there"
    )
