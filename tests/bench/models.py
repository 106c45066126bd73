"""The pattern files of the models, made from what has been published of their programs.

    .venv/bin/python -m tests.bench.models

A model has the memory that its program accesses all the time (hot), parts that it comes back to (warm), and parts that
it has done with once they are loaded (cold). Their sizes follow from four published numbers: runtime and RSS without a
scheme, and under v8's prcl (at most 5 % of accesses for 500 ms). What prcl saves is the cold memory from the end of the
loading on, and the warm memory for most of the time between two walks over it; what it costs are the page faults of
these walks. `damoos workloads check-models` measures how far this holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from damoos.workloads import catalog

PAGE = 4096
# Of a page fault from zram, at the default clock of guests (docs/machines.md).
FAULT_S = 3.2e-6
# A walk over warm memory: long enough to be seen in some of DAMON's aggregations of 100 ms.
WALK_S = 0.3
# From the beginning of a walk until prcl has paged out its memory: the age comes to it, and what DAMON takes to see it.
OUT_AFTER_S = WALK_S + 0.5 + 0.15
# What mempat needs for itself, and prcl takes from it.
OWN_PAGES = 165
# Accesses of a millisecond for each hot page: each 8 ms, for which mempat sleeps, all of it is accessed. So DAMON sees
# it alike everywhere, and keeps few regions.
RATE = 1.1 / 8
# As loading and walks take an access for each page.
LEAST_RATE = 100
# What a run lasts longer than its phases: accesses and wake-ups.
OVERHEAD = 1.025
# Time until all is loaded, as a part of the run.
LOADING = 0.08
# What monitoring alone costs on average, in the same evaluation; the rest of a slowdown is page faults.
MONITORING = 0.0045
# Between two walks over warm memory, where saving and slowdown do not say it: below the min_age at which the published
# scores of raytrace, blackscholes and dedup begin to keep their limit.
PERIOD_S = 2.0
# Of what is saved, the part that may be warm memory: as these scores fall slowly with min_age, most of it is cold.
WARM_PART = 0.35
SHORTEST_S = 2.5
# bodytrack has too little memory for its slowdown to be page faults, and its scores fall to zero at this min_age. The
# others are slowed down though nothing is saved: what was paged out is soon back.
PERIODS_S = {"bodytrack": 12.0, "canneal": 1.1, "radix": 1.1, "water_spatial": 1.65}

# Programs whose phases go over the same data again and again; and matrices that shrink, a block at a time.
SWEEPING = ("bodytrack", "barnes", "canneal", "fft", "ocean_cp", "ocean_ncp", "radix", "water_spatial")
SHRINKING = ("lu_cb", "lu_ncb")
BLOCKS = 6


@dataclass(frozen=True)
class Sizes:
    """Pages of a program, and how many seconds lie between two walks over the warm ones."""

    hot: float
    warm: float
    cold: float
    period_s: float


def sizes(name: str, published: catalog.Published, scale: int) -> Sizes:
    """What follows from the published numbers for a model with a part of the memory."""
    pages = published.rss_kib * 1024 / PAGE - OWN_PAGES * scale
    saved = max(0.0, (published.rss_kib - published.prcl_rss_kib) * 1024 / PAGE - OWN_PAGES * scale)
    slowdown = max(0.0, published.prcl_runtime_s / published.runtime_s - 1 - MONITORING)
    if name in SWEEPING:
        period_s = PERIODS_S.get(name) or max(SHORTEST_S, OUT_AFTER_S + saved * FAULT_S / slowdown)
        warm = saved / (1 - OUT_AFTER_S / period_s) or slowdown * period_s / FAULT_S
        return Sizes(pages - warm, warm, 0, period_s)
    out = 1 - OUT_AFTER_S / PERIOD_S
    warm = min(slowdown * PERIOD_S / FAULT_S, WARM_PART * saved / out)
    unused = 1 - LOADING - OUT_AFTER_S / published.runtime_s
    if name in SHRINKING:  # each block is unused from the end of its step on
        unused *= (BLOCKS + 1) / 2 / BLOCKS
    cold = (saved - warm * out) / unused
    return Sizes(pages - warm - cold, warm, cold, PERIOD_S)


def pattern(title: str, of: Sizes, runtime_s: float, scale: int, blocks: int) -> tuple[str, int, int]:
    """A pattern file, how often its phases are gone through, and how many of them once."""

    def kib(pages: float) -> str:
        return f"{max(1, round(pages / scale)) * PAGE // 1024}K"

    names = ["cold"] if blocks == 1 else [f"block{nth}" for nth in range(1, blocks + 1)]
    cold = [name for name in names if of.cold > 0]
    warm = ["warm"] if of.warm > 0 else []
    # Hot memory lies between the others: DAMON merges cold memory with warm that is quiet beside it.
    parts = {**dict.fromkeys(warm, of.warm), "hot": of.hot, **dict.fromkeys(cold, of.cold / blocks)}
    lines = [title, "#regions", *(f"{name}, {kib(pages)}" for name, pages in parts.items())]
    whole = sum(parts.values())
    load_ms = round(1000 * LOADING * runtime_s / OVERHEAD)
    lines += ["", "load", str(load_ms)]
    lines += [f"{name}, 0, 4096, {max(1, round(100 * pages / whole))}" for name, pages in parts.items()]
    walk_ms = round(1000 * WALK_S) if warm else 0
    left_ms = 1000 * runtime_s / OVERHEAD - load_ms
    rounds = max(1, round(left_ms / (1000 * of.period_s)))
    work_ms = round(left_ms / rounds) - walk_ms
    walk = ["", "walk", str(walk_ms), "hot, 0, 4096, 50, rw", "warm, 0, 4096, 50, rw"] if warm else []
    if blocks == 1:
        lines += ["", "work", str(work_ms), "hot, 0, 4096, 100, rw", *walk]
        return "\n".join(lines) + "\n", rounds, 1
    each = max(1, round(rounds / blocks))
    for step in range(1, blocks + 1):
        used = [f"{name}, 0, 4096, {max(1, 20 // (blocks - step + 1))}, rw" for name in names[step - 1 :]]
        work_ms = round(left_ms / blocks / each) - walk_ms
        for _ in range(each):
            lines += ["", f"step{step}", str(work_ms), "hot, 0, 4096, 80, rw", *used, *walk]
    return "\n".join(lines) + "\n", 1, 0


def write(toml: Path, file: catalog.WorkloadFile) -> Sizes:
    """Write the pattern file of one model, and its keys in the workload's file."""
    assert file.model
    assert file.published
    program, scale = toml.stem, file.model.memory_scale
    found = sizes(program, file.published, scale)
    title = f"# {toml.parent.name}/{program}, 1/{scale} of its memory; made by tests/bench/models.py."
    blocks = BLOCKS if program in SHRINKING else 1
    text, repeats, once = pattern(title, found, file.published.runtime_s, scale, blocks)
    (toml.parent / file.model.file).write_text(text)
    rate = max(LEAST_RATE, round(RATE * found.hot / scale))
    keys = {"rate": rate, "repeats": repeats, "once": once}
    head, model = toml.read_text().split("[model]\n")
    for key, value in keys.items():
        model = re.sub(rf"^{key} = \d+$", f"{key} = {value}", model, flags=re.MULTILINE)
    toml.write_text(f"{head}[model]\n{model}")
    return found


def main() -> None:
    """All models."""
    for name in catalog.names():
        path, file = catalog.find(name)
        if file.model and file.published:
            print(name, write(path, file))


if __name__ == "__main__":
    main()
