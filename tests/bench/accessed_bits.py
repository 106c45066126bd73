"""How accessed bits are kept true under emulation, on patterns whose hot bytes are known, and how long kernels boot.

Prints the tables of docs/decisions/0001: ways to flush the emulator's TLB on Debian's kernel and on our own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from damoos.damon.damo_json import context_to_json
from damoos.damon.pattern import AccessPattern
from damoos.damon.scheme import Context, Scheme
from damoos.machines.base import Conditions, Swap
from damoos.machines.clock import Clock
from damoos.machines.guest import GuestMachine, GuestSession, kernels
from damoos.machines.guest.accel import TCG
from damoos.machines.guest.image import image
from damoos.machines.guest.qemu import BOOT_S, READY, USER_SPACE, Accelerator, QemuProcess
from damoos.workloads.catalog import NO_PROGRAMS, workload

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.conftest import KERNELS, prcl

FLUSHER = "#include <time.h>\nint main(void) { struct timespec t = {0, 2000000}; for (;;) nanosleep(&t, 0); }\n"
MEM_BYTES = 1 << 30
CONDITIONS = Conditions(swap=Swap(size="256M"), thp="never")
BOOTS = 5
# Workloads of which a known number of bytes is hot at any time.
HOT_MIB = {"synthetic/hot-cold": 60, "synthetic/stairs": 10, "synthetic/zigzag": 10}


class HostsTime(Accelerator):
    """Emulation whose time is the host's."""

    def options(self, clock: Clock) -> tuple[str, ...]:
        return ("-accel", "tcg", "-cpu", "max")


PLAIN = HostsTime("tcg", emulated=True)
OFF = "damon.flush_tlb=0 pti=off"


@dataclass(frozen=True)
class Way:
    """How the emulator's TLB is flushed: kernel parameters, and perhaps a process."""

    label: str
    kernel: str
    cmdline: str
    process: bool = False


WAYS = (
    Way("not at all", "debian", OFF),
    Way("a process that sleeps 2 ms at a time", "debian", OFF, process=True),
    Way("pti=on", "debian", "pti=on"),
    Way("not at all", "damoos", OFF),
    Way("a process that sleeps 2 ms at a time", "damoos", OFF, process=True),
    Way("pti=on", "damoos", "damon.flush_tlb=0 pti=on"),
    Way("damon.flush_tlb=1", "damoos", "damon.flush_tlb=1 pti=off"),
)


class AnyGuest(GuestMachine):
    """A guest that may have false accessed bits: that is what is measured here."""

    def _check_accessed_bits(self, accelerator: Accelerator, session: GuestSession) -> None:
        pass


def flusher(place: Path) -> Path:
    """A process that sleeps all the time, so that the guest changes address spaces as often."""
    (place / "flush.c").write_text(FLUSHER)
    subprocess.run(["cc", "-O2", "-static", "-o", place / "flush", place / "flush.c"], check=True)
    return place / "flush"


def hot_mib(session: GuestSession, name: str) -> float:
    """MiB that DAMON saw accessed in at least half of the samples, on the average of 6 s."""
    argv = workload(name, NO_PROGRAMS).argv(session.copy)
    context = Context((Scheme("stat", AccessPattern(min_freq=Fraction(50))),))
    session.agent.call("apply", argv=argv, env={}, context=context_to_json(context))
    try:
        first = status = session.agent.call("status")
        while status["for_s"] < 4:
            first = status = session.agent.call("status")
        while status["for_s"] < first["for_s"] + 6:
            status = session.agent.call("status")
        seen = status["damos"][0]["sz_tried_bytes"] - first["damos"][0]["sz_tried_bytes"]
        return seen / ((status["for_s"] - first["for_s"]) / 0.1) / (1 << 20)
    finally:
        session.agent.call("stop")


def measure(way: Way, program: Path) -> str:
    guest = AnyGuest("bench", "", 1, MEM_BYTES, CONDITIONS, "tcg", way.kernel, cmdline=way.cmdline)
    session = guest.open()
    try:
        session.agent.call("prepare", **guest.conditions.wanted())
        if way.process:
            session.connection.run(f"{session.copy(program)} >/dev/null 2>&1 &", hide=True, in_stream=False)
        argv = workload("synthetic/hot-cold", NO_PROGRAMS).argv(session.copy)
        spec = {"argv": argv, "env": {}, "limit_s": 300, "sample_s": 0.5, "drop_caches": True}
        row = [way.kernel, way.label]
        for context in (None, prcl("1s")):
            start = time.monotonic()
            raw = session.agent.call("run", **spec, context=context)
            row += [f"{raw['runtime_s']:.2f}", f"{time.monotonic() - start:.1f}"]
        row.append(f"{raw['samples'][-1][raw['sample_columns'].index('rss_bytes')] / (1 << 20):.1f}")
        row += [f"{hot_mib(session, name):.1f}" for name in HOT_MIB]
        return "| " + " | ".join(row) + " |"
    finally:
        session.close()


def boot_s(name: str, accelerator: Accelerator) -> tuple[float, float]:
    """Seconds of wall time from QEMU's start to the first line of user space and to a listening sshd, medians."""
    found = []
    for _ in range(BOOTS):
        start = time.monotonic()
        guest = QemuProcess(image(), kernels.kernel(name), accelerator, 1, MEM_BYTES)
        try:
            guest.wait_for(USER_SPACE, BOOT_S)
            user_space = time.monotonic() - start
            guest.wait_for(READY, BOOT_S)
            found.append((user_space, time.monotonic() - start))
        finally:
            guest.end()
    user_space_s, sshd_s = zip(*found, strict=True)
    return statistics.median(user_space_s), statistics.median(sshd_s)


def main() -> None:
    print(f"Boots, seconds of wall time, median of {BOOTS}\n")
    print("| kernel | to user space | to sshd | with the clock of instructions: to user space | to sshd |")
    print("| --- | --- | --- | --- | --- |")
    for name in KERNELS:
        cells = [f"{one:.2f}" for accelerator in (PLAIN, TCG) for one in boot_s(name, accelerator)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    hot = " | ".join(f"{name.split('/')[1]} ({size})" for name, size in HOT_MIB.items())
    print(f"\n| kernel | flushed by | baseline s | wall s | prcl 1s: s | wall s | RSS MiB at its end (60) | {hot} |")
    print("| --- |" + " --- |" * (6 + len(HOT_MIB)))
    with tempfile.TemporaryDirectory() as name:
        program = flusher(Path(name))
        for way in WAYS:
            print(measure(way, program), flush=True)


if __name__ == "__main__":
    main()
