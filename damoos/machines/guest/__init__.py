"""A guest: a QEMU process on this host that is logged in to by SSH, with a real kernel that has DAMON."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.agent.standby import ATTACH, STANDBY
from damoos.common import paths
from damoos.errors import MachineError, MachineTransientError, UnsupportedError
from damoos.machines.base import AS_IT_IS, ON_DISK, AgentLink, Conditions, Machine, Sink
from damoos.machines.bundle import agent_bundle
from damoos.machines.clock import KEEPS_STEP, PACED, Clock
from damoos.machines.guest import lapic_timer, symbols
from damoos.machines.guest.accel import choose
from damoos.machines.guest.access_counter import AccessCounter
from damoos.machines.guest.architecture import ALL, AMD64
from damoos.machines.guest.image import Image, check_tools, image
from damoos.machines.guest.kernels import DEBIAN, Kernel, check, kernel
from damoos.machines.guest.qemu import Accelerator, QemuProcess
from damoos.machines.guest.reserve import Reservation
from damoos.machines.login import SshEndpoint, log_in, log_out
from damoos.machines.nodes import MemoryNode, qemu_options
from damoos.machines.ssh import SshHost, SshSession

if TYPE_CHECKING:
    from fabric import Connection

# What an interrupt adds to a millisecond.
_CLOCK_ERROR = 0.02
_CLOCK_LOOKS = 10
_MOST_LOGINS = 3
# A second of the fastest clock (damoos.machines.clock.MOST_MIPS) has 20 000 million instructions, of which a busy host
# emulates 20 million in one of its own.
_SECOND_S = 1000.0


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
        """Call the agent and take what it sends before its answer."""
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

    second_s = _SECOND_S

    def __init__(self, qemu: QemuProcess, built: Image) -> None:
        self.qemu = qemu
        self._image = built
        self._is_exposed = False
        if qemu.has_standby and not qemu.goes_on:
            self._have_one_stand_by()
        super().__init__(*self._logged_in())
        self.agent = ReservedLink(self.agent, qemu.reserved)
        self.agent.call("set_wall_clock", wall_s=time.time())
        qemu.reserved.free()

    def _have_one_stand_by(self) -> None:
        """Log in only to start the agent that waits, so that nothing of a connection is in a snapshot.

        Raises
        ------
        MachineError, MachineTransientError : it does not start
        """
        endpoint, why_lost, _, line = self._logged_in()
        host = SshHost(endpoint, line)
        try:
            out, err = host.output([*host.agent_argv(), STANDBY])
        finally:
            log_out(host.connection)
        if said := f"{out}{err}".strip():
            raise MachineError(f"the guest's agent cannot start: {said.splitlines()[-1]}; {why_lost()}")
        self.qemu.stands_by()

    def agent_argv(self) -> list[str]:
        """How the agent is started: by a look at the one that waits, which has imported all that it needs."""
        argv = super().agent_argv()
        return [*argv, ATTACH] if self.qemu.has_standby else argv

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
    clock : Clock or None
        What time is to it where it is emulated; under KVM it has the host's. None for what suits the workload (`suit`).
    counter : AccessCounter or None
        What is counted of its accesses; it is then emulated, whatever ``accel`` says.
    speed : float
        How much faster its CPU is than that of other guests, where a clock suits the workload.
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
        clock: Clock | None = None,
        counter: AccessCounter | None = None,
        speed: float = 1.0,
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
        self._asked_clock, self._speed = clock, speed
        # None where nothing is run from beginning to end: a host is acted on step by step.
        self._suits_paced: bool | None = None
        self._counter = counter

    def provide(self, packages: Sequence[str], trees: Sequence[str]) -> None:
        """Take an image with these packages, and lay suites into it, those of them that are built."""
        self._packages |= set(packages)
        self._trees |= {name for name in trees if paths.tree(name)}

    def suit(self, *, paced: bool) -> None:
        """Take `PACED` for programs that mostly wait, unless the machine file says otherwise; and its own speed."""
        self._suits_paced = paced

    def open(self, say: Callable[[str], None] = lambda _: None) -> GuestSession:
        """Build the image if need be, boot, log in."""
        boots = kernel(self._kernel, say)
        architecture = ALL[boots.architecture]
        check_tools(architecture)
        if self._counter:
            self._counter.check(architecture)
        built = image(say, self._packages, architecture)
        overlays = {name: tree for name in sorted(self._trees) if (tree := paths.tree(name))}
        disks = {name: paths.overlay(tree) for name, tree in overlays.items()}
        accelerator = choose("tcg" if self._counter else self._accel, built, say, architecture)
        clock = self._clock(accelerator, boots)
        skips = accelerator.emulated and clock.skips
        addresses = symbols.addresses(boots, lapic_timer.SYMBOLS, built.busybox, say) if skips else {}
        qemu = QemuProcess(
            built, boots, accelerator, self._vcpus, self._mem_bytes, self._cmdline(), qemu_options(self._nodes),
            self._counter, disks, say, clock, addresses, agent_bundle().name,
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
            "clock": str(clock) if accelerator.emulated else "host",
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
            if accelerator.emulated:
                self._check_clock(clock, session)
        except BaseException:
            session.close()
            raise
        return session

    def _clock(self, accelerator: Accelerator, boots: Kernel) -> Clock:
        """What the machine file says, or what suits the workload as far as this guest can have it.

        Raises
        ------
        UnsupportedError : it cannot have the clock that its machine file asks for
        """
        clock = self._asked_clock or self._suiting()
        if self._speed != 1 and self._suits_paced is not None and not self._trees:
            clock = clock.faster(self._speed)
        if not (accelerator.emulated and clock.skips and (objection := self._cannot_skip(boots))):
            return clock
        if self._asked_clock:
            raise UnsupportedError(
                f"machine '{self.name}', kernel '{self._kernel}': idle = \"skip\" is not for {objection}"
            )
        return self._in_step()

    def _suiting(self) -> Clock:
        """What suits the workload. The host reads the disks of suites, for which a clock that jumps has no time."""
        if self._trees or self._suits_paced is None:
            return self._in_step()
        if self._suits_paced:
            return PACED
        return Clock(KEEPS_STEP.mips, "skip") if self._waits_for_timers else KEEPS_STEP

    def _in_step(self) -> Clock:
        return Clock(KEEPS_STEP.mips, "poll") if self._waits_for_timers else KEEPS_STEP

    @property
    def _waits_for_timers(self) -> bool:
        """Whether its CPU halts until a device's time is over, and would then wait for the host, which may be late."""
        return self.conditions.swap is not None and self.conditions.swap.kind == "null_blk"

    def _cannot_skip(self, boots: Kernel) -> str:
        """Why idle time cannot be skipped: a disk that the host reads meanwhile would take no time, or any."""
        if boots.architecture != AMD64.name:
            return f"guests of {boots.architecture}"
        if not boots.pmem:
            return "kernels without CONFIG_BLK_DEV_PMEM, whose root disk is read by the host"
        if self.conditions.swap and self.conditions.swap.kind in ON_DISK:
            return (
                f"swap of kind '{self.conditions.swap.kind}', as its disk would take no time; 'null_blk' has a latency"
            )
        return ""

    def _check_accessed_bits(self, accelerator: Accelerator, session: GuestSession) -> None:
        """Refuse a guest in which DAMON would see hot memory as cold."""
        if accelerator.emulated and not session.facts["flushes_tlb"]:
            raise UnsupportedError(
                f"kernel '{self._kernel}' has neither page-table isolation nor damon.flush_tlb in force: under software"
                " emulation DAMON would see hot memory as cold; build it with CONFIG_MITIGATION_PAGE_TABLE_ISOLATION"
            )

    def _check_clock(self, clock: Clock, session: GuestSession) -> None:
        """Refuse a guest that takes its CPU for a faster or a slower one than it has."""
        # A guest that has just booted may still be at work: then less is left for what counts its instructions.
        for _ in range(_CLOCK_LOOKS):
            rate = session.agent.call("instruction_rate")
            if rate is None or abs(rate / 1e6 / clock.mips - 1) <= _CLOCK_ERROR:
                return
        raise MachineError(
            f"machine '{self.name}', kernel '{self._kernel}': {rate / 1e6:,.0f} million instructions take a second"
            f" of its time, and should be {clock.mips:,}; its clock is wrong"
        )

    def _cmdline(self) -> str:
        thp = "transparent_hugepage=never" if self.conditions.thp == "never" else ""
        return f"{thp} {self._own_cmdline}"
