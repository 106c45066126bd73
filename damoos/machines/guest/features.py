"""The feature table of kernels: each is booted once in a small guest, asked what it has, and the answer is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pydantic import BaseModel

from damoos.common import atomic_file
from damoos.common.json_file import JsonForm
from damoos.errors import MachineError
from damoos.machines.base import Conditions, Swap
from damoos.machines.bundle import agent_bundle
from damoos.machines.guest import GuestMachine
from damoos.machines.guest.kernels import Kernel, kernel
from damoos.machines.nodes import equal

MEM_BYTES = 512 << 20
Table = dict[str, dict[str, str]]


class _Kept(BaseModel):
    """What one agent has found of a kernel."""

    agent: str
    features: dict[str, str]


_KEPT = JsonForm(_Kept, 1 << 20)


def features(names: Sequence[str], say: Callable[[str], None]) -> Table:
    """Features of each kernel by its name; none for one that does not come up, which is told.

    A kernel is asked again only when the agent that asks has changed.
    """
    table: Table = {}
    for name in names:
        try:
            table[name] = _features(kernel(name, say), say)
        except MachineError as error:
            say(f"kernel '{name}': {error}")
            table[name] = {}
    return table


def _features(one: Kernel, say: Callable[[str], None]) -> dict[str, str]:
    memory, agent = one.path / "features.json", agent_bundle().stem
    kept = _KEPT.read_if_good(memory)
    if kept and kept["agent"] == agent:
        return dict(kept["features"])
    say(f"probing kernel '{one.name}' ({one.release})")
    swap = Swap(kind="zram", size="64M", algorithm="lz4")
    guest = GuestMachine(
        "probe", "", 1, MEM_BYTES, Conditions(swap=swap, thp="madvise"), kernel=one.name, nodes=equal(2, MEM_BYTES, 1)
    )
    session = guest.open()
    try:
        session.agent.call("prepare", **guest.conditions.wanted())
        states: dict[str, str] = session.agent.call("features")
    finally:
        session.close()
    atomic_file.fill(memory, [json.dumps({"agent": agent, "features": states}, indent=2).encode()], mode=0o644)
    return states
