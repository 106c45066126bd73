"""Machine files: ``machines/<name>.toml``, or any file of the user's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from damoos.common import paths, plugins, toml_file
from damoos.common.toml_file import Table
from damoos.errors import ConfigError, nearest
from damoos.machines.base import Conditions, Machine
from damoos.machines.clock import KEEPS_STEP, Clock, Idle
from damoos.machines.nodes import MemoryNode
from damoos.machines.ssh import SshEndpoint, SshMachine
from damoos.model.package_names import PackageName
from damoos.model.quantities import Size, SomeLatency, SomeSize, checked
from damoos.units import format_bytes, parse_bytes, parse_latency, show_count

if TYPE_CHECKING:
    from damoos.machines.guest.access_counter import AccessCounter

KERNEL = "DAMOOS_KERNEL"
"""Environment variable with the kernel of guests for which neither the command nor the machine file names one."""


def _kernel() -> str:
    return os.environ.get(KERNEL) or "debian"


Accel = Literal["auto", "kvm", "tcg"]
LEAST_MEMORY, MOST_MEMORY, MOST_CPUS, MOST_NODES = 64 << 20, 16 << 40, 4096, 64
MOST_COUNTED = 8  # NODES of the plugin that counts
# Of the host whose CPU the clocks of guests are after, i3.metal.
GHZ = 3.0


class Node(Table):
    """``[[guest.nodes]]``: a memory node of a guest.

    Parameters
    ----------
    memory : str, size
        Of this node.
    cpus : int
        How many of the guest's virtual CPUs are on it; left out everywhere, all are on the first node.
    latency : str, latency
        What the firmware tells of it, such as ``80ns``. With a latency for every node, those that differ are tiers.
    bandwidth : str, size
        The same of what can be read in a second, such as ``25G``.
    """

    memory: SomeSize
    cpus: int | None = Field(default=None, ge=0, le=MOST_CPUS)
    latency: SomeLatency | None = None
    bandwidth: SomeSize | None = None


class Guest(Table):
    """``[guest]``: a QEMU guest on this host.

    Parameters
    ----------
    vcpus : int
        Virtual CPUs.
    memory : str, size
        Its memory; of a guest with ``[[guest.nodes]]`` the sum of theirs.
    accel : str
        auto (KVM if a kernel has been seen to boot on it, else emulation), kvm or tcg.
    kernel : str
        debian, debian:arm64, damoos, damoos-6.1, one that ``damoos kernel add`` has added, or the path of a bzImage. By
        default the environment's ``DAMOOS_KERNEL``, and debian where that is not set.
    nodes : list of tables, or int
        Memory nodes; a number divides the memory into as many equal parts.
    cmdline : str
        Kernel parameters of your own.
    mips : int
        Of an emulated guest: millions of instructions in a second of its time. Without it and ``idle`` it has the clock
        that suits the workload.
    idle : {"wait", "skip", "poll"}
        Of an emulated guest: whether a second with nothing to do passes as the host's do, is skipped, or is computed
        through.
    count_accesses : bool
        Whether each access to memory is counted, by node; the guest is then emulated, and about twice as slow.
    cache : str, size
        Of the cache of each virtual CPU that is modelled where accesses are counted; 0 for none.
    """

    vcpus: int = Field(default=1, ge=1, le=MOST_CPUS)
    memory: SomeSize
    accel: Accel = "auto"
    kernel: str = Field(default_factory=_kernel, min_length=1)
    nodes: tuple[Node, ...] = ()
    cmdline: str = ""
    mips: int | None = None
    idle: Idle | None = None
    count_accesses: bool = False
    cache: Size = "1M"

    @model_validator(mode="before")
    @classmethod
    def _with_nodes(cls, said: Any) -> Any:
        """A number of nodes as tables, and the memory of a guest whose nodes say theirs."""
        if not isinstance(said, dict) or "nodes" not in said:
            return said
        nodes, memory = said["nodes"], said.get("memory")
        if isinstance(nodes, int) and not isinstance(nodes, bool):
            if not 1 <= nodes <= MOST_NODES:
                raise ValueError(f"'nodes' is from 1 to {MOST_NODES}, or a list of tables, and is {nodes}")
            each = checked(parse_bytes, memory) // nodes if isinstance(memory, str) else 0
            return {**said, "nodes": [{"memory": format_bytes(each)}] * nodes if nodes > 1 and each else []}
        if memory is not None:
            raise ValueError("'memory' is the sum of that of its nodes; leave it out")
        parts = [node.get("memory") for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
        total = sum(checked(parse_bytes, part) for part in parts if isinstance(part, str))
        return {**said, "memory": format_bytes(total)} if total else said

    @model_validator(mode="after")
    def _nodes_fit(self) -> Guest:
        if not self.nodes:
            return self
        if len(self.nodes) > MOST_NODES:
            raise ValueError(f"a guest has at most {MOST_NODES} memory nodes")
        named = [node.cpus for node in self.nodes if node.cpus is not None]
        if named and sum(named) != self.vcpus and not (sum(named) == 0 and self.nodes[0].cpus is None):
            raise ValueError(f"the nodes have {sum(named)} CPUs together, and the guest has vcpus = {self.vcpus}")
        told = [node.latency is not None for node in self.nodes]
        if any(told) and not all(told):
            raise ValueError("a 'latency' is needed for every node, or for none")
        return self

    @model_validator(mode="after")
    def _has_a_clock(self) -> Guest:
        clock = self.clock()
        if self.accel == "kvm" and clock not in (None, KEEPS_STEP):
            raise ValueError("'mips' and 'idle' are for emulated guests, and accel is 'kvm'")
        return self

    def clock(self) -> Clock | None:
        """What time is to it where it is emulated; None for what suits the workload."""
        if self.mips is None and self.idle is None:
            return None
        return Clock(KEEPS_STEP.mips if self.mips is None else self.mips, self.idle or KEEPS_STEP.idle)

    @model_validator(mode="after")
    def _can_count(self) -> Guest:
        if self.count_accesses and self.accel == "kvm":
            raise ValueError("'count_accesses' needs emulation, and accel is 'kvm'; leave accel out")
        if self.count_accesses and len(self.nodes) > MOST_COUNTED:
            raise ValueError(f"'count_accesses' is for at most {MOST_COUNTED} memory nodes")
        return self

    def memory_nodes(self) -> tuple[MemoryNode, ...]:
        """The nodes of a guest's memory; empty where it is not divided."""
        rest = self.vcpus - sum(node.cpus or 0 for node in self.nodes)
        return tuple(
            MemoryNode(
                parse_bytes(node.memory),
                rest if number == 0 and node.cpus is None else node.cpus or 0,
                None if node.latency is None else parse_latency(node.latency),
                None if node.bandwidth is None else parse_bytes(node.bandwidth),
            )
            for number, node in enumerate(self.nodes)
        )

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
    ghz : float, GHz
        Of its CPUs. An emulated guest that runs workloads from beginning to end is faster than other guests by the
        ratio of this to `GHZ`, if it can skip idle time.
    scale : int
        Divides the guest's CPUs and memory, so that it fits a small host. Swap is to be divided by hand.
    accel, kernel : str
        As in ``[guest]``.
    """

    instance: str
    host_vcpus: int = Field(ge=1, le=MOST_CPUS)
    host_memory: SomeSize
    ghz: float = Field(default=GHZ, ge=0.1, le=10)
    scale: int = Field(ge=1)
    accel: Accel = "auto"
    kernel: str = Field(default_factory=_kernel, min_length=1)

    def scaled(self) -> tuple[int, int]:
        """Virtual CPUs and bytes of memory of the scaled guest."""
        return max(1, self.host_vcpus // 2 // self.scale), parse_bytes(self.host_memory) // 4 // self.scale


SuiteName = Annotated[str, AfterValidator(paths.check_suite_name)]


class Image(Table):
    """``[image]``: what a guest has beyond its small Debian and what the workload brings.

    Parameters
    ----------
    packages : list of str
        Names of Debian's.
    overlays : list of str
        Names of suites that ``damoos workloads install`` has built; laid into the guest read-only and shared by all.
    """

    packages: tuple[PackageName, ...] = ()
    overlays: tuple[SuiteName, ...] = ()


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


def description(name: str) -> str:
    """What a machine that comes with damoos stands for, in one line; nothing that it needs has to be there."""
    return machine(name).describe() if name == "local" else _description(find(name)[1])


def located(name: str) -> str:
    """A machine as files name it that are read from other folders: by its file's whole path, or by its short name."""
    return os.path.abspath(name) if name.endswith(".toml") else name


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
        kernel or guest.kernel, guest.memory_nodes(), guest.cmdline, guest.clock(), _counter(guest),
        file.paper_guest.ghz / GHZ if file.paper_guest else 1.0,
    )  # fmt: skip
    if file.image:
        for suite in file.image.overlays:
            if paths.tree(suite) is None:
                raise ConfigError(
                    f"machine '{name}': suite '{suite}' is not installed; damoos workloads install {suite} --from ..."
                )
        guest_machine.provide(file.image.packages, file.image.overlays)
    return guest_machine


def _counter(guest: Guest) -> AccessCounter | None:
    """What counts a guest's accesses, if its file asks for it."""
    if not guest.count_accesses:
        return None
    from damoos.machines.guest.access_counter import AccessCounter

    nodes = guest.memory_nodes() or (MemoryNode(parse_bytes(guest.memory), guest.vcpus),)
    return AccessCounter(nodes, parse_bytes(guest.cache))


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
