"""A QEMU process: started, watched on its console, and never left behind.

QEMU is told to die with the thread that started it (prctl PR_SET_PDEATHSIG), so a SIGKILL of damoos takes its guests
along. The thread that opens a guest must therefore live as long as the guest does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from damoos.agent.access_counts import COUNTED
from damoos.agent.standby import WAITS
from damoos.common import host_programs
from damoos.errors import MachineLost
from damoos.machines.clock import KEEPS_STEP, Clock
from damoos.machines.guest import forward, lapic_timer, locks, qemu_options
from damoos.machines.guest.access_counter import AccessCounter
from damoos.machines.guest.architecture import ALL, Architecture
from damoos.machines.guest.console import Console
from damoos.machines.guest.debugger import Debugger
from damoos.machines.guest.image import Image
from damoos.machines.guest.kernels import Kernel
from damoos.machines.guest.monitor import Monitor
from damoos.machines.guest.reserve import Reservation
from damoos.machines.guest.snapshot import Snapshot

# Of silence: a kernel that panics ends QEMU, so this is for one that hangs. KVM inside an emulated host takes minutes.
BOOT_S = 300.0
# Seen on the console when sshd has its socket; knocking earlier would only meet slow retries of QEMU's user network.
READY = "Server listening on"
USER_SPACE = "damoos: user space"
_KVM_STOPPED = "KVM internal error"
_ENDED_S = 2.0
# Of QEMU's own messages: what is kept, which has room for all registers of CPUs, and what an error quotes at most.
_SAID_BYTES, _MOST_LINES = 1 << 16, 10
_PREFIX = "damoos-guest-"
# For disks that are memory, beside a guest's own.
_ROOM = ",slots=8,maxmem=256G"
# A kernel without an initial RAM disk mounts the root disk and makes devices of zram and null_blk by itself, by these
# words.
# DAMON_STAT, which kernels since 6.17 may run from the start, would keep DAMON from everybody else.
_CMDLINE = "quiet panic=-1 rw rootwait zram.num_devices=0 null_blk.nr_devices=0 damon_stat.enabled=N"
# The kernel would replace the names of enums in the formats of all its trace events, which only humans and perf read.
# Under emulation this takes half a second of a host's CPU at each boot.
_NO_ENUM_NAMES = "initcall_blacklist=trace_eval_init"


@dataclass(frozen=True)
class Accelerator:
    """How the guest's instructions are executed.

    Parameters
    ----------
    name : {"kvm", "tcg"}
    emulated : bool
        Whether accessed bits stay as they are until something flushes the emulator's TLB, and time is a `Clock`.
    """

    name: str
    emulated: bool

    def cpu(self, architecture: Architecture) -> str:
        """QEMU's name of the guest's CPU."""
        return architecture.tcg_cpu if self.emulated else "host"

    def options(self, clock: Clock) -> tuple[str, ...]:
        """QEMU's options."""
        return ("-accel", self.name, *(clock.options() if self.emulated else ()))

    def cmdline(self, kernel: Kernel, clock: Clock, vcpus: int) -> str:
        """Kernel parameters for a guest of so many CPUs; docs/decisions/0001 has the measurements."""
        if not self.emulated:
            return ""
        of_clock = clock.cmdline(ALL[kernel.architecture].lone_cpu if vcpus == 1 else ())
        return " ".join([self._accessed_bits(kernel), _NO_ENUM_NAMES, *of_clock])

    def _accessed_bits(self, kernel: Kernel) -> str:
        """Kernel parameters that keep accessed bits true under emulation."""
        # A kernel with our patch flushes just the page, so it needs no page tables apart.
        return "damon.flush_tlb=1 pti=off" if kernel.flush_tlb else ALL[kernel.architecture].isolation

    def note(self, kernel: Kernel) -> str:
        """What else there is to know, for provenance."""
        if not self.emulated:
            return "hardware virtualisation"
        return f"software emulation; {self._accessed_bits(kernel).split()[0]} keeps accessed bits true"


class QemuProcess:
    """One guest, from start to end.

    It starts once the host has memory and CPUs for it, and has both for itself: the memory until its end, the CPUs
    until `reserved` gives them to others.

    Parameters
    ----------
    image : Image
    kernel : Kernel
    accelerator : Accelerator
    vcpus : int
    mem_bytes : int
    extra_cmdline : str
        Kernel parameters beyond those that every guest has.
    options : tuple of str
        Further options of QEMU's (memory nodes, say).
    counter : AccessCounter or None
        What is counted of the guest's accesses; only an emulated guest's can be.
    overlays : mapping of str to Path
        Read-only disks, by the name of the folder under /opt/damoos that each of them is mounted on.
    say : callable
        Told when it must wait for other guests.
    clock : Clock
        What time is to it, if it is emulated.
    addresses : mapping of str to int
        Of `damoos.machines.guest.lapic_timer.SYMBOLS` in the kernel; needed where the clock skips idle time.
    standby : str
        Names the agent that waits in it, if one shall (`damoos.agent.standby`) and the guest can have snapshots.

    Raises
    ------
    MachineError, MachineTransientError : as `Reservation`
    MachineLost : its kernel cannot be given the clock
    """

    def __init__(
        self,
        image: Image,
        kernel: Kernel,
        accelerator: Accelerator,
        vcpus: int,
        mem_bytes: int,
        extra_cmdline: str = "",
        options: tuple[str, ...] = (),
        counter: AccessCounter | None = None,
        overlays: Mapping[str, Path] = MappingProxyType({}),
        say: Callable[[str], None] = lambda _: None,
        clock: Clock = KEEPS_STEP,
        addresses: Mapping[str, int] = MappingProxyType({}),
        standby: str = "",
    ) -> None:
        sweep()
        # Where idle time is skipped, all that the guest does between calls would be to run far ahead.
        self.stands_still = accelerator.emulated and clock.skips
        self._clock, self._addresses = clock, addresses
        self._reserve = partial(Reservation, mem_bytes, vcpus, say, stops=self.stands_still)
        self.reserved = self._reserve()
        self.place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._in_use = locks.lock(self.place)  # so that no `sweep` takes it, not even of another PID namespace
        self._console, self._said = Console(), Console(kept_bytes=_SAID_BYTES)
        architecture = ALL[kernel.architecture]
        self._say = say
        in_memory = accelerator.emulated and kernel.pmem
        cmdline = f"console={architecture.console} {' '.join(architecture.cmdline)} {_CMDLINE}"
        cmdline += f" root=/dev/{'pmem0' if in_memory else 'vda'}"
        cmdline += f" {accelerator.cmdline(kernel, clock, vcpus)} {extra_cmdline}"
        cmdline += f" damoos.overlays={','.join(overlays)}{f' {COUNTED}' if counter else ''}"
        self._monitor = Monitor()
        try:
            self._argv = [
                architecture.qemu,
                *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
                *architecture.board,
                *accelerator.options(clock),
                *("-cpu", accelerator.cpu(architecture)),
                *("-smp", str(vcpus), "-m", f"size={mem_bytes // (1 << 20)}M{_ROOM if in_memory else ''}"),
                *options,
                *(counter.options(self.place) if counter else ()),
                *("-kernel", str(kernel.bootable), "-append", cmdline),
                *(("-initrd", str(kernel.initrd)) if kernel.initrd else ()),
                *(_in_memory(image.disk) if in_memory else _throw_away(image.disk)),
                *(word for disk in overlays.values() for word in _readonly(disk)),
                *("-device", f"virtio-net-pci,netdev={forward.NET},romfile="),
            ]
            # What a counter has counted is no part of a guest's state, and random numbers must not be those of others.
            self.has_standby = bool(standby) and in_memory and kernel.vmgenid and counter is None
            if self.has_standby:
                self._argv += ["-device", "vmgenid,guid=auto"]
            self._snapshot = Snapshot([*self._argv, standby]) if self.has_standby else None
            self._start()
        except BaseException:
            self._clear_up()
            raise

    def _start(self) -> None:
        """Start QEMU on CPUs of its own."""
        self.reserved.take()
        incoming = self._snapshot.options() if self._snapshot else ()
        self.goes_on = bool(incoming)
        self._console = Console(self._snapshot.console() if self._snapshot and incoming else "")
        self._said = Console(kept_bytes=_SAID_BYTES)
        serial = ("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console")
        net = ("-netdev", f"user,id={forward.NET},restrict=on")
        argv = [*self._argv, *serial, *net, *self._monitor.options(), *incoming]
        fds = [self.reserved.fd, self._monitor.theirs.fileno()]
        with Debugger() as debugger:
            has_debugger = self.stands_still and not self.goes_on
            if has_debugger:
                argv += debugger.options()
                fds.append(debugger.theirs.fileno())
            self._process = self._started(argv, fds)
            for console, stream in ((self._console, self._process.stdout), (self._said, self._process.stderr)):
                assert stream is not None
                console.follow(stream)
            self._monitor.handed_over()
            debugger.handed_over()
            self.reserved.handed_to(self.pid)
            if has_debugger:
                self._tell_timer(debugger)

    def _tell_timer(self, debugger: Debugger) -> None:
        """Have the kernel go on with what it need not measure; a QEMU that has ended is left for `wait_for` to find.

        Raises
        ------
        MachineLost : the kernel does not understand it
        """
        try:
            lapic_timer.tell(debugger, self._addresses, self._clock.mips)
        except MachineLost as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDED_S)
                return
            raise MachineLost(f"the guest's clock cannot be set: {error}: {self.last_words()}") from None

    def _start_again(self) -> None:
        """Start another QEMU in the place of one that has ended."""
        self._monitor.close()
        self._monitor = Monitor()
        self.reserved.end()
        self.reserved = self._reserve()
        self._start()

    def _started(self, argv: list[str], fds: Sequence[int]) -> subprocess.Popen[bytes]:
        die_with_this_process, cpus = host_programs.dies_with_this_process(), self.reserved.cpus

        def enter() -> None:
            die_with_this_process()
            os.sched_setaffinity(0, cpus)

        return subprocess.Popen(
            argv,
            cwd=self.place,  # QEMU takes firmware from the current folder first, where other users may have put some
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self.place)},
            start_new_session=True,
            pass_fds=fds,
            preexec_fn=enter,
        )

    @property
    def pid(self) -> int:
        """Process id of QEMU."""
        return self._process.pid

    def wait_until_up(self) -> None:
        """Wait until sshd listens.

        Raises
        ------
        MachineLost : as `wait_for`
        """
        if self.goes_on:
            with contextlib.suppress(MachineLost):
                self._monitor.greet()
                return self._monitor.go_on()
            self._process.wait()
            if self._snapshot:
                self._say(f"the snapshot of a booted guest cannot be used: {self.last_words()}; the guest is booted")
                self._snapshot.remove()
            self._start_again()
            return self.wait_until_up()
        self.wait_for(READY, BOOT_S)
        self._monitor.greet()

    def stands_by(self) -> None:
        """Wait until the agent in it waits, and make a snapshot of it if the time has come.

        Raises
        ------
        MachineLost : as `wait_for`
        """
        self.wait_for(WAITS, BOOT_S)
        if self._snapshot:
            self._snapshot.consider(self._monitor.save, self.console())

    def connected(self) -> tuple[socket.socket, int]:
        """A connection to its sshd, see `damoos.machines.guest.forward`; `wait_until_up` comes first."""
        return forward.connected(self._monitor)

    def open_port(self) -> int:
        """Have a port of this host lead to its sshd until it ends."""
        return forward.open_port(self._monitor)

    def wait_for(self, text: str, silence_s: float) -> None:
        """Wait until the console shows a text; one that it has shown counts, if it is still among `Console.text`.

        Raises
        ------
        MachineLost : QEMU ended, KVM cannot go on, or the console was silent for so long; with the tail of the console
        """
        nr_bytes, end = 0, time.monotonic() + silence_s
        while not self._console.has_shown(text):
            if self._process.poll() is not None:
                self._console.wait(_ENDED_S)
                if self._console.has_shown(text):
                    return
                raise MachineLost(f"QEMU ended with {self._process.returncode} while booting: {self.last_words()}")
            if _KVM_STOPPED in self._errors():  # QEMU then waits for a debugger
                raise MachineLost(f"KVM cannot run this guest: {self.last_words()}")
            if self._console.nr_bytes != nr_bytes:
                nr_bytes, end = self._console.nr_bytes, time.monotonic() + silence_s
            if time.monotonic() > end:
                raise MachineLost(f"the guest did not boot: silent for {silence_s:g} s: {self.last_words()}")
            time.sleep(0.02)

    def console(self) -> str:
        """What the guest has written to its console; of more than `KEPT_BYTES`, the end."""
        return self._console.text()

    def last_words(self) -> str:
        """What QEMU and the guest's console said last, in one line."""
        ended = self._process.poll() is not None
        if ended:
            self._console.wait(_ENDED_S)
            self._said.wait(_ENDED_S)
        state = "QEMU is gone" if ended else "QEMU runs"
        said = " ".join(self._said.last_lines(_MOST_LINES))
        return " | ".join(part for part in (state, said, *self._console.last_lines(3)) if part)

    def _errors(self) -> str:
        if self._process.poll() is not None:
            self._said.wait(_ENDED_S)
        return self._said.text()

    def end(self) -> None:
        """Kill QEMU, which has nothing to save, and remove what it left."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._clear_up()

    def _clear_up(self) -> None:
        self._monitor.close()
        self.reserved.end()
        shutil.rmtree(self.place, ignore_errors=True)
        locks.unlock(self._in_use)


def _in_memory(disk: Path) -> tuple[str, ...]:
    """A disk that is memory, so that reading it takes the guest the time of a copy; what it writes is thrown away."""
    backend = f"memory-backend-file,id=root,share=off,mem-path={qemu_options.value(disk)},size={disk.stat().st_size}"
    return ("-machine", "nvdimm=on", "-object", backend, "-device", "nvdimm,memdev=root,id=nvdimm0")


def _throw_away(disk: Path) -> tuple[str, ...]:
    return ("-drive", f"file={qemu_options.value(disk)},if=virtio,format=raw,snapshot=on")


def _readonly(disk: Path) -> tuple[str, str]:
    return "-drive", f"file={qemu_options.value(disk)},if=virtio,format=raw,readonly=on"


def sweep() -> None:
    """Remove what guests of a damoos that was killed have left: their folders; their processes died with it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder that is this user's and that no damoos holds; a link, or another user's folder, stays."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # another user's, no folder, or another damoos that sweeps at the same time was faster
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)  # which follows no link, also if one has taken its place
    except BlockingIOError:
        return
    finally:
        os.close(fd)
