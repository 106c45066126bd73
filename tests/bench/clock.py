"""What the kernel's work takes on emulated CPUs of several speeds, beside hardware: `make bench-clock`.

Rewrites the table of docs/machines.md. Times are the guest's own, so what else this host does changes nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from damoos.common.compiled import PROGRAM_FLAGS, compiled
from damoos.damon.attrs import Attrs
from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context
from damoos.machines.base import Conditions, Swap
from damoos.machines.clock import KEEPS_STEP, Clock
from damoos.machines.guest import GuestMachine, GuestSession
from damoos.machines.guest.kernels import DEBIAN
from damoos.workloads.base import PatternWorkload, Tuning

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/machines.md"
BEGIN, END = "<!-- made by make bench-clock -->\n", "<!-- end of it -->\n"
CLOCKS = (KEEPS_STEP, *(Clock(mips, "skip") for mips in (1000, 2000, 4000, 8000)))
MEM_BYTES = 1 << 30
CONDITIONS = Conditions(swap=Swap(kind="zram", size="256M"), thp="never")
NR_PAGES, NR_CALLS, NR_SWITCHES = 16_384, 200_000, 20_000
NR_REGIONS = 1_000
RUN: dict[str, Any] = {"env": {}, "limit_s": 600, "sample_s": 5, "drop_caches": False}


@dataclass(frozen=True)
class Row:
    """One kind of work: its name, how it is told, and what others have measured on hardware."""

    key: str
    what: str
    show: Callable[[float], str]
    hardware: str


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us"


ROWS = (
    Row("fault_s", "page fault, anonymous", _us, "0.5 to 1 us [1]"),
    Row("call_s", "system call (`getppid`)", _us, "0.05 to 0.4 us [2]"),
    Row("switch_s", "context switch, two processes and a pipe", _us, "1 to 3.5 us [3]"),
    Row("pageout_s", "page out a page to zram (lz4)", _us, ""),
    Row("in_s", "fault it back", _us, ""),
    Row("kdamond", f"kdamond, {NR_REGIONS:,} regions, 5 and 100 ms", lambda share: f"{share:.2%}", "1.4 % [4]"),
)
SOURCES = """\
[1] Core i7 of the 11th generation, Linux 6.6: the least is 0.58 us, the median 1.01 us
(ddumbying.vercel.app/experiments/pagefault-latency). [2] 15 hosts with and without mitigations, 2019
(gms.tf/on-the-costs-of-syscalls.html). [3] lmbench and a pipe on a server (besthub.dev, "How Much CPU Time Does a Linux
Context Switch Really Cost?"). [4] The DAOS paper (HPDC'22), i3.metal, all of a program's memory."""


def measured(session: GuestSession) -> dict[str, float]:
    """Seconds of each kind of work, and the part of the CPU that the kdamond takes."""
    program = session.copy(compiled(HERE / "clock.c", PROGRAM_FLAGS, session.facts["arch"]))
    argv = [program, *map(str, (NR_PAGES, NR_CALLS, NR_SWITCHES))]
    found: dict[str, float] = json.loads(session.agent.call("run", argv=argv, context=None, **RUN)["stdout"])
    swap = session.agent.call("swap_cost")
    found |= {"pageout_s": swap["pageout_us"] / 1e6, "in_s": swap["fault_us"] / 1e6}
    workload = PatternWorkload("large", HERE / "clock.pattern", 512, 1, 0, Tuning(), paced=True)
    attrs = Attrs(min_nr_regions=NR_REGIONS, max_nr_regions=NR_REGIONS + 1)
    words = workload.spec(session.copy, arch=session.facts["arch"])["argv"]
    run = session.agent.call("run", argv=words, context=context_to_json(Context((), "vaddr", attrs)), **RUN)
    return found | {"kdamond": run["kdamond_cpu_s"] / run["runtime_s"]}


def main() -> int:
    kernel = sys.argv[1] if len(sys.argv) > 1 else DEBIAN
    columns = []
    for clock in CLOCKS:
        machine = GuestMachine("clock", "", 1, MEM_BYTES, CONDITIONS, accel="tcg", kernel=kernel, clock=clock)
        session = machine.open(print)
        try:
            session.agent.call("prepare", **CONDITIONS.wanted())
            columns.append(measured(session))
            release = session.facts["kernel"]
        finally:
            session.close()
        print(f"{clock.mips} MIPS: {columns[-1]}", flush=True)
    head = [f"{clock.mips:,} MIPS" + (" (`wait`)" if clock == KEEPS_STEP else "") for clock in CLOCKS]
    lines = ["| | " + " | ".join(head) + " | hardware |", "| --- " * (len(CLOCKS) + 2) + "|"]
    for row in ROWS:
        cells = [row.show(column[row.key]) for column in columns]
        lines.append(f"| {row.what} | " + " | ".join([*cells, row.hardware]) + " |")
    about = (
        f"Measured on {date.today()} with Linux {release}, emulated, 1 vCPU; the kdamond's share varies, as\nDAMON"
        f" splits regions at random. Hardware: {SOURCES}\n"
    )
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n".join(lines) + "\n\n" + about + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
