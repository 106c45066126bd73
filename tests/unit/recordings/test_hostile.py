"""Recordings by people who mean harm: each is refused in one line, and none takes much more memory than an honest one.

`FUZZ_EXAMPLES` says how many changed files are tried.
"""

from __future__ import annotations

import base64
import json
import math
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from damoos.common.unpack import LEAST_BYTES, objects_bytes
from damoos.errors import ConfigError, MachineError, MeasurementError
from damoos.prediction import forecast
from damoos.prediction.reclaim import Cost, reclaim
from damoos.recordings import crop, damo_json, files, kernel_objects, trace
from damoos.recordings import snapshots as record_snapshots
from damoos.recordings.aggregations import moments
from damoos.recordings.heatmap import heatmap
from damoos.recordings.hot import hot_ranges
from damoos.recordings.idle import idle_time, recency
from damoos.recordings.journal import _COST_OF_LINE, Journal
from damoos.recordings.region_count import region_count
from damoos.recordings.targets import MOST_TARGETS
from damoos.recordings.working_set import working_set
from damoos.report.recording import charts
from tests import hostile_json
from tests.records import ATTRS, TWO_TARGETS
from tests.trace_pages import FORM, PAGE_FORM, Region, pages

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
REGIONS: list[Region] = [(7, 2, 0, 4096, 3, 1), (7, 2, 4096, 8192, 0, 9)]


def packed(data: bytes, level: int = 1) -> str:
    return base64.b64encode(zlib.compress(data, level)).decode()


def told(what: str, value: Any) -> dict[str, str]:
    return {"objects": packed(json.dumps([what, value]).encode())}


BEGIN: dict[str, Any] = {"source": "trace", "format": FORM, "page": PAGE_FORM, "page_bytes": 4096}
WORDS = {"operations": "vaddr", "about": {"workload": "x/y", "resident": []}}
WORDS["attrs"] = {
    "sample_us": 5000, "aggr_us": 100000, "update_us": 1000000, "min_nr_regions": 10, "max_nr_regions": 1000,
    "goal": None, "addr_unit": 1, "probes": [],
}  # fmt: skip
PARTS: list[dict[str, Any]] = [
    {"data": packed(pages([(10**9, region) for region in REGIONS]))},
    {"resident": packed(b"[0.5, [[[0, 3], [1048576, 256]]]]")},
    {"data": packed(pages([(2 * 10**9, region) for region in REGIONS]))},
    told("begin", {"share": 0.5, "merged": {"a": ["a", "b"]}}),
    told("memory", [1.0, {"programs": 1, "slab": 2}, {"dentry": 3}]),
    told("accesses", [1.0, packed(bytes(16)), packed(bytes(8))]),
    told("lives", {"damoos_page_cache": "{ order: 0, life: ~ 2^10 } hitcount: 3  life: 40\n"}),
]
LINES: list[dict[str, Any]] = [{"begin": BEGIN, **WORDS}, *PARTS]

COST = {"pageout_us": 1.0, "fault_us": 1.0}
MORE = {"kdamond_cpu_s": 0.1, "rss_max_bytes": 6.0}

values = hostile_json.values([10**400, -1, 0, 1 << 40, 1e308, "x" * 200, "\x1b[2J", packed(b""), packed(bytes(99))])
changed = hostile_json.changed_by(values)


def as_journal(lines: Any) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in (lines if isinstance(lines, list) else [lines]))


def outcome(read: Callable[[], Any]) -> Any:
    """What it is read as; None where it is refused, which is in one line."""
    try:
        return read()
    except (ConfigError, MachineError, MeasurementError) as error:
        refusal = str(error)
    assert "\n" not in refusal
    return None


def reads(path: Path) -> None:
    """It is a recording that can be used, or it is refused."""
    recording = outcome(lambda: files.read(path))
    if recording is not None:
        assert repr(recording).isprintable()
        outcome(lambda: moments(recording))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def test_the_unchanged_ones_are_read(folder: Path) -> None:
    (folder / files.JOURNAL).write_bytes(as_journal(LINES))
    assert files.read(folder / files.JOURNAL).nr_snapshots == 2
    assert kernel_objects.read(folder).lives[0].count == 6


@pytest.mark.slow
@FUZZ
@given(lines=changed(LINES))
@example(lines=[LINES[0], {"data": packed(b"\x01" * 4098)}])
@example(lines=[{**LINES[0], "begin": {**BEGIN, "page_bytes": 1}}, LINES[1]])
@example(lines=[{**LINES[0], "begin": {**BEGIN, "page": PAGE_FORM.replace("offset:8", "offset:99999")}}, LINES[1]])
@example(lines=[LINES[0], {"data": packed(b"")}, {"resident": packed(b"[" * 100_000)}])
@example(lines=[{**LINES[0], "begin": {"source": "tried_regions"}}, {"data": packed(b"\x00" * 7 + b"\xff" * 33)}])
def test_any_journal(folder: Path, lines: Any) -> None:
    (folder / files.JOURNAL).write_bytes(as_journal(lines))
    reads(folder / files.JOURNAL)
    outcome(lambda: kernel_objects.read(folder))


@FUZZ
@given(part=changed(PARTS[4]) | st.tuples(st.just("objects"), values).map(lambda one: told("memory", one[1])))
def test_any_message_of_a_machine(part: Any) -> None:
    """What comes while a machine records ends as the machine's error, or as one of its measurements."""

    def record() -> None:
        journal = Journal("vaddr", ATTRS)
        journal({"event": "record", "begin": BEGIN})
        for one in [*PARTS[:5], part]:
            journal({"event": "record", **one} if isinstance(one, dict) else {"event": "record", "data": one})
        journal.recording({})
        kernel_objects.of_journal(journal.sent, {})

    outcome(record)


OURS = json.loads("".join(damo_json.pieces(TWO_TARGETS)))


@FUZZ
@given(form=changed(OURS))
@example(form=[{**OURS[0], "intervals": {"sample_us": 10**400, "aggr_us": 10**400, "ops_update_us": 10**400}}])
def test_any_file_of_damo_s_form(folder: Path, form: Any) -> None:
    path = folder / "changed.damo"
    path.write_bytes(zlib.compress(json.dumps(form).encode()))
    reads(path)
    path.write_bytes(b"[" * 100_000)
    reads(path)


@FUZZ
@given(text=st.lists(st.one_of(st.text(max_size=20), st.from_regex(trace._LINE.pattern.rstrip("$"), fullmatch=True))))
@pytest.mark.slow
def test_any_text_of_events(folder: Path, text: list[str]) -> None:
    path = folder / "changed.txt"
    path.write_text("\n".join(["damon_aggregated:", *text]), errors="replace")
    outcome(lambda: files.read(path, ATTRS))


def bomb_of_pages() -> bytes:
    return as_journal([LINES[0], *[{"data": packed(bytes(100 << 20), 9)}] * 5])


def bomb_of_events() -> bytes:
    """Pages full of the smallest events that a format can have, packed as well as it goes."""
    fields = "".join(
        f"\tfield:unsigned short {name};\toffset:{2 * nth};\tsize:2;\tsigned:0;\n"
        for nth, name in enumerate(("common_type", "target_id", "nr_regions", "start", "end", "nr_accesses", "age"))
    )
    event = b"\x04\0\0\0" + bytes((7, 0, 0, 0, 1, 0, 0, 0, 1)) + bytes(7)
    page = bytes(2) + bytes(8) + (4080).to_bytes(8, "little") + event * 204
    begin = {**BEGIN, "format": f"ID: 7\n{fields}"}
    return as_journal([{**WORDS, "begin": begin}, *[{"data": packed(page * 6000, 9)}] * 4])


def bomb_of_counts() -> bytes:
    text = b"[0.5, [" + b"[[0, 0]]," * (10 << 20) + b"[]]]"
    return as_journal([LINES[0], LINES[1], {"resident": packed(text, 9)}])


def bomb_of_objects() -> bytes:
    inner = packed(bytes(100 << 20), 9)
    outer = packed(json.dumps(["accesses", [1.0, inner, inner]]).encode(), 9)
    return as_journal([*LINES, *[{"objects": outer}] * 5])


READ = """
import resource, sys
from pathlib import Path
from damoos.errors import ConfigError, MeasurementError
from damoos.recordings import files, kernel_objects
path, used = Path(sys.argv[1]), int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    found = files.read(path)
    if sys.argv[3:]:
        kernel_objects.read(path.parent)
    print("read")
except (ConfigError, MeasurementError) as error:
    print(error)
"""
# What a file of a few hundred KB may take; the ones below would take one or several GB.
MOST_BYTES = 600 << 20


def in_bounds(path: Path, *words: str) -> str:
    argv = [sys.executable, "-c", READ, str(path), str(MOST_BYTES), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


@pytest.mark.parametrize("made", [bomb_of_pages, bomb_of_events, bomb_of_counts])
@pytest.mark.slow
def test_a_small_journal_does_not_become_gigabytes(tmp_path: Path, made: Callable[[], bytes]) -> None:
    path = tmp_path / files.JOURNAL
    path.write_bytes(made())
    assert path.stat().st_size < 1_000_000
    # As many events as there may be are a recording like any other.
    said = in_bounds(path)
    assert "larger than" in said or made is bomb_of_events


@pytest.mark.slow
def test_nor_do_its_kernel_objects(tmp_path: Path) -> None:
    path = tmp_path / files.JOURNAL
    path.write_bytes(bomb_of_objects())
    assert "not a file of kernel objects" in in_bounds(path, "objects")


LIFE = {"kind": "slab a", "count": 1.0, "sz_bytes": 1.0, "mean_s": 1.0, "histogram": [[3, 1]]}
OBJECTS = {
    "about": {}, "share": 1.0, "lost": 0, "time_s": [1.0, 2.0], "memory_bytes": {"a": [1.0, 2.0]},
    "cache_bytes": {"a": 1.0}, "lives": [LIFE], "accesses": {}, "merged": {},
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"memory_bytes": {"a": [1.0]}}, {"lives": [{**LIFE, "histogram": []}]}, {"time_s": [math.nan, math.inf]},
        {"lives": [{**LIFE, "histogram": [[5000, 1]]}]}, {"lives": [{**LIFE, "histogram": [[3, 10**400]]}]},
    ],
    ids=["sizes", "no life", "no time", "a long life", "many lives"],
)  # fmt: skip
def test_kernel_objects_of_another_form_are_told(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / kernel_objects.FILE_NAME).write_text(json.dumps(OBJECTS))
    assert kernel_objects.read(tmp_path).lives[0].count == 1
    (tmp_path / kernel_objects.FILE_NAME).write_text(json.dumps(OBJECTS | change))
    with pytest.raises(ConfigError, match="not a file of kernel objects"):
        kernel_objects.read(tmp_path)


def test_a_long_number_is_no_event(tmp_path: Path) -> None:
    """To look for an event at each of its digits took hours."""
    path = tmp_path / "x.txt"
    path.write_text("damon_aggregated: " + "1" * (1 << 20))
    with pytest.raises(ConfigError):
        files.read(path, ATTRS)


@pytest.mark.slow
def test_nor_does_a_file_of_damo_s_form(tmp_path: Path) -> None:
    path = tmp_path / "x.damo"
    path.write_bytes(zlib.compress(b"[" + b"[]," * (50 << 20) + b"[]]", 9))
    assert "larger than" in in_bounds(path)


@pytest.mark.parametrize("pack", [bytes, zlib.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("value", [b"[],", b'{"a":1},'])
@pytest.mark.slow
def test_no_file_of_damo_s_form_has_more_values_than_a_recording(
    tmp_path: Path, pack: Callable[[bytes], bytes], value: bytes
) -> None:
    path = tmp_path / "x.damo"
    path.write_bytes(pack(b"[" + value * ((40 << 20) // len(value)) + b"[]]"))
    assert "more lists, objects and values than" in in_bounds(path)


def test_nor_has_a_line_of_a_journal(tmp_path: Path) -> None:
    path = tmp_path / files.JOURNAL
    path.write_bytes(as_journal(LINES) + b'{"data": [' + b"[]," * (13 << 20) + b"[]]}\n")
    assert "more values than" in in_bounds(path)


@pytest.mark.slow
def test_the_shortest_regions_are_a_recording(tmp_path: Path) -> None:
    region = b'{"start":0,"end":1,"nr_accesses":{"samples":0},"age":{"usec":0}},'
    snapshot = b'{"start_time":0,"end_time":9,"regions":[' + (region * 1000)[:-1] + b"]},"
    text = b'[{"intervals":{"sample_us":1,"aggr_us":2,"ops_update_us":3},"snapshots":[' + (snapshot * 70)[:-1] + b"]}]"
    path = tmp_path / "x.json"
    path.write_bytes(text)
    assert objects_bytes(text.decode()) > LEAST_BYTES
    assert "more values" not in in_bounds(path)
    assert "more lists" not in in_bounds(path)


def test_a_line_of_a_journal_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.recordings.journal.LINE_BYTES", 1000)
    path = tmp_path / files.JOURNAL
    path.write_bytes(as_journal(LINES) + b" " * 2000)
    with pytest.raises(ConfigError, match="longer than that of any recording"):
        files.read(path)


def test_a_machine_that_sends_a_recording_without_end_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.common.user_file.MADE_BYTES", 100 * (100 + _COST_OF_LINE))
    journal = Journal("vaddr", ATTRS)
    for _ in range(100):
        journal({"event": "record", "data": "x" * 100})
    with pytest.raises(MachineError, match="a recording of more than"):
        journal({"event": "record", "data": "x"})


def snapshot(start_ns: int, end_ns: int, *regions: tuple[int, int, int, int]) -> dict[str, Any]:
    shown = [
        {"start": start, "end": end, "nr_accesses": {"samples": samples}, "age": {"aggr_intervals": age}}
        for start, end, samples, age in regions
    ]
    return {"start_time": start_ns, "end_time": end_ns, "regions": shown, "total_bytes": 0}


def file_of(folder: Path, targets: list[list[dict[str, Any]]], **about: Any) -> Path:
    """A recording of damo's form."""
    head = {"operations": "vaddr", "nr_regions": {"min": 10, "max": 1000}, "about": {"aslr": False, **about}}
    intervals = {"sample_us": 5000, "aggr_us": 100000, "ops_update_us": 1000000}
    records = [{"target_id": nth, "intervals": intervals, "snapshots": shots} for nth, shots in enumerate(targets)]
    path = folder / "small.json"
    path.write_text(json.dumps([{"damoos": head, **records[0]}, *records[1:]]))
    return path


TENTH = 10**8
REGION = (4096, 8192, 3, 1)
STEADY = [snapshot(nth * TENTH, (nth + 1) * TENTH, REGION) for nth in range(5)]
RUN = {"runtime_s": 10.0, "rss_avg_bytes": 5.0}


def test_times_go_up_after_they_have_become_floats(folder: Path) -> None:
    """A float of 1e9 s has no place for the nanosecond that a span lasts; a median of 0 was divided by."""
    late = [snapshot(10**18 + nth, 10**18 + nth + 1, REGION) for nth in range(4)]
    with pytest.raises(ConfigError, match=r"small\.json: cannot be read .* a time that cannot be"):
        files.read(file_of(folder, [[STEADY[0], *late]]))


@pytest.mark.parametrize(
    "about", [{"assumed": 3}, {"assumed": None}, {"cost": {"pageout_us": 1.0}}, {"cost": {**COST, "more": 1.0}}]
)
def test_what_is_computed_with_has_a_form(folder: Path, about: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"small\.json: cannot be read as a recording: (assumed|cost)"):
        files.read(file_of(folder, [STEADY], **about))


@pytest.mark.parametrize("about", [{"metrics": RUN, "cost": COST}, {"metrics": RUN | MORE, "cost": COST}])
def test_a_prediction_needs_the_measurement_of_the_run(folder: Path, about: dict[str, Any]) -> None:
    """All of it, and the bounds of the search."""
    recording = files.read(file_of(folder, [STEADY], **about))
    with pytest.raises(ConfigError, match="lacks the measurement of its run"):
        forecast.forecast(recording)


def test_nothing_is_hot_where_there_is_no_region(folder: Path) -> None:
    assert hot_ranges(files.read(file_of(folder, [[snapshot(0, TENTH)]]))) == []


@pytest.mark.parametrize(
    "compute",
    [
        heatmap, region_count, working_set, idle_time, recency, hot_ranges, charts.heatmap, charts.wss, charts.regions,
        charts.recency, charts.idle_time, forecast.forecast, forecast.basis,
        partial(forecast.rightsize, slowdown=0.05), partial(crop.by_time, from_s=0, to_s=1),
        partial(crop.by_address, low=0, high=1 << 20),
        partial(reclaim, min_age_us=[1e6], cost=Cost(**COST)),
    ],
    ids=lambda compute: getattr(compute, "func", compute).__module__ + "." + getattr(compute, "func", compute).__name__,
)  # fmt: skip
def test_what_cannot_be_computed_with_is_told_with_its_file(compute: Callable[..., Any], folder: Path) -> None:
    """Whatever a check of the form has not thought of."""
    about = {"metrics": RUN | MORE, "cost": COST, "low_us": 1e5, "high_us": 1e7}
    recording = replace(files.read(file_of(folder, [STEADY], **about)), target=[[]], end_s=None, first=None, end="")
    with pytest.raises(ConfigError, match=r"small\.json: cannot be computed with: "):
        compute(recording)
    with pytest.raises(MeasurementError, match="the recording cannot be computed with: "):
        compute(replace(recording, path=None))


MANY = 6


def many_of_damo(folder: Path) -> Any:
    return files.read(file_of(folder, [[STEADY[0]] for _ in range(MANY)]))


def many_of_a_trace(folder: Path) -> Any:
    line = "kdamond.0 4452 [000] 7.{0}: damon:damon_aggregated: target_id={0} nr_regions=1 4096-8192: 0 3"
    (folder / "trace.txt").write_text("\n".join(map(line.format, range(1, MANY + 1))))
    return files.read(folder / "trace.txt", ATTRS)


def many_of_a_machine(folder: Path) -> Any:
    journal = Journal("vaddr", ATTRS)
    journal({"begin": BEGIN})
    regions: list[Region] = [(nth, 1, 4096, 8192, 3, 1) for nth in range(MANY)]
    journal({"data": packed(pages([(10**9 + nth, region) for nth, region in enumerate(regions)]))})
    return journal.recording({})


@pytest.mark.parametrize("recorded", [many_of_damo, many_of_a_trace, many_of_a_machine])
def test_a_recording_has_so_many_targets(
    folder: Path, recorded: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_snapshots, "MOST_TARGETS", MANY)
    assert len(set(recorded(folder).target.tolist())) == MANY
    monkeypatch.setattr(record_snapshots, "MOST_TARGETS", MANY - 1)
    with pytest.raises((ConfigError, MeasurementError), match=f"it has {MANY} targets, and at most {MANY - 1} are"):
        recorded(folder)


@pytest.mark.slow
def test_targets_take_the_time_of_their_snapshots(folder: Path) -> None:
    """Each was looked for among all snapshots, more than once: 6000 took 9 s, and 64 MiB of them hours."""
    recording = files.read(file_of(folder, [[STEADY[0]] for _ in range(MOST_TARGETS)]))
    begun = time.process_time()
    assert heatmap(recording).subspace.low == 4096
    assert sum(map(len, damo_json.pieces(recording))) > MOST_TARGETS
    assert time.process_time() - begun < 8.0  # 2 s; 20 s before
