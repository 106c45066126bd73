"""Machine files: ``machines/<name>.toml``, or any file of the user's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from damoos.common import paths, plugins, toml_file
from damoos.common.toml_file import Table
from damoos.errors import ConfigError, nearest
from damoos.machines.base import Conditions, Machine
from damoos.machines.ssh import SshEndpoint, SshMachine
from damoos.model.quantities import SomeSize, checked
from damoos.units import format_bytes, parse_bytes, show_count

KERNEL = "DAMOOS_KERNEL"
"""Environment variable with the kernel of guests for which neither the command nor the machine file names one."""


def _kernel() -> str:
    return os.environ.get(KERNEL) or "debian"


Accel = Literal["auto", "kvm", "tcg"]
LEAST_MEMORY, MOST_MEMORY, MOST_CPUS = 64 << 20, 16 << 40, 4096


class Guest(Table):
    """``[guest]``: a QEMU guest on this host.

    Parameters
    ----------
    vcpus : int
        Virtual CPUs.
    memory : str, size
        Its memory.
    accel : str
        auto (KVM if a kernel has been seen to boot on it, else emulation), kvm or tcg.
    kernel : str
        debian, debian:arm64, damoos, damoos-6.1, one that ``damoos kernel add`` has added, or the path of a bzImage. By
        default the environment's ``DAMOOS_KERNEL``, and debian where that is not set.
    nodes : int
        Memory nodes, each with an equal part.
    cmdline : str
        Kernel parameters of your own.
    idle : {"halt", "poll"}
        Whether a virtual CPU with nothing to do halts or is kept busy.
    """

    vcpus: int = Field(default=1, ge=1, le=MOST_CPUS)
    memory: SomeSize
    accel: Accel = "auto"
    kernel: str = Field(default_factory=_kernel, min_length=1)
    nodes: int = Field(default=1, ge=1, le=64)
    cmdline: str = ""
    idle: Literal["halt", "poll"] = "halt"

    @field_validator("memory")
    @classmethod
    def _can_boot(cls, words: str) -> str:
        if not LEAST_MEMORY <= checked(parse_bytes, words) <= MOST_MEMORY:
            raise ValueError(
                f"'{words}' is not from {format_bytes(LEAST_MEMORY)}, without which no guest boots, to"
                f" {format_bytes(MOST_MEMORY)}"
            )
        return words


class PaperGuest(Table):
    """``[paper_guest]``: a guest of the DAOS paper (section 4), half of a host's CPUs and a quarter of its memory.

    Parameters
    ----------
    instance : str
        The host's name, an EC2 instance type.
    host_vcpus : int
        Its CPUs.
    host_memory : str, size
        Its memory.
    scale : int
        Divides the guest's CPUs and memory, so that it fits a small host. Swap is to be divided by hand.
    accel, kernel : str
        As in ``[guest]``.
    """

    instance: str
    host_vcpus: int = Field(ge=1, le=MOST_CPUS)
    host_memory: SomeSize
    scale: int = Field(ge=1)
    accel: Accel = "auto"
    kernel: str = Field(default_factory=_kernel, min_length=1)

    def scaled(self) -> tuple[int, int]:
        """Virtual CPUs and bytes of memory of the scaled guest."""
        return max(1, self.host_vcpus // 2 // self.scale), parse_bytes(self.host_memory) // 4 // self.scale


class Image(Table):
    """``[image]``: what a guest has beyond its small Debian and what the workload brings.

    Parameters
    ----------
    packages : list of str
        Debian's.
    overlays : list of str
        Suites that ``damoos workloads install`` has built; laid into the guest read-only, shared by all guests.
    """

    packages: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()


class MachineFile(Conditions):
    """A whole machine file: exactly one of ``[guest]``, ``[paper_guest]`` and ``[ssh]``, and the conditions.

    Parameters
    ----------
    description : str
        One line.
    guest, paper_guest : table
        A guest on this host.
    ssh : table
        A host that SSH reaches.
    image : table
        What a guest has beyond what the workload brings.
    """

    description: str
    guest: Guest | None = None
    paper_guest: PaperGuest | None = None
    ssh: SshEndpoint | None = None
    image: Image | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> MachineFile:
        if sum(kind is not None for kind in (self.guest, self.paper_guest, self.ssh)) != 1:
            raise ValueError("a machine file has exactly one of [guest], [paper_guest] and [ssh]")
        if self.ssh and self.isolation == "boot":
            raise ValueError("isolation 'boot' is for guests; a host is not booted between runs")
        if self.ssh and self.image:
            raise ValueError("[image] is for guests; install what is missing on the host itself")
        return self

    def as_guest(self) -> Guest:
        """The guest that the file describes, a guest of the paper scaled."""
        if self.guest:
            return self.guest
        assert self.paper_guest is not None
        vcpus, mem_bytes = self.paper_guest.scaled()
        return Guest(
            vcpus=vcpus, memory=format_bytes(mem_bytes), accel=self.paper_guest.accel, kernel=self.paper_guest.kernel
        )

    @property
    def conditions(self) -> Conditions:
        """The part that says under what runs are made."""
        return Conditions(**{name: getattr(self, name) for name in Conditions.model_fields})


def names() -> list[str]:
    """Machines that come with damoos."""
    return sorted([*(path.stem for path in paths.data("machines").glob("*.toml")), "local"])


def machine(name: str, kernel: str | None = None) -> Machine:
    """A machine by its short name or the path of its file; with another kernel than its file says, if one is given.

    A package can offer machines of its own by an entry point of the group ``damoos.machines``: ``lab:node7`` is what
    its function ``lab`` makes of ``node7``.

    Raises
    ------
    ConfigError : no such machine, its file is wrong, or it is no guest and so cannot be given a kernel
    """
    if name == "local":
        _refuse_kernel(name, kernel)
        from damoos.machines.local import LocalMachine

        return LocalMachine()
    plugin, colon, which = name.partition(":")
    if colon and not name.endswith(".toml"):
        _refuse_kernel(name, kernel)
        return plugins.make("machines", plugin, {}, Machine, which)  # type: ignore[type-abstract]
    path, file = find(name)
    return _built(path.stem, file, kernel)


def find(name: str) -> tuple[Path, MachineFile]:
    """A machine's file, where it lies and what it says.

    Raises
    ------
    ConfigError : there is no such file, or it is wrong
    """
    path = Path(name) if name.endswith(".toml") else paths.data("machines") / f"{name}.toml"
    if not path.exists():
        if name.endswith(".toml"):
            raise ConfigError(f"machine '{name}': there is no such file")
        raise ConfigError(f"unknown machine '{name}'{nearest(name, names())}")
    return path, toml_file.load(path, MachineFile)


def _refuse_kernel(name: str, kernel: str | None) -> None:
    if kernel is not None:
        raise ConfigError(f"machine '{name}' runs its own kernel; only a guest can be given kernel '{kernel}'")


def _built(name: str, file: MachineFile, kernel: str | None) -> Machine:
    if file.ssh:
        _refuse_kernel(name, kernel)
        return SshMachine(name, file.description, file.ssh, file.conditions)
    from damoos.machines.guest import GuestMachine

    guest = file.as_guest()
    guest_machine = GuestMachine(
        name, _description(file), guest.vcpus, parse_bytes(guest.memory), file.conditions, guest.accel,
        kernel or guest.kernel, guest.nodes, guest.cmdline, guest.idle,
    )  # fmt: skip
    if file.image:
        for suite in file.image.overlays:
            if paths.tree(suite) is None:
                raise ConfigError(
                    f"machine '{name}': suite '{suite}' is not installed; damoos workloads install {suite} --from ..."
                )
        guest_machine.provide(file.image.packages, file.image.overlays)
    return guest_machine


def _description(file: MachineFile) -> str:
    if not file.paper_guest:
        return file.description
    paper = file.paper_guest
    vcpus, mem_bytes = paper.scaled()
    if paper.scale == 1:
        return f"{file.description}: {show_count(vcpus, 'vCPU')}, {mem_bytes >> 30} GiB"
    return (
        f"{file.description}, scaled 1/{paper.scale}: {vcpus} vCPU, {mem_bytes >> 20} MiB"
        f" (the paper's guest on {paper.instance}: {show_count(paper.host_vcpus // 2, 'vCPU')},"
        f" {parse_bytes(paper.host_memory) >> 32} GiB)"
    )
