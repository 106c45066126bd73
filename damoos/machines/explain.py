"""A machine in full, by its file alone: the machine itself is not asked."""

from __future__ import annotations

from typing import Any

from damoos.machines import catalog
from damoos.machines.base import Conditions
from damoos.machines.catalog import Image, MachineFile
from damoos.units import parse_bytes


def explain(name: str) -> dict[str, Any]:
    """What a machine is, with all that follows from its file.

    Returns
    -------
    dict
        ``name``, ``description``, ``file`` (if it has one), ``kind``, then what that kind has (a guest ``vcpus``,
        ``memory_bytes``, ``accel``, ``kernel``, ``nodes``, ``cmdline``, ``image``; a host its ``endpoint``), ``swap``
        and ``conditions``. What is None stays as it is on the machine.

    Raises
    ------
    ConfigError : no such machine, or its file is wrong
    """
    machine = catalog.machine(name)
    about = {"name": machine.name, "description": machine.describe()}
    kind = _without_file(name)
    if kind:
        return {**about, "kind": kind, **_conditions(machine.conditions)}
    path, file = catalog.find(name)
    return {**about, "file": str(path), **_place(file), **_conditions(file.conditions)}


def _without_file(name: str) -> str:
    if name == "local":
        return "this machine"
    return "a plugin's" if ":" in name and not name.endswith(".toml") else ""


def _place(file: MachineFile) -> dict[str, Any]:
    if file.ssh:
        return {"kind": "host by SSH", "endpoint": file.ssh.model_dump()}
    guest, image = file.as_guest(), file.image or Image()
    return {
        "kind": "guest",
        "vcpus": guest.vcpus,
        "memory_bytes": parse_bytes(guest.memory),
        **guest.model_dump(exclude={"vcpus", "memory"}),
        "image": {"packages": list(image.packages), "overlays": list(image.overlays)},
    }


def _conditions(conditions: Conditions) -> dict[str, Any]:
    swap = conditions.swap and conditions.swap.wanted()
    return {"swap": swap, "conditions": conditions.model_dump(exclude={"swap"})}
