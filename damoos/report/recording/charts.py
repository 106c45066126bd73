"""The reports of a recording: `heatmap`, `wss`, `regions`, `recency` and `idle_time`, each a chart."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from damoos.common.terminal import printable
from damoos.recordings.aggregations import Moments
from damoos.recordings.damage import names_damage
from damoos.recordings.heatmap import heatmap as heat_of
from damoos.recordings.idle import idle_time as idle_time_of
from damoos.recordings.idle import recency as recency_of
from damoos.recordings.kernel_objects import KernelObjects
from damoos.recordings.recording import Floats, Recording
from damoos.recordings.region_count import region_count
from damoos.recordings.working_set import working_set
from damoos.report.charts import Axis, Bars, Cells, Chart, Layer, Level, Panel, Stack, Steps
from damoos.report.charts.style import GREY, ORANGE, nth
from damoos.units import MIB, show_bytes

_TIME = Axis("time since the recording began [s]", "time_s")


def title(recording: Recording | KernelObjects) -> str:
    """Workload (and whether it is a model), machine, kernel, and how it ran, as far as the recording says."""
    known = {key: printable(value) for key, value in recording.about.items() if value}
    words = known.get("workload", "a recording of unknown origin")
    if known.get("variant") == "model":
        words += " (model)"
    if "machine" in known:
        words += f" on {known['machine']}"
    ran = [f"Linux {known['kernel']}"] if "kernel" in known else []
    ran += [{"tcg": "tcg emulation"}.get(known["accel"], known["accel"])] if "accel" in known else []
    return words + (": " + ", ".join(ran) if ran else "")


@names_damage
def heatmap(
    recording: Recording,
    target: int | None = None,
    address: tuple[int, int] | None = None,
    nr_times: int = 400,
    nr_addresses: int = 256,
) -> Chart:
    """When which addresses were accessed how often; see `damoos.recordings.heatmap.heatmap`."""
    heat = heat_of(recording, target=target, address=address, nr_times=nr_times, nr_addresses=nr_addresses)
    where, frequency = heat.subspace, heat.frequency
    share = heat.accessed_byte_s.sum() / heat.seen_byte_s.sum()
    subspace = f"target {where.target}, {where.low:#x} to {where.high:#x} ({show_bytes(where.sz_bytes)})"
    words = "share of samples with an access" + ("; grey: no memory" if np.isnan(frequency).any() else "")
    cells = Cells(words, heat.time_s, (heat.address - where.low) / MIB, frequency, is_share=True)
    return Chart(
        title=title(recording),
        panels=[Panel(_TIME, Axis(f"address - {where.low:#x} [MiB]", "address_mib"), [cells])],
        text=[subspace, f"accessed in {share:.1%} of the samples on average, at most in {np.nanmax(frequency):.1%}"],
        numbers={
            "target": where.target,
            "low_bytes": where.low,
            "high_bytes": where.high,
            "frequency_mean": float(share),
            "time_s": heat.time_s.tolist(),
            "address_bytes": heat.address.tolist(),
            "frequency": [
                [None if np.isnan(value) else round(value, 6) for value in row] for row in frequency.tolist()
            ],
        },
        own_table=heat.frame(),
    )


@names_damage
def wss(recording: Recording, min_accesses: int = 1) -> Chart:
    """The working set over time."""
    series = working_set(recording, min_accesses)
    shares = series.percentiles
    layers = [
        Steps("working set", _edges(series.moments), series.size_bytes / MIB, is_filled=True),
        Level(f"mean: {series.mean_bytes / MIB:.4g}", series.mean_bytes / MIB, ORANGE, "dash"),
        Level(f"median: {shares[50] / MIB:.4g}", shares[50] / MIB, GREY, "dot"),
    ]
    return Chart(
        title=title(recording),
        panels=[Panel(_TIME, Axis("working set [MiB]", "working_set_mib", from_zero=True), layers)],
        text=[
            f"working set: regions with nr_accesses of {min_accesses} or more",
            *(f"{percent:>4} % of the time at most {show_bytes(size)}" for percent, size in shares.items()),
            f"mean over time {show_bytes(series.mean_bytes)}",
        ],
        numbers={
            "min_accesses": min_accesses,
            "mean_bytes": series.mean_bytes,
            **{f"p{percent}_bytes": size for percent, size in shares.items()},
        },
        own_table=series.frame(),
    )


@names_damage
def regions(recording: Recording) -> Chart:
    """The number of regions over time, and its bound."""
    series = region_count(recording)
    shares = series.percentiles
    bound = "its bound is not in the file" if series.bounds is None else "asked for {} to {}".format(*series.bounds)
    layers: list[Layer] = [Steps("regions", _edges(series.moments), series.nr_regions, is_filled=True)]
    if series.bounds is not None:
        layers.append(Level(f"max_nr_regions: {series.bounds[1]}", series.bounds[1], ORANGE, "dash"))
    return Chart(
        title=title(recording),
        panels=[Panel(_TIME, Axis("regions of all targets", "nr_regions", from_zero=True), layers)],
        text=[
            f"regions of all targets together: {bound}",
            *(f"{percent:>4} % of the time at most {count:.0f}" for percent, count in shares.items()),
            f"mean over time {series.mean:.1f}",
        ],
        numbers={
            "max_nr_regions": None if series.bounds is None else series.bounds[1],
            "mean": series.mean,
            **{f"p{percent}": int(count) for percent, count in shares.items()},
        },
        own_table=series.frame(),
    )


@names_damage
def recency(recording: Recording) -> Chart:
    """Memory by the time since its last access, over time."""
    series = recency_of(recording)
    means = series.mean_bytes
    stack = Stack("last access", _edges(series.moments), series.names, series.size_bytes / MIB)
    return Chart(
        title=title(recording),
        panels=[Panel(_TIME, Axis("memory by time since last access [MiB]", "size_mib", from_zero=True), [stack])],
        text=["mean over time, by time since the last access:", *_sizes(means)],
        numbers={"mean_bytes": means},
        own_table=series.frame(),
    )


@names_damage
def idle_time(recording: Recording) -> Chart:
    """Memory by how long it has been idle."""
    idle_times = idle_time_of(recording)
    edges = idle_times.edges_s.tolist()
    classes = ["accessed", *(f"{low:g} to {high:g} s" for low, high in pairwise(edges))]
    means, ends = ([first, *rest.tolist()] for first, rest in _columns(idle_times))
    bars = [
        Bars(name, [{"mean": size / MIB} for size in sizes], colour=nth(at)[0])
        for at, (name, sizes) in enumerate({"mean over time": means, "at the recording's end": ends}.items())
    ]
    return Chart(
        title=title(recording),
        panels=[Panel(Axis("time without an access", "idle", classes), Axis("memory [MiB]", "size_mib"), bars)],
        text=[
            *(f"{percent:>4} % of the memory idle for at most {idle:g} s" for percent, idle in _rounded(idle_times)),
            "memory by idle time, mean over time:",
            *_sizes(dict(zip(classes, means, strict=True))),
        ],
        numbers={
            **{f"p{percent}_idle_s": idle for percent, idle in idle_times.percentiles_s.items()},
            "classes": [
                {
                    "idle_from_s": row.idle_from_s,
                    "idle_to_s": row.idle_to_s,
                    "mean_bytes": row.mean_bytes,
                    "end_bytes": row.end_bytes,
                }
                for row in idle_times.frame().itertuples()
            ],
        },
        own_table=idle_times.frame(),
    )


def _columns(found: Any) -> list[tuple[float, Floats]]:
    return [(found.accessed_mean_bytes, found.mean_bytes), (found.accessed_end_bytes, found.end_bytes)]


def _rounded(found: Any) -> list[tuple[float, float]]:
    return [(percent, round(idle, 6)) for percent, idle in found.percentiles_s.items()]


def _sizes(named: dict[str, float]) -> list[str]:
    width = max(map(len, named))
    return [f"  {name:<{width}}  {show_bytes(size):>10}" for name, size in named.items()]


def _edges(found: Moments) -> Floats:
    return np.append(found.start_s, found.end_s[-1])
