"""What a guest has of this host for itself: memory while it lives, CPUs while it is in use.

Every damoos on the host sees the same reservations, so no two guests share a CPU while one of them is measured, and a
guest that finds too few waits. Nobody waits for memory while holding CPUs, and who waits for CPUs holds none, so there
is no deadlock. One guest at a time collects CPUs and the others queue behind it, so one that wants many is not starved.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from damoos.machines.guest import locks, memory, place
from damoos.units import show_count

SAY_AFTER_S = 1.0
_POLL_S = 0.05


class Reservation:
    """One guest's claim on this host: its memory from now on, its CPUs when it asks for them.

    Parameters
    ----------
    mem_bytes, vcpus : int
        What it needs; if the host has fewer CPUs, it gets them all.
    say : callable
        Told of a wait.
    folder : Path or None
        Of the lock files; None for that of `damoos.machines.guest.place`.
    host_bytes : int or None
        Memory of the host; None to ask it.
    stops : bool
        Whether the guest stands still while it has no CPUs of its own.

    Raises
    ------
    MachineError : this host can never have such a guest
    MachineTransientError : other guests kept the memory for too long
    """

    def __init__(
        self,
        mem_bytes: int,
        vcpus: int,
        say: Callable[[str], None] = lambda _: None,
        folder: Path | None = None,
        host_bytes: int | None = None,
        *,
        stops: bool = False,
    ) -> None:
        self._stops = stops
        self._folder = place.filled(folder) if folder else place.place()
        self._gate = self._folder / place.GATE
        self._say = say
        self._vcpus = vcpus
        self._pid = 0
        self._cpus: dict[int, int] = {}
        # It has the same CPU each time if that is free, so that its runs compare. Which one is left to chance: guests
        # whose reservations lie in other folders are not seen here, and all of them would have the first CPU.
        self._preferred = random.randrange(1 << 16)
        self._record = memory.claim(self._folder, mem_bytes, say, host_bytes)

    @property
    def fd(self) -> int:
        """What QEMU must inherit."""
        return self._record.fd

    @property
    def cpus(self) -> frozenset[int]:
        """CPUs that no other guest has now; empty while this one is idle."""
        return frozenset(self._cpus)

    def handed_to(self, pid: int) -> None:
        """QEMU has been started with `fd`."""
        self._pid = pid
        self._record.handed_to(pid)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Have CPUs for the block, once they are free; changes nothing where they are held already."""
        if self._cpus:
            yield
            return
        try:
            self.take()
            yield
        finally:
            self.free()

    def take(self) -> None:
        """Wait for CPUs, and run on them only."""
        wanted = self._wanted()
        waited = f"{show_count(wanted, 'CPU')} of this host {'is' if wanted == 1 else 'are'} free of other guests"
        notice = _Notice(self._say, f"waiting until {waited}")
        gate = self._at_the_gate(notice)
        try:
            while not (cpus := self._collected()):
                notice()
                time.sleep(random.uniform(1, 2) * _POLL_S)
            self._cpus = cpus
            self._record.write("busy")
            pin(self._pid, self.cpus)
            self._signal(signal.SIGCONT)
            self._settle()
        finally:
            locks.unlock(gate)

    def free(self) -> None:
        """Let others have the CPUs; the guest runs on where it disturbs nobody, or stands still."""
        self._signal(signal.SIGSTOP)
        cpus, self._cpus = self._cpus, {}
        self._record.write("idle")
        for fd in cpus.values():
            locks.unlock(fd)
        gate = locks.try_lock(self._gate)
        if gate is not None:  # whoever is there now takes CPUs soon, and settles the idle ones then
            self._settle()
            locks.unlock(gate)

    def end(self) -> None:
        """Give everything back, QEMU being gone."""
        self._record.remove()
        cpus, self._cpus = self._cpus, {}
        for fd in cpus.values():
            locks.unlock(fd)

    def _signal(self, number: signal.Signals) -> None:
        if self._stops and self._pid:
            with contextlib.suppress(ProcessLookupError):  # whoever waits for its answer learns that it is gone
                os.kill(self._pid, number)

    def _at_the_gate(self, notice: _Notice) -> int:
        while not notice.is_due():
            gate = locks.try_lock(self._gate)
            if gate is not None:
                return gate
            time.sleep(_POLL_S)
        notice()
        return locks.lock(self._gate)

    def _wanted(self) -> int:
        return min(self._vcpus, len(os.sched_getaffinity(0)))

    def _collected(self) -> dict[int, int]:
        """Locks of so many free CPUs, the preferred one first; none if there are too few."""
        cpus: dict[int, int] = {}
        all_cpus = sorted(os.sched_getaffinity(0))
        first = self._preferred % len(all_cpus)
        for cpu in all_cpus[first:] + all_cpus[:first]:
            fd = locks.try_lock(self._folder / place.cpu(cpu))
            if fd is not None:
                cpus[cpu] = fd
            if len(cpus) == self._wanted():
                return cpus
        for fd in cpus.values():
            locks.unlock(fd)
        return {}

    def _settle(self) -> None:
        """Move the guests that are idle to CPUs that nobody has reserved; to be called at the gate.

        Where all are reserved, an idle guest shares them: it may have a workload in service, so it is not stopped.
        """
        everywhere = os.sched_getaffinity(0)
        free = {cpu for cpu in everywhere if self._is_free(cpu)}
        for pid in memory.idle_guests(self._folder):
            pin(pid, free or everywhere)

    def _is_free(self, cpu: int) -> bool:
        fd = locks.try_lock(self._folder / place.cpu(cpu))
        if fd is not None:
            locks.unlock(fd)
        return fd is not None


class _Notice:
    """A line that is said once, when a wait has become long."""

    def __init__(self, say: Callable[[str], None], line: str) -> None:
        self._say = say
        self._line = line
        self._due = time.monotonic() + SAY_AFTER_S

    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def __call__(self) -> None:
        if self.is_due():
            self._say(self._line)
            self._due = float("inf")


def pin(pid: int, cpus: Collection[int]) -> None:
    """Let all threads of a process run on these CPUs only; 0 is no process, and another user's stays where it is."""
    done: set[str] = set()
    with contextlib.suppress(OSError):
        # Again while there are new ones: they have the CPUs that their makers had.
        while pid and (new := set(os.listdir(f"/proc/{pid}/task")) - done):
            for thread in new:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), cpus)
            done |= new
