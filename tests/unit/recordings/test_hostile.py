"""Recordings by people who mean harm: each is refused in one line, and none takes much more memory than an honest one.

`FUZZ_EXAMPLES` says how many changed files are tried.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from damoos.common.unpack import LEAST_BYTES, objects_bytes
from damoos.errors import ConfigError, MachineError, MeasurementError
from damoos.recordings import damo_json, files, kernel_objects, trace
from damoos.recordings.aggregations import moments
from damoos.recordings.journal import Journal
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
def test_a_small_journal_does_not_become_gigabytes(tmp_path: Path, made: Callable[[], bytes]) -> None:
    path = tmp_path / files.JOURNAL
    path.write_bytes(made())
    assert path.stat().st_size < 1_000_000
    # As many events as there may be are a recording like any other.
    said = in_bounds(path)
    assert "larger than" in said or made is bomb_of_events


def test_nor_do_its_kernel_objects(tmp_path: Path) -> None:
    path = tmp_path / files.JOURNAL
    path.write_bytes(bomb_of_objects())
    assert "not a file of kernel objects" in in_bounds(path, "objects")


def test_nor_does_a_file_of_damo_s_form(tmp_path: Path) -> None:
    path = tmp_path / "x.damo"
    path.write_bytes(zlib.compress(b"[" + b"[]," * (50 << 20) + b"[]]", 9))
    assert "larger than" in in_bounds(path)


@pytest.mark.parametrize("pack", [bytes, zlib.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("value", [b"[],", b'{"a":1},'])
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
    monkeypatch.setattr("damoos.common.user_file.MADE_BYTES", 10_000)
    journal = Journal("vaddr", ATTRS)
    for _ in range(100):
        journal({"event": "record", "data": "x" * 100})
    with pytest.raises(MachineError, match="a recording of more than"):
        journal({"event": "record", "data": "x"})
