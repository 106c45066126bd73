"""What looking at a process costs, by the memory that it has: `make bench`. Needs as much free memory as the largest.

A process of its own maps memory in pages of 4 KiB and touches all of it; a meter samples it as it does in a run.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time

from damoos.agent import proc
from damoos.agent.meter import Meter
from damoos.dispatch.run import SAMPLE_S

GIB = 1 << 30
SIZES = (1, 8, 16)
FOR_S = 60.0
MEMORY = """
import mmap, sys, time
memory = mmap.mmap(-1, int(sys.argv[1]), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
memory[::4096] = bytes(len(memory) // 4096)
print("ready", flush=True)
time.sleep(3600)
"""


def main() -> None:
    """A line for each size."""
    print(f"Linux {platform.release()}, {FOR_S:g} s at a sample each {SAMPLE_S:g} s")
    print("| memory | one walk through its page tables | walks | CPU of all sampling | share of one CPU |")
    print("| --- | --- | --- | --- | --- |")
    for size in SIZES:
        argv = [sys.executable, "-S", "-c", MEMORY, str(size * GIB)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout
                process.stdout.readline()
                print(row(size, process.pid), flush=True)
            finally:
                process.kill()


def row(size: int, pid: int) -> str:
    """One size's line."""
    begun_s = time.thread_time()
    proc.mapped_bytes(pid)
    walk_s = time.thread_time() - begun_s
    walks, walk = [], proc.mapped_bytes
    proc.mapped_bytes = lambda pid: walks.append(pid) or walk(pid)  # type: ignore[func-returns-value]
    try:
        meter = Meter(None, None)
        while meter.for_s < FOR_S:
            meter.sample([pid])
            time.sleep(SAMPLE_S)
    finally:
        proc.mapped_bytes = walk
    cost_s = meter.read()["sampling_cpu_s"]
    return f"| {size} GiB | {walk_s * 1000:.1f} ms | {len(walks)} | {cost_s * 1000:.0f} ms | {cost_s / FOR_S:.2%} |"


if __name__ == "__main__":
    main()
