"""The commands that record a run, and those that say from one recording what reclaim would bring."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damoos.cli import complete, options, settings
from damoos.cli.common import RESULTS, Format, Results, check_format, progress, size_bytes, time_us
from damoos.errors import ConfigError
from damoos.units import show_count
from damoos.words import MONITORING, OUTPUT, SCORE, WHAT

if TYPE_CHECKING:
    from damoos.recordings.recording import Recording

app = typer.Typer()

_Recording = Annotated[
    str | None,
    typer.Argument(
        metavar="RECORDING",
        help="File, folder, or name of a folder in the results.",
        autocompletion=complete.recordings,
    ),
]
_Pid = Annotated[
    int | None, typer.Option(help="Watch a running process instead; it is not restarted.", rich_help_panel=WHAT)
]
_For = Annotated[str, typer.Option("--for", help="--pid: how long to watch it.", rich_help_panel=WHAT)]


@app.command()
def record(
    named: options.NamedWorkload = None,
    workload: options.Workload = None,
    command: options.CommandLine = None,
    pid: _Pid = None,
    duration: _For = "30s",
    machine: options.Machine = None,
    kernel: options.Kernel = None,
    config: Annotated[
        str,
        typer.Option(
            help="rec (the process tree, vaddr) or prec (all memory, paddr).",
            autocompletion=complete.choices("rec", "prec"),
            rich_help_panel=MONITORING,
        ),
    ] = "rec",
    sample: Annotated[str, typer.Option(help="Sampling interval.", rich_help_panel=MONITORING)] = "5ms",
    aggregation: Annotated[
        str, typer.Option(help="Aggregation interval: one snapshot each.", rich_help_panel=MONITORING)
    ] = "100ms",
    update: Annotated[
        str, typer.Option(help="Interval between two looks for new memory.", rich_help_panel=MONITORING)
    ] = "1s",
    min_regions: Annotated[int, typer.Option(help="Least number of regions.", rich_help_panel=MONITORING)] = 10,
    max_regions: Annotated[int, typer.Option(help="Largest number of regions.", rich_help_panel=MONITORING)] = 1000,
    auto_intervals: Annotated[
        bool,
        typer.Option(
            "--auto-intervals",
            help="Let the kernel tune the intervals (Linux 6.15 and later).",
            rich_help_panel=MONITORING,
        ),
    ] = False,
    kernel_objects: Annotated[
        bool,
        typer.Option(
            "--kernel-objects",
            help="Watch the kernel's own objects as well: memory, lives, accesses.",
            rich_help_panel=MONITORING,
        ),
    ] = False,
    size: Annotated[
        str,
        typer.Option(
            help="Largest size of the recording; the run continues after it is reached.", rich_help_panel=OUTPUT
        ),
    ] = "64M",
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Record what DAMON sees while a workload runs; 'damoos report' shows it, and so does 'damo report'.

    Example: damoos record synthetic/stairs

    Example: damoos record redis/snapshots --machine tiers-1-4 --kernel-objects
    """
    from damoos import api
    from damoos.damon.attrs import Attrs, IntervalsGoal

    check_format(form)
    workload = options.one_workload(named, workload)
    goal = IntervalsGoal() if auto_intervals else None
    attrs = Attrs(
        time_us(sample, "--sample"), time_us(aggregation, "--aggregation"), time_us(update, "--update"), min_regions,
        max_regions, goal,
    )  # fmt: skip
    recording = api.record(
        workload, command=command, pid=pid, machine=_where(machine, pid), kernel=kernel, config=config, attrs=attrs,
        duration_s=time_us(duration, "--for") / 1e6, sz_bytes=size_bytes(size, "--size"),
        kernel_objects=kernel_objects, results=results, say=progress,
    )  # fmt: skip
    assert recording.path
    folder, (begun, ended) = recording.path.parent, recording.span_s
    facts = {
        "recording": folder.name,
        "file": str(recording.path),
        "snapshots": recording.nr_snapshots,
        "regions_max": int(recording.nr_regions.max()),
        "seconds": ended - begun,
        "source": recording.about["source"],
    }
    if form == "json":
        print(json.dumps(facts))
        return
    print(
        f"{show_count(facts['snapshots'], 'snapshot')} in {facts['seconds']:.1f} s,"
        f" up to {show_count(facts['regions_max'], 'region')}: {folder}"
    )
    print(f"next: damoos report {'objects' if kernel_objects else 'heatmap'} {folder.name}")


@app.command()
def predict(
    name: _Recording = None,
    workload: options.Workload = None,
    command: options.CommandLine = None,
    machine: options.Machine = None,
    kernel: options.Kernel = None,
    scorer: Annotated[
        str, typer.Option("--score", help="daos, weighted or sla, of runtime and RSS.", autocompletion=complete.scorers)
    ] = "daos",
    policy: Annotated[
        str | None,
        typer.Option(
            help="gswap, or with values gswap:interval=2s: what its rule would have done, in place of that.",
            autocompletion=complete.choices("gswap"),
        ),
    ] = None,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Predict from one recording, a new or an old one, what proactive reclaim would bring for every min_age.

    Example: damoos predict --workload parsec3/raytrace

    Example: damoos predict RECORDING --policy gswap:interval=2s:grace=2s:window=10s:min_age=2s
    """
    from damoos import api

    check_format(form)
    if policy is not None:
        _what_if(policy, lambda: _recording(name, workload, command, None, "30s", machine, kernel, results), form)
        return
    recording = _recording(name, workload, command, None, "30s", machine, kernel, results)
    predicted = api.predict(recording, score=scorer)
    if form == "json":
        print(
            json.dumps({"about": _words(recording), "forecast": [asdict(row) for row in predicted.forecasts]}, indent=2)
        )
        return
    print(repr(predicted))


def _what_if(words: str, recorded: Callable[[], Recording], form: str) -> None:
    """What a rule would have done on a recording, for several of its percentiles."""
    from damoos.policies import catalog
    from damoos.policies.gswap import GswapPolicy
    from damoos.prediction.what_if import percentiles
    from damoos.report.recording.prediction import what_if

    policy = catalog.parse(words)
    if not isinstance(policy, GswapPolicy):
        raise ConfigError(f"--policy {words}: only gswap can be replayed on a recording")
    recording = recorded()
    found = percentiles(recording, policy)
    if form == "json":
        rows = [{"policy": one.policy, "saved": one.saved, "promoted_mean": one.promoted_mean,
                 "promoted_p98": one.promoted_p98, "threshold_s": _or_none(one.threshold_s[-1])}
                for one in found]  # fmt: skip
        print(json.dumps({"about": _words(recording), "what_if": rows}, indent=2))
        return
    print(what_if(recording, found))


def _or_none(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


@app.command()
def rightsize(
    name: _Recording = None,
    workload: options.Workload = None,
    command: options.CommandLine = None,
    pid: _Pid = None,
    duration: _For = "30s",
    machine: options.Machine = None,
    kernel: options.Kernel = None,
    slowdown: Annotated[str, typer.Option(help="Allowed slowdown.", rich_help_panel=SCORE)] = "5%",
    repeats: Annotated[
        int,
        typer.Option(
            help="--workload: rounds that prove the suggestion, 3 or more; 0 for none.", rich_help_panel=SCORE
        ),
    ] = 3,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Estimate from one recording how much memory a workload needs: memory against slowdown, and a limit.

    With --workload, runs under the suggested limit prove it.

    Example: damoos rightsize --workload redis/idle --slowdown 3%
    """
    from damoos.prediction.forecast import forecast, rightsize
    from damoos.report.recording.prediction import heading
    from damoos.units import parse_percent, show_bytes

    check_format(form)
    allowed = float(parse_percent(slowdown)) / 100
    recording = _recording(name, workload, command, pid, duration, machine, kernel, results)
    limit = rightsize(recording, allowed)
    rows = forecast(recording, "weighted")
    proof = None
    if workload and repeats and limit.scheme:
        from damoos.api.comparisons import prove_size

        assert recording.path
        progress(
            f"proving it: {repeats} rounds without a limit and under {show_bytes(limit.limit_bytes)} and the scheme"
        )
        more: dict[str, Any] = {"kernel": kernel} if kernel else {}
        where = _where(machine, pid)
        proof = prove_size(limit, recording.path.parent, workload, where, repeats=repeats, results=results, **more)
    if form == "json":
        answer = {"about": _words(recording), "allowed_slowdown": allowed, "suggested": asdict(limit), "proof": proof}
        print(json.dumps({**answer, "forecast": [asdict(row) for row in rows]}, indent=2))
        return
    print(heading(recording))
    print(f"{'memory':>10} {'slowdown':>9} {'min_age':>8}")
    for row in sorted(rows, key=lambda row: row.peak):
        memory = show_bytes(limit.now_bytes * row.peak)
        print(f"{memory:>10} {row.slowdown:>9.1%} {row.min_age_s:>6.1f} s")
    if not limit.scheme:
        now = show_bytes(limit.now_bytes)
        print(f"no scheme stays under a slowdown of {slowdown} with 90 %: the workload needs all of its {now}")
        return
    print(
        f"suggested: {show_bytes(limit.memory_bytes)} of {show_bytes(limit.now_bytes)} resident, memory.max"
        f" {show_bytes(limit.limit_bytes)} with what else is charged, and '{limit.scheme}'; slowdown"
        f" {limit.slowdown:.1%}, with 90 % not over {limit.slowdown_high:.1%}"
    )
    if proof:
        print(_proved(proof, allowed))


def _proved(proof: dict[str, Any], allowed: float) -> str:
    """What runs under the suggestion have shown."""
    if proof["error"]:
        return f"not enough: {proof['error']}"
    mean, (low, high) = proof["slowdown"]["mean"], proof["slowdown"]["ci95"]
    word = "proved" if high <= allowed else "not enough" if low > allowed else "not shown either way"
    told = f"slowdown {mean:+.1%} [{low:+.1%}, {high:+.1%}] under this limit and scheme"
    return f"{word}: {told}; {allowed:.0%} is allowed"


def _where(machine: str | None, pid: int | None) -> str:
    """A process runs on this machine, unless it is said to run on another."""
    return machine or settings.machine(pid)


def _recording(
    name: str | None,
    workload: str | None,
    command: str | None,
    pid: int | None,
    duration: str,
    machine: str | None,
    kernel: str | None,
    results: Path,
) -> Recording:
    """One that was made before, or one that is made now."""
    from damoos import api

    if [name, workload, command, pid].count(None) != 3:
        raise ConfigError("give a recording, or tell what to record: --workload, --command or --pid")
    if name is not None:
        return api.load_recording(name, results=results)
    recording = api.record(
        workload, command=command, pid=pid, machine=_where(machine, pid), kernel=kernel,
        duration_s=time_us(duration, "--for") / 1e6, results=results, say=progress,
    )  # fmt: skip
    assert recording.path
    progress(f"recorded: {recording.path.parent}")
    return recording


def _words(recording: Recording) -> dict[str, object]:
    """Where a recording comes from, without the long parts."""
    return {name: value for name, value in recording.about.items() if name not in ("resident", "metrics", "accepted")}
