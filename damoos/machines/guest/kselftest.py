"""DAMON's kselftests: programs and scripts of the kernel's source, run one after the other in a guest.

``make kernel`` keeps them beside the kernel that they belong to, its programs compiled.

References
----------
Documentation/dev-tools/kselftest.rst
"""

from __future__ import annotations

import shlex
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from damoos.errors import MachineError, UnsupportedError
from damoos.machines.base import Conditions, Swap
from damoos.machines.guest import GuestMachine, GuestSession
from damoos.machines.guest.kernel_tests import KernelTest
from damoos.machines.guest.kernels import kernel

FOLDER, LIST = "selftests", "kselftest-list.txt"
"""The folder beside a kernel; the file in it that names the tests, as ``make install`` of kselftests writes it."""
SUITE = "damon"
MEM_BYTES = 512 << 20
LIMIT_S = 300
"""Of the guest's time, for one test; the longest takes 20 s."""
_SKIP = 4
# Tests that look into the kernel's memory end with 1 where drgn is missing, and the guest does not have it.
_NEEDS_DRGN = "drgn not found"
_PLACE = f"/tmp/{FOLDER}"
# A test leaves its kdamond to end by itself, or behind; the next one would find DAMON busy.
_FREE = (
    "for state in /sys/kernel/mm/damon/admin/kdamonds/*/state; do echo off > $state; done 2>/dev/null;"
    f" timeout {LIMIT_S} sh -c 'while grep -qs ^kdamond /proc/[0-9]*/comm; do sleep 0.1; done'"
)


def run(name: str, say: Callable[[str], None] = lambda _: None) -> list[KernelTest]:
    """Boot a kernel and run the selftests that were kept beside it.

    Raises
    ------
    UnsupportedError : there are none beside it
    MachineLost : the guest did not come up, or went away
    """
    kept = kernel(name, say).path / FOLDER
    if not (kept / LIST).exists():
        raise UnsupportedError(f"kernel '{name}' has no kselftests beside it; 'damoos' does (make kernel)")
    programs = [line.removeprefix(f"{SUITE}:") for line in (kept / LIST).read_text().splitlines()]
    swap = Swap(kind="zram", size="64M", algorithm="lz4")
    guest = GuestMachine("kselftest", "", 1, MEM_BYTES, Conditions(swap=swap, thp="madvise"), kernel=name)
    session = guest.open(say)
    try:
        session.agent.call("prepare", **guest.conditions.wanted())
        with session.qemu.reserved.busy():
            _bring(session, kept)
            return [_result(session, program) for program in programs]
    finally:
        session.close()


def _bring(session: GuestSession, kept: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "selftests.tar"
        with tarfile.open(packed, "w") as tar:
            tar.add(kept, FOLDER)
        there = session.copy(packed)
    done = session.connection.run(f"tar -x -C /tmp -f {shlex.quote(there)}", hide=True, warn=True, in_stream=False)
    if not done.ok:
        raise MachineError(f"unpacking the selftests in the guest: {done.stderr.strip()}")


def _result(session: GuestSession, program: str) -> KernelTest:
    """Run one test, and wait until DAMON is free again; its exit status says how it went."""
    command = f"cd {_PLACE} && timeout {LIMIT_S} ./{shlex.quote(program)} 2>&1"
    done = session.connection.run(command, hide=True, warn=True, in_stream=False)
    session.connection.run(_FREE, hide=True, warn=True, in_stream=False)
    return judged(program, int(done.exited), done.stdout)


def judged(program: str, status: int, output: str) -> KernelTest:
    """What an exit status and the last line of the output mean."""
    if status == 0:
        return KernelTest(SUITE, program, "ok")
    last = (output.strip().splitlines() or [f"it ended with {status} and printed nothing"])[-1]
    skipped = status == _SKIP or _NEEDS_DRGN in output
    return KernelTest(SUITE, program, "skip" if skipped else "not ok", last)
