"""The commands that record a run, and those that say from one recording what reclaim would bring."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damoos.cli import complete
from damoos.cli.common import RESULTS, Format, Results, check_format, say
from damoos.errors import ConfigError, nearest

if TYPE_CHECKING:
    from damoos.records.recording import Recording
    from damoos.study import StudyConfig

app = typer.Typer()
_OPERATIONS = {"rec": "vaddr", "prec": "paddr"}

_Recording = Annotated[
    str | None,
    typer.Argument(
        metavar="RECORDING",
        help="File, folder, or name of a folder in the results.",
        autocompletion=complete.recordings,
    ),
]
_Workload = Annotated[
    str | None,
    typer.Option(help="Workload name or TOML file; see 'damoos workloads'.", autocompletion=complete.workloads),
]
_Command = Annotated[str | None, typer.Option(help="Run this command line instead.")]
_Pid = Annotated[int | None, typer.Option(help="Watch a running process instead; it is not restarted.")]
_For = Annotated[str, typer.Option("--for", help="--pid: for how long.")]
_Machine = Annotated[
    str | None,
    typer.Option(
        help="Machine name or TOML file (default: guest; with --pid local).", autocompletion=complete.machines
    ),
]
_Kernel = Annotated[str | None, typer.Option(help="Kernel of a guest; see 'damoos kernel list'.")]


@app.command()
def record(
    workload: _Workload = None,
    command: _Command = None,
    pid: _Pid = None,
    duration: _For = "30s",
    machine: _Machine = None,
    kernel: _Kernel = None,
    config: Annotated[str, typer.Option(help="rec (the process tree, vaddr) or prec (all memory, paddr).")] = "rec",
    sample: Annotated[str, typer.Option(help="Sampling interval.")] = "5ms",
    aggregation: Annotated[str, typer.Option(help="Aggregation interval: one snapshot each.")] = "100ms",
    update: Annotated[str, typer.Option(help="Interval at which new memory is looked for.")] = "1s",
    min_regions: Annotated[int, typer.Option(help="Least number of regions.")] = 10,
    max_regions: Annotated[int, typer.Option(help="Largest number of regions.")] = 1000,
    auto_intervals: Annotated[
        bool, typer.Option("--auto-intervals", help="Let the kernel tune the intervals (Linux 6.15 and later).")
    ] = False,
    size: Annotated[str, typer.Option(help="The recording ends when it is this large; the run goes on.")] = "64M",
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Record what DAMON sees while a workload runs; 'damoos report' shows it, and so does 'damo report'.

    Example: damoos record --workload synthetic/stairs
    """
    from damoos.damon.scheme import Attrs, IntervalsGoal
    from damoos.policies.base import RecordPolicy
    from damoos.recorder import record as make
    from damoos.records.damo import FILE_NAME
    from damoos.units import parse_bytes, parse_us

    check_format(form)
    if config not in _OPERATIONS:
        raise ConfigError(f"--config '{config}'{nearest(config, _OPERATIONS)}")
    goal = IntervalsGoal() if auto_intervals else None
    attrs = Attrs(parse_us(sample), parse_us(aggregation), parse_us(update), min_regions, max_regions, goal)
    policy = RecordPolicy(_OPERATIONS[config], attrs, parse_bytes(size))
    study = _study(workload, command, pid, duration, machine, kernel)
    folder, recording = make(study, policy, results, say)
    begun, ended = recording.span_s
    found = {
        "recording": folder.name,
        "file": str(folder / FILE_NAME),
        "snapshots": recording.nr_snapshots,
        "regions_max": int(recording.nr_regions.max()),
        "seconds": ended - begun,
        "source": recording.about["source"],
    }
    if form == "json":
        print(json.dumps(found))
        return
    print(f"{found['snapshots']} snapshots in {found['seconds']:.1f} s, up to {found['regions_max']} regions: {folder}")
    print(f"look at it: damoos report heatmap {folder.name}")


@app.command()
def predict(
    name: _Recording = None,
    workload: _Workload = None,
    command: _Command = None,
    machine: _Machine = None,
    kernel: _Kernel = None,
    scorer: Annotated[
        str, typer.Option("--score", help="daos, weighted or sla, of runtime and RSS.", autocompletion=complete.scorers)
    ] = "daos",
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Say from one recording, made now or before, what proactive reclaim would bring for every min_age.

    Example: damoos predict --workload parsec3/raytrace
    """
    from damoos.recorder import forecast

    check_format(form)
    recording = _recording(name, workload, command, None, "", machine, kernel, results)
    rows = forecast(recording, scorer)
    if form == "json":
        print(json.dumps({"about": _words(recording), "forecast": [asdict(row) for row in rows]}, indent=2))
        return
    print(_heading(recording))
    print(f"{'min_age':>8} {'RSS saving':>11} {'slowdown':>9} {'80 % of what is believed':>25} {'score':>7}")
    for row in rows:
        score = "limit" if row.score is None else f"{row.score:+.3f}"
        reach = f"{row.slowdown_low:.1%} to {row.slowdown_high:.1%}"
        age = f"{row.min_age_s:.1f} s"
        print(f"{age:>8} {row.memory_saving:>11.1%} {row.slowdown:>9.1%} {reach:>25} {score:>7}")
    print("predicted from one recording, nothing of it was tried; 'damoos tune' tries the best of it")


@app.command()
def rightsize(
    name: _Recording = None,
    workload: _Workload = None,
    command: _Command = None,
    pid: _Pid = None,
    duration: _For = "30s",
    machine: _Machine = None,
    kernel: _Kernel = None,
    slowdown: Annotated[str, typer.Option(help="Slowdown that is allowed.")] = "5%",
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Say from one recording how much memory a workload really needs: memory against slowdown, and a limit.

    Example: damoos rightsize --workload redis/idle --slowdown 3%
    """
    from damoos.recorder import forecast, rightsize
    from damoos.units import parse_percent, show_bytes

    check_format(form)
    allowed = float(parse_percent(slowdown)) / 100
    recording = _recording(name, workload, command, pid, duration, machine, kernel, results)
    found = rightsize(recording, allowed)
    rows = forecast(recording, "weighted")
    if form == "json":
        said = {"about": _words(recording), "allowed_slowdown": allowed, "suggested": asdict(found)}
        print(json.dumps({**said, "forecast": [asdict(row) for row in rows]}, indent=2))
        return
    print(_heading(recording))
    print(f"{'memory':>10} {'slowdown':>9} {'min_age':>8}")
    for row in sorted(rows, key=lambda row: row.peak):
        memory = show_bytes(found.now_bytes * row.peak)
        print(f"{memory:>10} {row.slowdown:>9.1%} {row.min_age_s:>6.1f} s")
    if found.min_age_s == float("inf"):
        now = show_bytes(found.now_bytes)
        print(f"no scheme stays under a slowdown of {slowdown} with 90 %: it needs all of its {now}")
        return
    print(
        f"suggested: memory.high {show_bytes(found.memory_bytes)} of {show_bytes(found.now_bytes)}, with"
        f" '4K max  min min  {found.min_age_s:g}s max  pageout'; slowdown {found.slowdown:.1%}, with 90 % not over"
        f" {found.slowdown_high:.1%}"
    )


def _study(
    workload: str | None, command: str | None, pid: int | None, duration: str, machine: str | None, kernel: str | None
) -> StudyConfig:
    """What is run, by the words that all studies have."""
    from damoos.study import StudyConfig
    from damoos.units import parse_us

    where = machine or ("guest" if pid is None else "local")
    live: dict[str, Any] = {} if pid is None else {"unit_work_s": parse_us(duration) / 1e6, "settle_s": 0.0}
    config = StudyConfig(workload, command, where, nr_samples=2, kernel=kernel, pid=pid, **live)
    config.check()
    return config


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
    from damoos.policies.base import RecordPolicy
    from damoos.recorder import record as make
    from damoos.records.damo import find, read

    if [name, workload, command, pid].count(None) != 3:
        raise ConfigError("give a recording, or what is to be recorded: --workload, --command or --pid")
    if name is not None:
        return read(find(name, results))
    folder, recording = make(_study(workload, command, pid, duration, machine, kernel), RecordPolicy(), results, say)
    say(f"recorded: {folder}")
    return recording


def _words(recording: Recording) -> dict[str, object]:
    """Where a recording comes from, without the long parts."""
    return {name: value for name, value in recording.about.items() if name not in ("resident", "metrics", "accepted")}


def _heading(recording: Recording) -> str:
    about = recording.about
    return (
        f"{about.get('workload')} ({about.get('variant')}) on {about.get('machine')}: Linux {about.get('kernel')},"
        f" {about.get('emulation') or about.get('accel')}; {recording.nr_snapshots} snapshots"
    )
