"""How performance is read: each workload's metrics from an output that its program has really printed."""

from __future__ import annotations

import gc
import json
import math
import tracemalloc
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from pydantic import ValidationError

from damoos.errors import ConfigError, MeasurementError
from damoos.workloads import catalog, metrics
from damoos.workloads.metrics import Metric

OUTPUTS = Path(__file__).parents[2] / "outputs"
# Printed by the program in a guest (README there), and what a person reads in it.
CAPTURED = {
    "redis/cache": "redis-cache",
    "redis/peak": "redis-peak",
    "memcached/idle": "memcached-idle",
    "postgres/pgbench": "postgres-pgbench",
    "rocksdb/readrandom": "rocksdb-readrandom",
    "rocksdb/mixed": "rocksdb-mixed",
    "fio/filebench": "fio-filebench",
    "lmdb/read": "lmdb-read",
    "serverless/idle": "serverless-idle",
    "stress-ng/vm": "stress-ng-vm",
    "ffmpeg/encode": "ffmpeg-encode",
    "mariadb/sysbench": "mariadb-sysbench",
    "python/numpy": "python-numpy",
    "parsec3/blackscholes": "parsec3-blackscholes",
    "cassandra/ycsb": "cassandra-ycsb",
}


def captured(name: str) -> tuple[str, str, dict[str, str], dict[str, float]]:
    form = json.loads((OUTPUTS / f"{CAPTURED[name]}.json").read_text())
    return form["stdout"], form["stderr"], form.get("files", {}), form["expected"]


def metrics_of(name: str) -> dict[str, Metric]:
    return next(real.metrics for real in catalog.find(name)[1].real if real.metrics)


@pytest.mark.parametrize("name", CAPTURED)
def test_a_real_output_is_read(name: str) -> None:
    stdout, stderr, files, expected = captured(name)
    found = {one: metric.read(one, stdout, stderr, files) for one, metric in metrics_of(name).items()}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", CAPTURED)
def test_an_output_without_its_metrics_is_no_measurement(name: str) -> None:
    stdout, stderr, *_ = captured(name)
    for one, metric in metrics_of(name).items():
        with pytest.raises(MeasurementError, match=f"no metric '{one}' in the output"):
            metric.read(one, "", "", {})
        if metric.file:
            with pytest.raises(MeasurementError, match="wrote no file"):
                metric.read(one, stdout, stderr, {"else": "1 2 3"})


def test_every_parser_of_the_catalogue_has_an_output() -> None:
    """A new parser needs its captured output; those of one program share it."""
    known = {(one, metric) for name in CAPTURED for one, metric in metrics_of(name).items()}
    known |= {(one, metric) for one, metric in metrics_of("redis/idle").items()}  # kvload's, as memcached/idle's
    parsers = {metric.model_dump_json() for _, metric in known}
    for name in catalog.names():
        for real in catalog.find(name)[1].real:
            for one, metric in real.metrics.items():
                if "splash3" in real.needs:
                    continue  # SPLASH's, below
                assert metric.model_dump_json() in parsers, (name, one)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fft", "Total time with initialization    :   123456\nTotal time without initialization :   100000\n"),
        ("radiosity", "\tTotal time with initialization\t  123456\n\tTotal time without initialization\t  100000\n"),
        ("raytrace", "        Total time without initialization                 100000\n"),
        ("barnes", "COMPUTETIME   =       100000\nTRACKTIME     =  90000\n"),
        ("water_nsquared", "COMPUTETIME (after initialization) = 100000\n"),
        ("water_spatial", "COMPUTETIME (after initialization) = 100000\n"),
    ],
)
def test_splash_tells_its_time_in_microseconds(name: str, text: str) -> None:
    metric = catalog.find(f"splash2x/{name}")[1].real[-1].metrics["roi_s"]
    assert metric.read("roi_s", text, "", {}) == pytest.approx(0.1)


TABLE = """  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       1.181     0.000000            1         1.00
       2.303     0.500000           50         2.00
       4.015     0.990000           99       100.00
       9.935     1.000000          100          inf
#[Mean    =        2.304, StdDeviation   =        0.871]
"""


@pytest.mark.parametrize(("percentile", "value"), [(50, 2.303), (60, 4.015), (99, 4.015), (99.9, 9.935)])
def test_a_printed_hdr_histogram(percentile: float, value: float) -> None:
    assert Metric(better="lower", hgrm=percentile).read("p_ms", TABLE, "", {}) == value


def test_an_hdr_log() -> None:
    """The intervals of all files count together."""
    texts = {}
    for name, values in (("a.hdr", range(1, 51)), ("b.hdr", range(51, 101))):
        one = HdrHistogram(1, 100_000, 3)
        for value in values:
            one.record_value(value * 100)
        head = '#[Histogram log format version 1.2]\n"StartTimestamp","Interval_Length"\n'
        texts[name] = f"{head}0.1,1.0,5.0,{one.encode().decode()}\n"
    metric = Metric(better="lower", hdr="*.hdr", percentile=99, scale=0.001)
    assert metric.read("p99_ms", "", "", texts) == pytest.approx(9.9, rel=0.01)
    with pytest.raises(MeasurementError, match="holds no value"):
        metric.read("p99_ms", "", "", {"a.hdr": "#empty\n"})


def hdr_line(highest: int, *values: int, digits: int = 3) -> str:
    interval = HdrHistogram(1, highest, digits)
    for value in values:
        interval.record_value(value)
    return f"0.1,1.0,5.0,{interval.encode().decode()}\n"


@pytest.mark.parametrize("order", [1, -1])
def test_intervals_of_an_hdr_log_may_have_different_ranges(order: int) -> None:
    lines = [hdr_line(1000, 500), hdr_line(1_000_000, 900_000)][::order]
    metric = Metric(better="lower", hdr="*.hdr", percentile=99)
    assert metric.read("p99_us", "", "", {"a.hdr": "".join(lines)}) == pytest.approx(900_000, rel=0.01)


def test_an_hdr_log_that_is_cut_off_is_told() -> None:
    """Wherever: a run that was killed leaves such a one."""
    line = hdr_line(1000, *range(1, 900, 7))
    metric = Metric(better="lower", hdr="*.hdr", percentile=99)
    for end in range(len("0.1,1.0,5.0,HIST"), len(line) - 2):
        with pytest.raises(MeasurementError, match="no metric 'p99_us' in the output"):
            metric.read("p99_us", "", "", {"a.hdr": line[:end]})


def test_an_hdr_log_takes_the_memory_of_a_histogram_or_two() -> None:
    """60 lines of 56 letters stood for 2.8 GiB of counters."""
    few = 8 * hdr_line(1 << 40, 1 << 39, digits=4)
    metric, many = Metric(better="lower", hdr="*.hdr", percentile=99), 8 * few
    peaks = []
    for text in (few, many):
        tracemalloc.start()
        gc.disable()
        metric.read("p99_us", "", "", {"a.hdr": text})
        gc.enable()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_a_histogram_that_is_too_large_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = hdr_line(1 << 60, 1 << 59, digits=5)
    monkeypatch.setattr(HdrHistogram, "decode", lambda encoded: pytest.fail("it is decoded"))
    with pytest.raises(MeasurementError, match="45 MiB of counters, and 16 MiB are allowed"):
        Metric(better="lower", hdr="*.hdr", percentile=99).read("p99_us", "", "", {"a.hdr": text})


@pytest.mark.parametrize("bound", ["_MOST_HDR_LINES", "_MOST_HDR_BYTES"])
def test_an_hdr_log_has_no_more_intervals_than_can_be_read(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """20 MiB of tiny lines took hours."""
    metric, line = Metric(better="lower", hdr="*.hdr", percentile=99), hdr_line(1000, 500)
    monkeypatch.setattr(metrics, bound, 3 if "LINES" in bound else 3 * 8 * 2048)
    assert metric.read("p99_us", "", "", {"a.hdr": 3 * line}) == 500
    with pytest.raises(MeasurementError, match="have the run log longer intervals"):
        metric.read("p99_us", "", "", {"a.hdr": 4 * line})


def test_intervals_of_an_hdr_log_have_few_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """To add histograms of different layouts is slow, and to keep them takes memory."""
    metric = Metric(better="lower", hdr="*.hdr", percentile=100)
    text = "".join(hdr_line(1 << bits, (1 << bits) - 1) for bits in range(11, 63))
    assert metric.read("max_us", "", "", {"a.hdr": text}) == pytest.approx(1 << 62, rel=0.01)
    monkeypatch.setattr(metrics, "_MOST_KEPT_BYTES", 1 << 20)
    with pytest.raises(MeasurementError, match="too many different ranges"):
        metric.read("max_us", "", "", {"a.hdr": text})


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('{"jobs": [{"read": {"iops": 7}}]}', "jobs.0.read.iops", 7),
        ('{"percentile": {"99.000000": 12}}', "percentile.99.000000", 12),
    ],
)
def test_a_number_in_json(text: str, path: str, value: float) -> None:
    assert Metric.model_validate({"better": "lower", "json": path}).read("x", text, "", {}) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [("{}", "no 'a'"), ('{"a": []}', "out of range"), ("no json", "Expecting value"), ('{"a": [null]}', "no metric")],
)
def test_a_number_that_is_not_in_json(text: str, message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        Metric.model_validate({"better": "lower", "json": "a.0"}).read("x", text, "", {})


def test_a_number_must_be_finite() -> None:
    with pytest.raises(MeasurementError, match="metric 'x' is nan"):
        Metric.model_validate({"better": "lower", "json": "a"}).read("x", '{"a": NaN}', "", {})


@pytest.mark.parametrize(
    "regex",
    [r"(?:\d+)+x(\d)", r"(?:\d|\d\d)*x(\d)", r"per read:[\s\S]*?P50: ([\d.]+)", r"\d*\d*\d*x(\d)"],
)
def test_a_regex_ends_whatever_the_program_has_printed(regex: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.agent.regex.LIMIT_S", 0.3)
    hostile = "per read:" * 20_000 + "1" * (64 << 10)
    with pytest.raises(MeasurementError) as told:
        Metric(better="lower", regex=regex).read("p50_ms", hostile, hostile, {})
    assert str(told.value).startswith(
        f"no metric 'p50_ms' in the output: '{regex}' takes more than 0.3 s on this text;"
    )


def test_a_long_word_that_is_no_number_is_told_by_its_beginning() -> None:
    with pytest.raises(MeasurementError, match=r"could not convert '1{40}'... to a number: it has 65536 characters"):
        Metric(better="lower", regex="(.+)").read("x", "1" * (64 << 10), "", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 " + "1" * 200_000, "no table of values: field larger than field limit"),
        ("1 1 1\x002", "could not convert|no table of values"),
        ("1 1 1\n\n1 1 " + "1" * 1000, "it has 1000 characters"),
        ("1 1", "out of range"),
        ("\n \n", "is empty"),
    ],
    ids=["long field", "NUL", "long word", "short", "empty"],
)
def test_a_file_that_is_no_table_of_values_is_told(text: str, message: str) -> None:
    metric = Metric(better="lower", values="*.log", column=2, percentile=50)
    with pytest.raises(MeasurementError, match=f"^no metric 'p50_ms' in the output: .*({message})"):
        metric.read("p50_ms", "", "", {"a.log": text})


@pytest.mark.slow
def test_many_values_take_no_more_memory_than_their_text() -> None:
    metric = Metric(better="lower", values="*.log", percentile=50)
    text = "1\n" * (1 << 20)
    tracemalloc.start()
    try:
        assert metric.read("p50_ms", "", "", {"a.log": text}) == 1
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "exactly one of regex, json, hgrm, hdr, values"),
        ({"regex": "(a)", "json": "b"}, "exactly one of"),
        ({"regex": "a"}, "0 groups"),
        ({"regex": "("}, "regex: "),
        ({"regex": "(a{99999999999999})"}, "regex: "),
        ({"regex": "(" * 5000 + ")" * 5000}, "regex: "),
        ({"regex": "(" * 450 + ")" * 450}, "regex: it has 450 groups"),
        ({"values": "", "percentile": 50}, "names no file"),
        ({"values": "./", "percentile": 50}, "names no file"),
        ({"values": "a/**.csv", "percentile": 50}, "a part of a path by itself"),
        ({"values": "file"}, "needs its percentile"),
        ({"values": "file", "percentile": math.nan}, "finite number"),
        ({"hdr": "file", "percentile": 101}, "less than or equal to 100"),
    ],
)
def test_a_wrong_declaration_is_refused(keys: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Metric.model_validate({"better": "lower", **keys})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qps", "write NAME=cmd:PROGRAM"),
        ("qps=", "write NAME=cmd:PROGRAM"),
        ("QPS=cmd:x", "write NAME=cmd:PROGRAM"),
        ("qps=cdm:x", "unknown source 'cdm'; did you mean 'cmd'?"),
        ("qps=cmd:'x", "No closing quotation"),
        ("qps=file:x#/(/", "is no regular expression"),
        ("qps=file:x#/a{99999999999999}/", "is no regular expression"),
        ("qps=file:x#/(a)(b)/", "has 2 groups"),
    ],
)
def test_a_wrong_metric_of_a_process_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        catalog.reading(text)


def test_metrics_of_a_process() -> None:
    one = catalog.reading("p99_ms=cmd:redis-cli --latency 'a b'")
    assert (one.name, one.source, one.argv) == ("p99_ms", "cmd", ("redis-cli", "--latency", "a b"))
    assert one.key == ""
    url = catalog.reading("qps=http://127.0.0.1:80/x=1#a.b")
    assert (url.argv, url.key) == (("http://127.0.0.1:80/x=1",), "a.b")
    assert catalog.reading("free=file:/proc/x").argv == ("/proc/x",)
    assert catalog.reading("free=file:/proc/x#/free: (.*)/").key == "/free: (.*)/"
    command = catalog.reading("""p99_ms=cmd:curl -s 'http://h/#x' #latency{quantile="0.99"}""")
    assert (command.argv, command.key) == (("curl", "-s", "http://h/#x"), 'latency{quantile="0.99"}')
