"""The report of the kernel's own objects: memory by kind over time, lives, and accesses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from damoos.recordings.kernel_objects import KernelObjects, Lives
from damoos.report.charts import Axis, Bars, Chart, Panel, Stack
from damoos.report.charts.style import nth
from damoos.report.recording.charts import title
from damoos.units import MIB, show_bytes, show_count

# Kinds and caches that a chart and a terminal have room for.
_SHOWN = 10


def objects(found: KernelObjects) -> Chart:
    """How much memory the kernel's objects had, how long they lived, and what was accessed (Figure 2 of KLOCs)."""
    begun_s, ended_s = found.time_s[0], found.time_s[-1]
    edges = np.append(found.time_s, ended_s + max(1e-3, (ended_s - begun_s) / len(found.time_s))) - begun_s
    kinds = list(found.memory_bytes)
    sizes = np.array([found.memory_bytes[kind] for kind in kinds]).T / MIB
    stack = Stack("memory", edges, kinds, sizes, [nth(at)[0] for at in range(len(kinds))])
    panels = [
        Panel(
            Axis("time since the recording began [s]", "time_s"),
            Axis("memory of the machine [MiB]", "size_mib", from_zero=True),
            [stack],
            "memory",
        )
    ]
    shown = found.lives[:_SHOWN]
    if shown:
        axis = Axis("objects that were allocated and freed", "kind", [one.kind for one in shown])
        bars = Bars("mean life", [{"mean": one.mean_s * 1e3} for one in shown])
        panels.append(Panel(axis, Axis("mean life [ms]", "life_ms", is_log=True), [bars], "lives"))
    total = sum(found.accesses.values())
    accessed = {kind: count / total for kind, count in found.accesses.items() if count}
    if accessed:
        axis = Axis("what was accessed", "kind", list(accessed))
        bars = Bars("accesses", [{"mean": share} for share in accessed.values()])
        panels.append(
            Panel(axis, Axis("share of accesses", "share", is_share=True, from_zero=True), [bars], "accesses")
        )
    return Chart(title=title(found), panels=panels, text=_text(found, accessed), numbers=_numbers(found))


def _text(found: KernelObjects, accessed: Mapping[str, float]) -> list[str]:
    lines = ["memory of the machine, mean over time (and the most):"]
    for kind, sizes in found.memory_bytes.items():
        lines.append(f"  {kind:<24} {show_bytes(float(np.mean(sizes))):>10} {show_bytes(max(sizes)):>10}")
    lines.append("slab caches with the most bytes in use, mean over time:")
    lines += [f"  {name:<24} {show_bytes(size):>10}" for name, size in list(found.cache_bytes.items())[:_SHOWN]]
    part = "" if found.share == 1 else f" (of the page cache one page of {1 / found.share:.0f} was watched)"
    lines.append(
        f"objects that were allocated and freed{part}: bytes, number, mean life, median life, 90 % lived at most"
    )
    lines += [_life(one) for one in found.lives[:_SHOWN]] or ["  none"]
    names = [one.kind.partition("slab ")[2] for one in found.lives[:_SHOWN]]
    lines += [f"  {name} is one cache with {_others(name, found)}" for name in names if name in found.merged]
    if found.lost:
        lines.append(f"the kernel had no room for {show_count(found.lost, 'object')}, whose lives are left out")
    if accessed:
        lines.append("accesses, by what the page was:")
        lines += [f"  {kind:<24} {share:>10.1%}" for kind, share in accessed.items()]
    else:
        lines.append("accesses are not counted on this machine (count_accesses in its file)")
    return lines


def _others(name: str, found: KernelObjects) -> str:
    return ", ".join(other for other in found.merged[name] if other != name)


def _life(one: Lives) -> str:
    lived = " ".join(f"{_time(seconds):>9}" for seconds in (one.mean_s, one.percentile_s(50), one.percentile_s(90)))
    return f"  {one.kind:<24} {show_bytes(one.sz_bytes):>10} {one.count:>9.0f} {lived}"


def _time(seconds: float) -> str:
    """With three digits, in the unit that suits: ``36.2 ms``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _numbers(found: KernelObjects) -> dict[str, Any]:
    return {
        "share": found.share,
        "lost": found.lost,
        "memory_mean_bytes": {kind: float(np.mean(sizes)) for kind, sizes in found.memory_bytes.items()},
        "cache_mean_bytes": dict(found.cache_bytes),
        "lives": found.lives_df.to_dict("records"),
        "accesses": dict(found.accesses),
    }
