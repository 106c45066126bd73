"""The commands about recordings of memory accesses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from damoos.cli import complete
from damoos.cli.common import RESULTS, Format, Results, check_format, time_us
from damoos.common import terminal
from damoos.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from damoos.damon.attrs import Attrs
    from damoos.recordings.recording import Recording
    from damoos.report.charts import Chart

report = typer.Typer(
    help="Reports of studies and sweeps as a page, and of recordings of memory accesses by damoos or damo.\n\n"
    "Example: damoos report heatmap raytrace",
    no_args_is_help=True,
)

_File = Annotated[
    str,
    typer.Argument(
        metavar="RECORDING",
        help="File, folder, or name of a folder in the results.",
        autocompletion=complete.recordings,
    ),
]
_Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write this file instead of text: .png, .svg, .html or .csv.")
]
_Target = Annotated[int | None, typer.Option(help="Only this target (default: all; heatmap: the most active).")]
_Time = Annotated[str | None, typer.Option(help="Only this time since the recording began, FROM:TO, e.g. 5s:20s.")]
_Address = Annotated[
    str | None, typer.Option(help="Only these addresses, LOW:HIGH, e.g. 0x7f0000000000:0x7f0040000000.")
]
_Intervals = Annotated[
    str | None, typer.Option(help="SAMPLE,AGGREGATION intervals, for a file that lacks them, e.g. 5ms,100ms.")
]


@report.command()
def heatmap(
    name: _File,
    output: _Output = None,
    target: _Target = None,
    time: _Time = None,
    address: _Address = None,
    intervals: _Intervals = None,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Show when which addresses were accessed how often, in the most active part of the address space.

    Example: damoos report heatmap raytrace -o raytrace.png
    """
    _check(output, form)
    recording, later_s = _recording(name, results, intervals, target=None, time=time, address=None)
    from damoos.report.charts import terminal
    from damoos.report.recording import charts

    span = None if address is None else _addresses(address)
    console = _console()
    nr_times, nr_addresses = terminal.cells(console) if output is None and form == "text" else (400, 256)
    _print(charts.heatmap(recording, target, span, nr_times, nr_addresses).later(later_s), console, output, form)


@report.command()
def wss(
    name: _File,
    output: _Output = None,
    min_accesses: Annotated[int, typer.Option(help="How many samples of an aggregation must have seen an access.")] = 1,
    target: _Target = None,
    time: _Time = None,
    address: _Address = None,
    intervals: _Intervals = None,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Show the working set over time: the memory that is accessed.

    Example: damoos report wss raytrace --min-accesses 2
    """
    _check(output, form)
    recording, later_s = _recording(name, results, intervals, target, time, address)
    from damoos.report.recording import charts

    _print(charts.wss(recording, min_accesses).later(later_s), _console(), output, form)


@report.command()
def regions(
    name: _File,
    output: _Output = None,
    time: _Time = None,
    intervals: _Intervals = None,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Show the number of DAMON's regions over time, and its bound.

    Example: damoos report regions raytrace -o regions.svg
    """
    _check(output, form)
    recording, later_s = _recording(name, results, intervals, None, time, None)
    from damoos.report.recording import charts

    _print(charts.regions(recording).later(later_s), _console(), output, form)


@report.command()
def recency(
    name: _File,
    output: _Output = None,
    target: _Target = None,
    time: _Time = None,
    address: _Address = None,
    intervals: _Intervals = None,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Show how long ago memory was last accessed, over time.

    Example: damoos report recency raytrace -o recency.html
    """
    _check(output, form)
    recording, later_s = _recording(name, results, intervals, target, time, address)
    from damoos.report.recording import charts

    _print(charts.recency(recording).later(later_s), _console(), output, form)


@report.command("idle-time")
def idle_time(
    name: _File,
    output: _Output = None,
    target: _Target = None,
    time: _Time = None,
    address: _Address = None,
    intervals: _Intervals = None,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Show how much memory is idle for how long.

    Example: damoos report idle-time raytrace --format json
    """
    _check(output, form)
    recording, later_s = _recording(name, results, intervals, target, time, address)
    from damoos.report.recording import charts

    _print(charts.idle_time(recording).later(later_s), _console(), output, form)


@report.command()
def objects(name: _File, output: _Output = None, results: Results = RESULTS, form: Format = "text") -> None:
    """Show the kernel's own objects: how much memory they had, how long they lived, how often they were accessed.

    Example: damoos report objects record-redis-snapshots -o objects.html
    """
    _check(output, form)
    from damoos.recordings import files, kernel_objects
    from damoos.report.recording import objects as chart

    found = kernel_objects.read(files.find(name, results).parent)
    _print(chart.objects(found), _console(), output, form)


def _check(output: Path | None, form: str) -> None:
    """Refuse wrong words before a long file is read."""
    from damoos.report.charts.chart import check_ending

    check_format(form)
    if output is not None:
        check_ending(output)


def _recording(
    name: str, results: Path, intervals: str | None, target: int | None, time: str | None, address: str | None
) -> tuple[Recording, float]:
    """The part of a recording that is asked for, and how many seconds after the recording it begins."""
    from damoos.recordings import crop, files

    recording = files.read(files.find(name, results), None if intervals is None else _attrs(intervals))
    begin_s = recording.span_s[0]
    if target is not None:
        recording = crop.of_target(recording, target)
    if time is not None:
        recording = crop.by_time(recording, *_times(time))
    if address is not None:
        recording = crop.by_address(recording, *_addresses(address))
    return recording, (0.0 if time is None else recording.span_s[0] - begin_s)


def _attrs(words: str) -> Attrs:
    from damoos.damon.attrs import Attrs

    sample, comma, aggr = words.partition(",")
    if not comma:
        raise ConfigError(f"--intervals: expected SAMPLE,AGGREGATION such as 5ms,100ms, got '{words}'")
    return Attrs(time_us(sample, "--intervals"), time_us(aggr, "--intervals"))


def _times(words: str) -> tuple[float, float]:
    low, high = _pair(words, "--time", "FROM:TO")
    return time_us(low, "--time") / 1e6, time_us(high, "--time") / 1e6


def _addresses(words: str) -> tuple[int, int]:
    low, high = _pair(words, "--address", "LOW:HIGH")
    return _one_address(low), _one_address(high)


def _one_address(word: str) -> int:
    from damoos.units import parse_bytes

    if not word.startswith("0x"):
        return parse_bytes(word)
    try:
        return int(word, 16)
    except ValueError:
        raise ConfigError(f"--address: '{word}' is not a number") from None


def _pair(words: str, option: str, form: str) -> tuple[str, str]:
    first, colon, second = words.partition(":")
    if not colon or not first or not second:
        raise ConfigError(f"{option}: expected {form}, got '{words}'")
    return first, second


def _console() -> Console:
    return terminal.console()


def _print(chart: Chart, console: Console, output: Path | None, form: str) -> None:
    from damoos.report.charts import terminal

    if output is not None:
        chart.save(output)
    if form == "json":
        print(json.dumps({"title": chart.title, **chart.numbers}))
    elif output is not None:
        print("\n".join([chart.title, *chart.text, f"written: {output}"]))
    else:
        terminal.show(chart, console)
