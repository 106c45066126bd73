"""What damoos itself costs, each figure beside its bound: `make bench`. Rewrites docs/bench.md."""

from __future__ import annotations

import itertools
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from damoos import __version__
from damoos.dispatch.lease import Lease
from damoos.machines.catalog import machine
from damoos.machines.guest.accel import choose
from damoos.machines.guest.image import image
from damoos.machines.guest.kernels import DEBIAN, kernel
from damoos.machines.guest.qemu import BOOT_S, READY, QemuProcess
from damoos.model.space import Param
from damoos.model.trial import Run, Score
from damoos.policies.base import NonePolicy
from damoos.store.studies import Store
from damoos.workloads.base import Program, ProgramWorkload, Tuning

PARAM = Param("min_age", "us", 0, 1_000_000, 100_000)
NOOP = ProgramWorkload("noop", Program(("true",)), Tuning())
TABLE = Path(__file__).parents[2] / "docs/bench.md"
REPEATS = 7


def timed(job: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Seconds of each of some runs, after one that is not counted."""
    job()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        found.append(time.perf_counter() - start)
    return found


def per_trial(name: str) -> list[float]:
    """A trial of a workload that does nothing: run, measured, its raw data and its trial stored."""
    numbers = itertools.count()
    with tempfile.TemporaryDirectory() as place, Lease(machine(name)) as lease:
        record = Store(Path(place)).create("bench", {}, "maximize", "now")

        def trial() -> None:
            measurement, samples = lease.run(NOOP, NonePolicy(), 60)
            run = Run(0, "trial", next(numbers), "", {PARAM.key: 0}, measurement)
            record.artifacts.write_samples(run.key, samples)
            record.add(run, Score(0.0, feasible=True), (PARAM,))

        return timed(trial)


def help_text() -> list[float]:
    argv = [Path(sys.executable).with_name("damoos"), "--help"]
    return timed(lambda: subprocess.run(argv, stdout=subprocess.DEVNULL, check=True))


def boot_to_ssh() -> list[float]:
    built = image()
    boots = kernel(DEBIAN)
    accelerator = choose("auto", built, print)

    def boot() -> None:
        guest = QemuProcess(built, boots, accelerator, vcpus=1, mem_bytes=1 << 30)
        try:
            guest.wait_for(READY, BOOT_S)
        finally:
            guest.end()

    return timed(boot, repeats=3)


def main() -> int:
    rows = []
    for what, bound_s, measure in (
        ("a trial of a no-op, stored, `local`", 0.15, lambda: per_trial("local")),
        ("a trial of a no-op, stored, booted guest", 4.0, lambda: per_trial("guest")),
        ("`damoos --help`", 0.3, help_text),
        ("guest, start to listening sshd", 8.0, boot_to_ssh),
    ):
        found = measure()
        middle = statistics.median(found)
        kept = "yes" if middle <= bound_s else "NO"
        rows.append(f"| {what} | {middle:.3f} | {min(found):.3f} to {max(found):.3f} | {bound_s:g} | {kept} |")
        print(rows[-1], flush=True)
    built = image()
    where = (
        f"{os.cpu_count()} CPUs, host Linux {platform.release()}, Python {platform.python_version()};"
        f" guest accelerator {choose('auto', built, lambda _: None).name}; damoos {__version__}, {date.today()}"
    )
    TABLE.write_text(
        "# What damoos itself costs\n\nMade by `make bench`; seconds of wall time, median of several runs."
        f" The workload is `true`.\n\nMachine: {where}.\n\n"
        "| what | median s | range | bound | kept |\n| --- | --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
