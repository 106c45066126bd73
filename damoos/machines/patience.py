"""How long a call to an agent may go on without anything that was asked for.

Signs of life show that a machine is there. One that means harm sends them for ever, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from damoos.agent.folders import SETUP_S
from damoos.agent.run import READY_S
from damoos.damon.damo_json import context_from_json

# For what takes seconds, on a guest whose host is busy.
CALL_S = 600.0
# For what moves memory and files: swap is filled and emptied, and what was changed is undone.
MOVING_S = 3600.0
_MOVING = {"run", "observe", "prepare", "clean", "apply", "commit", "renew", "stop", "leave", "bye"}
# A recording is sent after its run, too, over a line as slow as that by which files are copied.
_RECORDED_BYTES_PER_S = 64 << 10
# What a call says of how long it lasts, in seconds of the machine's time.
_DURATIONS = ("limit_s", "settle_s", "window_s", "for_s")


def limit_s(name: str, args: Mapping[str, Any], second_s: float = 1.0) -> float:
    """The limit of a call.

    Parameters
    ----------
    name : str
    args : mapping
        As they are sent to the agent.
    second_s : float, seconds
        How long a second of the machine takes at most: an emulated guest has a time of its own.

    Returns
    -------
    float, seconds of this computer
    """
    is_emulated = second_s > 1
    return (MOVING_S if is_emulated or name in _MOVING else CALL_S) + second_s * _asked_s(args)


def _asked_s(args: Mapping[str, Any]) -> float:
    """How long the machine may take by what it is asked for (`damoos.agent.run`, `damoos.agent.live`)."""
    asked_s = sum(args.get(name) or 0.0 for name in _DURATIONS)
    # The set-up's commands, and a copy of what they have made.
    asked_s += SETUP_S * (1 + len(args["setup"]) if args.get("setup") else 0)
    if load := args.get("load"):  # the command that asks whether the server is ready may hang as well
        asked_s += READY_S + (1 + len(load.get("warm_up") or ())) * args.get("warm_up_s", args.get("limit_s", 0.0))
    if context := args.get("context"):  # a window begins when a region can be as old as the scheme asks for
        asked_s += max((scheme.pattern.min_age_us for scheme in context_from_json(context).schemes), default=0) / 1e6
    if record := args.get("record"):
        asked_s += record["sz_bytes"] / _RECORDED_BYTES_PER_S
    return float(asked_s)
