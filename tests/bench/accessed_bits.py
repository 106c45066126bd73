"""Three ways to emulate, on a known hot set: why guests run with pti=on. Prints the table of docs/decisions/0001."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from damoos.machines.catalog import machine
from damoos.machines.guest import accel
from damoos.workloads.catalog import workload

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.conftest import prcl

FLUSHER = "#include <time.h>\nint main(void) { struct timespec t = {0, 2000000}; for (;;) nanosleep(&t, 0); }\n"
HOT_MIB = 60


def flusher(place: Path) -> Path:
    """A process that sleeps 2 ms at a time, so that the guest changes address spaces all the time."""
    (place / "flush.c").write_text(FLUSHER)
    subprocess.run(["cc", "-O2", "-static", "-o", place / "flush", place / "flush.c"], check=True)
    return place / "flush"


def measure(label: str, cmdline: str, program: Path | None) -> None:
    accel.TCG = dataclasses.replace(accel.TCG, cmdline=cmdline)
    place = machine("guest")
    session = place.open()
    try:
        session.agent.call("prepare", **place.setting)
        if program:
            there = session.copy(program)
            session.connection.run(f"{there} >/dev/null 2>&1 &", hide=True, in_stream=False)
        argv = workload("synthetic/hot-cold", lambda name: None).argv(session.copy)
        spec = {"argv": argv, "env": {}, "limit_s": 300, "sample_s": 0.5, "drop_caches": True}
        row = [label]
        for context in (None, prcl("1s")):
            start = time.monotonic()
            raw = session.agent.call("run", **spec, context=context)
            rss = raw["samples"][-1][raw["sample_columns"].index("rss_bytes")] / (1 << 20)
            row += [f"{raw['runtime_s']:.2f}", f"{time.monotonic() - start:.1f}", f"{rss:.1f}"]
        print("| " + " | ".join(row) + " |", flush=True)
    finally:
        session.close()


def main() -> None:
    print(f"| emulation | baseline s | wall s | RSS MiB | prcl 1s: s | wall s | RSS MiB at its end (hot: {HOT_MIB}) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        measure("as it is", "", None)
        measure("flushing process, 2 ms", "", flusher(Path(name)))
        measure("pti=on", "pti=on", None)


if __name__ == "__main__":
    main()
