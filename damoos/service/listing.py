"""What is in service, for people and for Prometheus: read from the journals, and from whether their keepers live."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from damoos.common.terminal import printable
from damoos.service.in_force import InForce
from damoos.service.journal import KEEP, UNDO, Journal, clock
from damoos.units import format_us

_UNDONE = "no keeper runs, so the machine is as it was before"
_LEFT = "no keeper runs, so it has no guard; what was in force stays until damoos has the machine again, or it reboots"
_LEAVING = "no keeper runs, so its machine takes it off by itself, and has not confirmed that yet"
_UNCONFIRMED = "its machine has not confirmed that it is off"
_WAITS = "waits for processes"
_KEYS = ("study", "machine", "scheme", "on")


def listed(results: Path) -> dict[str, dict[str, Any]]:
    """What is in service, and what failed, by name.

    With ``stopping`` until it is taken off, ``lost`` where a keeper was killed and none has followed, ``late``
    (seconds) where it lives and has not looked for long, and ``unwritten`` (a time) where it cannot write its journal.
    """
    found: dict[str, dict[str, Any]] = {}
    for journal in Journal.all(results):
        for name, state in of_machine(journal).items():
            if name in found:  # two applies cannot have done that; a folder that was copied can
                where = f"on {found[name]['machine']} and on {state['machine']}"
                line = f"damoos: '{name}' is in service {where}; 'damoos stop {name}' takes both off"
                print(printable(line), file=sys.stderr)
            found[name] = state
    return found


def of_machine(journal: Journal) -> dict[str, dict[str, Any]]:
    """What is in service on one machine, and what failed there, by name."""
    known, keeper = InForce(journal), journal.keeper
    specs = {**known.stopping, **known.wanted}
    services = {name: described(spec) for name, spec in specs.items()}
    services |= {
        name: {**services.get(name, {}), **state} for name, state in known.states.items() if "error" not in state
    }
    services |= {
        name: {"unconfirmed": why, "failed": why} for name, why in known.unread.items() if name not in services
    }
    late = {"late": round(keeper.age_s)} if keeper.is_late else {}
    unwritten = {"unwritten": clock(keeper.unwritten_s)} if keeper.lives and keeper.unwritten_s else {}
    lives = {"keeper_pid": keeper.pid or None, **late, **unwritten}  # 0 would be the process group of who ends it
    unknown = {**dict.fromkeys(_KEYS, "unknown"), "in_force": None}
    services = {name: {**unknown, **state, **lives} for name, state in services.items()}
    for name, state in services.items():
        if name in known.stopping:
            state["stopping"] = True
        if not keeper.lives:
            state["in_force"] = state["paused"] = False
            stays = {**state, **specs.get(name, {})}.get("on_exit") == KEEP or "unconfirmed" in state
            if "failed" not in state:
                state["lost"] = (_LEFT if stays else _LEAVING) if known.may_be(name) else _UNDONE
            elif known.may_be(name):
                state.setdefault("unconfirmed", _UNCONFIRMED)
    return services


def described(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a state says of something in service beside what its machine tells."""
    return {
        **{key: spec[key] for key in ("study", "machine", "scheme", "arm", "verdict", "guards")},
        "on": spec["on_text"],
        "on_exit": spec.get("on_exit", UNDO),
        "since": clock(spec.get("wanted_s", time.time())),
    }


def standing(state: Mapping[str, Any], well: str = "in force") -> str:
    """How something in service is, in a word or a line of a table, by what `of_machine` says.

    Parameters
    ----------
    well : str
        The word for it where all is well.
    """
    if "unconfirmed" in state:
        return f"may be in force: {state['unconfirmed']}"
    if "failed" in state:
        return f"failed: {state['failed']}"
    if "lost" in state:
        return f"{f'not {well}' if state['lost'] == _UNDONE else 'may be in force'}: {state['lost']}"
    if state.get("stopping"):
        return "is being taken off"
    words = _kept(state, well, "on its way" if state.get("in_force", False) is None else _WAITS)
    return f"{words}, as its keeper saw it {format_us(state['late'] * 1_000_000)} ago" if "late" in state else words


def describe(name: str, state: Mapping[str, Any]) -> str:
    """One line on something in service, whatever its file says."""
    return printable(_described(name, state))


def _described(name: str, state: Mapping[str, Any]) -> str:
    where = f"{state['on']} of machine {state['machine']}"
    if "failed" in state:
        if "unconfirmed" in state:
            why = f"{state['failed']}; {state['unconfirmed']}"
            return f"{name}: {state['scheme']} may be in force on {where}: {why}; 'damoos stop {name}' takes it off"
        return f"{name}: {state['scheme']} is no longer on {where}: {state['failed']}"
    if "lost" in state:
        way = f"'damoos stop {name}'" if state.get("stopping") else f"start its systemd unit, or 'damoos stop {name}'"
        what = "is not in force" if state["lost"] == _UNDONE else "may be in force"
        why = f"{state['lost']}; {state['unconfirmed']}" if "unconfirmed" in state else state["lost"]
        return f"{name}: {what} on {where}: {why}; {way}"
    age = f" for {format_us(int(state['for_s']) * 1_000_000)}" if state.get("for_s") else ""
    return f"{name}: {state['scheme']}  on {where}{age} (study {state['study']}){_how(state)}{_keeper(state)}"


def _how(state: Mapping[str, Any]) -> str:
    if state.get("stopping"):
        why = f", and may be in force: {state['unconfirmed']}" if "unconfirmed" in state else ""
        return f"; is being taken off{why}"
    if "unconfirmed" in state:
        return f"; may be in force: {state['unconfirmed']}"
    words = _kept(state, "", "is being put into force" if state.get("beginning") else _WAITS)
    return f"; {words}" if words else ""


def _kept(state: Mapping[str, object], well: str, not_yet: str) -> str:
    """How what a keeper has is: ``well`` where it is in force and nothing is wrong."""
    if "out_of_reach" in state:
        return f"out of reach: {state['out_of_reach']}"
    if state.get("paused"):
        return "paused by its guard"
    return well if state.get("in_force") else not_yet


def _keeper(state: Mapping[str, Any]) -> str:
    """What is wrong with its keeper."""
    process = f"process {state['keeper_pid']}" if state.get("keeper_pid") else "elsewhere"
    if "late" in state:
        late = format_us(state["late"] * 1_000_000)
        return f"; its keeper ({process}) lives and has not looked for {late}: end it, and start or apply it again"
    if "unwritten" in state:
        return f"; its keeper ({process}) cannot write its journal since {state['unwritten']}: free its disk"
    return ""
