"""A guest: a QEMU process on this host that is logged in to by SSH, with a real kernel that has DAMON."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.common import paths
from damoos.errors import MachineError, MachineTransientError, UnsupportedError
from damoos.machines.base import AS_IT_IS, AgentLink, Conditions, Machine, Sink
from damoos.machines.clock import KEEPS_STEP, Clock
from damoos.machines.guest import lapic_timer, symbols
from damoos.machines.guest.accel import choose
from damoos.machines.guest.access_counter import AccessCounter
from damoos.machines.guest.architecture import ALL, AMD64
from damoos.machines.guest.image import Image, check_tools, image
from damoos.machines.guest.kernels import DEBIAN, Kernel, check, kernel
from damoos.machines.guest.qemu import Accelerator, QemuProcess
from damoos.machines.guest.reserve import Reservation
from damoos.machines.login import SshEndpoint, log_in
from damoos.machines.nodes import MemoryNode, qemu_options
from damoos.machines.ssh import SshSession

if TYPE_CHECKING:
    from fabric import Connection

# What an interrupt adds to a millisecond.
_CLOCK_ERROR = 0.02
_MOST_LOGINS = 3


class ReservedLink(AgentLink):
    """A guest's agent, each of whose calls first waits for CPUs that are then the guest's alone."""

    def __init__(self, link: AgentLink, reserved: Reservation) -> None:
        self._link = link  # which has the streams and the threads already
        self._reserved = reserved

    def call(self, name: str, **args: Any) -> Any:
        """Make one call; the agent's own limits begin when the CPUs are there."""
        with self._reserved.busy():
            return self._link.call(name, **args)

    def stream(self, sink: Sink, name: str, **args: Any) -> Any:
        """The same for a call that sends something before its answer."""
        with self._reserved.busy():
            return self._link.stream(sink, name, **args)

    def cancel(self) -> None:
        """End the run that is under way."""
        self._link.cancel()

    def close(self) -> None:
        """Say bye and hang up."""
        with self._reserved.busy():
            self._link.close()

    def hang_up(self) -> None:
        """Drop the line."""
        self._link.hang_up()


class GuestSession(SshSession):
    """An SSH session to a guest that ends with it. The guest gives its CPUs to others but for what is asked of it."""

    def __init__(self, qemu: QemuProcess, built: Image) -> None:
        self.qemu = qemu
        self._image = built
        self._is_exposed = False
        super().__init__(*self._logged_in())
        self.agent = ReservedLink(self.agent, qemu.reserved)
        self.agent.call("set_wall_clock", wall_s=time.time())
        qemu.reserved.free()

    def _logged_in(self) -> tuple[SshEndpoint, Callable[[], str], bool, Connection]:
        """What `SshSession` is made of. Another user can have been faster than damoos at the door, but not each time.

        Raises
        ------
        MachineTransientError : the guest lets nobody in
        """
        for nth in range(_MOST_LOGINS):
            line, port = self.qemu.connected()
            endpoint = self._endpoint(port)
            try:
                return endpoint, self.qemu.last_words, self.qemu.stands_still, log_in(endpoint, line)
            except MachineTransientError as error:
                line.close()
                if nth == _MOST_LOGINS - 1:
                    raise MachineTransientError(
                        f"the guest has booted, but its SSH server lets nobody in ({error}); another user of this host"
                        f" may hold all of its connections; {self.qemu.last_words()}"
                    ) from None
        raise AssertionError  # the loop returns or raises

    def _endpoint(self, port: int) -> SshEndpoint:
        known_hosts = self.qemu.place / "known_hosts"
        known_hosts.write_text(self._image.known_hosts(port))
        return SshEndpoint(host="127.0.0.1", port=port, key=str(self._image.user_key), known_hosts=str(known_hosts))

    def expose(self) -> SshEndpoint:
        """Where other processes can log in to the guest with its key, from now on: for tests that need a host.

        Every user of this computer can then connect, though not log in.
        """
        if not self._is_exposed:
            with self.qemu.reserved.busy():
                self.endpoint, self._is_exposed = self._endpoint(self.qemu.open_port()), True
        return self.endpoint

    def copy(self, path: Path) -> str:
        """Bring a file over, which the guest has to decrypt."""
        with self.qemu.reserved.busy():
            return super().copy(path)

    def close(self) -> None:
        """End the guest; there is nothing on it to undo, its disk was a throw-away."""
        self.agent.hang_up()
        self.connection.close()
        self.qemu.end()


class GuestMachine(Machine):
    """A guest described by a machine file.

    Parameters
    ----------
    name, description : str
    vcpus : int
    mem_bytes : int
    conditions : Conditions
    accel : {"auto", "kvm", "tcg"}
    kernel : str
        Name of a kernel, or path of a bzImage; see `damoos.machines.guest.kernels`.
        ConfigError if there is none.
    nodes : sequence of MemoryNode
        What the memory is divided into; empty for one node.
    cmdline : str
        Kernel parameters of the user's own.
    clock : Clock
        What time is to it where it is emulated; under KVM it has the host's.
    counter : AccessCounter or None
        What is counted of its accesses; it is then emulated, whatever ``accel`` says.
    """

    drop_caches = True

    def __init__(
        self,
        name: str,
        description: str,
        vcpus: int,
        mem_bytes: int,
        conditions: Conditions = AS_IT_IS,
        accel: str = "auto",
        kernel: str = DEBIAN,
        nodes: Sequence[MemoryNode] = (),
        cmdline: str = "",
        clock: Clock = KEEPS_STEP,
        counter: AccessCounter | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.conditions = conditions
        self._packages: set[str] = set()
        self._trees: set[str] = set()
        self._vcpus = vcpus
        self._mem_bytes = mem_bytes
        self._accel = accel
        check(kernel)
        self._kernel = kernel
        self._nodes = nodes
        self._own_cmdline = cmdline
        self._clock = clock
        self._counter = counter

    def provide(self, packages: Sequence[str], trees: Sequence[str]) -> None:
        """Take an image with these packages, and lay suites into it, those of them that are built."""
        self._packages |= set(packages)
        self._trees |= {name for name in trees if paths.tree(name)}

    def open(self, say: Callable[[str], None] = lambda _: None) -> GuestSession:
        """Build the image if need be, boot, log in."""
        boots = kernel(self._kernel, say)
        architecture = ALL[boots.architecture]
        check_tools(architecture)
        if self._counter:
            self._counter.check(architecture)
        built = image(say, self._packages, architecture)
        overlays = {name: tree for name in sorted(self._trees) if (tree := paths.tree(name))}
        accelerator = choose("tcg" if self._counter else self._accel, built, say, architecture)
        addresses = self._addresses(accelerator, boots, built, say)
        qemu = QemuProcess(
            built, boots, accelerator, self._vcpus, self._mem_bytes, self._cmdline(), qemu_options(self._nodes),
            self._counter, {name: tree / "overlay.ext4" for name, tree in overlays.items()}, say,
            self._clock, addresses,
        )  # fmt: skip
        try:
            qemu.wait_until_up()
            session = GuestSession(qemu, built)
        except BaseException:
            qemu.end()
            raise
        session.facts = {
            **session.facts,
            "accel": accelerator.name,
            "clock": str(self._clock) if accelerator.emulated else "host",
            "emulation": accelerator.note(boots),
            "image": built.identity,
            "packages": sorted(self._packages),
            "overlays": {name: tree.name for name, tree in overlays.items()},
            "kernel_name": self._kernel,
            "kernel_id": boots.identity,
        }
        if self._counter:
            session.facts["access_counter"] = self._counter.facts()
            session.facts["metrics"] = [*session.facts["metrics"], *self._counter.metrics]
        try:
            self._check_accessed_bits(accelerator, session)
            self._check_clock(accelerator, session)
        except BaseException:
            session.close()
            raise
        return session

    def _addresses(
        self, accelerator: Accelerator, boots: Kernel, built: Image, say: Callable[[str], None]
    ) -> dict[str, int]:
        """What must be known of the kernel for its clock; nothing where that is the host's, or keeps step with it.

        Raises
        ------
        UnsupportedError : this kernel cannot have the clock
        """
        if not (accelerator.emulated and self._clock.skips):
            return {}
        if boots.architecture != AMD64.name:
            raise UnsupportedError(
                f"machine '{self.name}', kernel '{self._kernel}': idle = \"skip\" is for guests of {AMD64.name}"
            )
        return symbols.addresses(boots, lapic_timer.SYMBOLS, built.busybox, say)

    def _check_accessed_bits(self, accelerator: Accelerator, session: GuestSession) -> None:
        """Refuse a guest in which DAMON would see hot memory as cold."""
        if accelerator.emulated and not session.facts["flushes_tlb"]:
            raise UnsupportedError(
                f"kernel '{self._kernel}' has neither page-table isolation nor damon.flush_tlb in force: under software"
                " emulation DAMON would see hot memory as cold; build it with CONFIG_MITIGATION_PAGE_TABLE_ISOLATION"
            )

    def _check_clock(self, accelerator: Accelerator, session: GuestSession) -> None:
        """Refuse a guest that takes its CPU for a faster or a slower one than it has."""
        rate = session.agent.call("instruction_rate") if accelerator.emulated else None
        if rate and abs(rate / 1e6 / self._clock.mips - 1) > _CLOCK_ERROR:
            raise MachineError(
                f"machine '{self.name}', kernel '{self._kernel}': {rate / 1e6:,.0f} million instructions take a second"
                f" of its time, and should be {self._clock.mips:,}; its clock is wrong"
            )

    def _cmdline(self) -> str:
        thp = "transparent_hugepage=never" if self.conditions.thp == "never" else ""
        return f"{thp} {self._own_cmdline}"
