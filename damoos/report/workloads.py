"""A workload explained to people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from damoos.units import show_bytes
from damoos.workloads.catalog import Container, Input, Real, WorkloadFile


def explanation(name: str, path: Path, file: WorkloadFile) -> Iterator[str]:
    """Lines about one workload."""
    yield f"{name}: {file.description}"
    yield f"  file      {path}"
    tune = file.tune
    yield f"  tuned     min_age={tune.min_age}, by hand {tune.manual_min_age}; one run takes about {tune.unit_work}"
    for real in file.real:
        yield from _real(real)
    for container in file.container:
        yield from _container(container)
    if file.pattern:
        yield f"  pattern   {file.pattern.file}: accesses made by mempat; reports ops, ops_per_s"
    if file.model:
        yield (
            f"  model     {file.model.file}, used where the program is not: 1/{file.model.memory_scale} of the"
            f" memory; reports ops, ops_per_s"
        )
    if file.published:
        paper = file.published
        yield (
            f"  published {paper.runtime_s:g} s and {show_bytes(paper.rss_kib * 1024)} without a scheme,"
            f" {paper.prcl_runtime_s:g} s and {show_bytes(paper.prcl_rss_kib * 1024)} under prcl ({paper.source})"
        )


def _real(real: Real) -> Iterator[str]:
    yield f"  runs      {shlex.join(real.command)}"
    yield f"            where there is {real.needs}{': ' + real.where if real.where else ''}"
    if real.process:
        yield f"            process {real.process}"
    if real.user:
        network = ", in a network of its own" if real.network == "own" else ""
        yield f"            user {real.user}{network}"
    if real.inputs:
        usual = real.input or "one that fits the machine"
        inputs = ", ".join(map(_input, real.inputs.items()))
        yield f"            inputs {inputs}; {usual} unless NAME:INPUT says another"
    if real.load:
        yield f"  load      {shlex.join(real.load.command)}"
    for name, metric in real.metrics.items():
        yield f"  reports   {name} ({metric.better} is better)"


def _container(container: Container) -> Iterator[str]:
    runs = shlex.join(container.command) if container.command else "the program above"
    yield f"  {container.role:<11} {container.name}: {runs}"
    limits = container.memory_limits.items()
    words = [f"{name} {show_bytes(sz_bytes)}" for name, sz_bytes in limits]
    words += [f"policy {container.policy}"] if container.policy else []
    if words:
        yield f"            {', '.join(words)}"


def _input(item: tuple[str, Input]) -> str:
    name, one = item
    return f"{name} ({one.memory}, {one.work} emulated)" if one.has_size else name
