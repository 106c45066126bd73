"""damo's files: what is written is read again, in each form and unit; anything else is one clear line."""

from __future__ import annotations

import json
import os
import stat
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.common import atomic_file
from damoos.damon.attrs import Attrs
from damoos.errors import ConfigError, StoreError
from damoos.recordings import damo_json, files
from damoos.recordings.recording import Recording
from tests.records import ABOUT, assert_same, recording, stairs


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Any recording of one to three targets, each snapshot of which has at least one region."""
    snapshots, now_ns = [], draw(st.integers(0, 1 << 61))
    nr_targets = draw(st.integers(1, 3))
    for _ in range(draw(st.integers(1, 4))):
        start_ns, now_ns = now_ns, now_ns + draw(st.integers(1_000, 10**9))
        for target in range(nr_targets):
            rows, at = [], draw(st.integers(0, 1 << 47))
            for _ in range(draw(st.integers(1, 4))):
                at += draw(st.integers(0, 1 << 30))
                end = at + draw(st.integers(1, 1 << 30))
                rows.append((at, end, draw(st.integers(0, 20)), draw(st.integers(0, 1 << 31))))
                at = end
            snapshots.append((start_ns / 10**9, now_ns / 10**9, rows, target))
    least = draw(st.integers(3, 1000))
    attrs = Attrs(draw(st.integers(1, 5_000)), 100_000, draw(st.integers(0, 10**7)), least, least + 10)
    return recording(*snapshots, attrs=attrs, operations=draw(st.sampled_from(["vaddr", "fvaddr", "paddr"])))


@given(recordings())
def test_a_recording_survives_a_round_trip(wanted: Recording) -> None:
    found = damo_json.parse("".join(damo_json.pieces(wanted)), None)
    assert_same(found, wanted)


@pytest.mark.parametrize("name", ["stairs.json", "stairs.damo", "recording.damo"])
def test_files(tmp_path: Path, name: str) -> None:
    path = files.write(stairs(), tmp_path / "new" / name)
    assert_same(files.read(path), stairs())
    assert files.read(path).about == ABOUT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (path.read_bytes()[:1] == b"[") == name.endswith(".json")
    assert os.listdir(path.parent) == [name]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = files.write(stairs(), tmp_path / "one.damo")

    def parts():
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        atomic_file.fill(path, parts())
    assert_same(files.read(path), stairs())
    assert os.listdir(tmp_path) == ["one.damo"]
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        files.write(stairs(), tmp_path / "file" / "one.damo")


def theirs(**changes: object) -> list[dict]:
    """A record as damo writes it for people: units, commas."""
    region = {
        "start": "93,824,992,935,936",
        "end": "93,824,992,940,032",
        "nr_accesses": {"samples": 7, "percent": None},
        "age": {"usec": None, "aggr_intervals": "1,234"},
    }
    region.update(changes)
    snapshot = {"start_time": "1 m 40 s", "end_time": "1 m 40 s 100 ms 5 us", "regions": [region], "total_bytes": None}
    intervals = {"sample_us": "5 ms", "aggr_us": "100 ms", "ops_update_us": "1 s"}
    return [{"target_id": 4, "intervals": intervals, "snapshots": [snapshot]}]


def read(tmp_path: Path, content: object, attrs: Attrs | None = None) -> Recording:
    path = tmp_path / "theirs.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return files.read(path, attrs)


def test_units_and_commas(tmp_path: Path) -> None:
    wanted = recording(
        (100.0, 100.100005, [(93824992935936, 93824992940032, 7, 1234)]),
        about={"assumed": ["operations", "nr_regions"]},
    )
    found = read(tmp_path, theirs())
    assert_same(found, wanted)
    assert found.about == wanted.about


def test_intervals_may_be_given(tmp_path: Path) -> None:
    found = read(tmp_path, form_with(intervals=None), Attrs(1_000, 20_000))
    assert found.attrs == Attrs(1_000, 20_000)
    assert found.about["assumed"] == ["operations", "intervals", "nr_regions"]


def test_percent_and_usec_alone(tmp_path: Path) -> None:
    form = theirs(nr_accesses={"samples": None, "percent": "35 %"}, age={"usec": "2 s 350 ms", "aggr_intervals": None})
    found = read(tmp_path, form)
    assert (found.nr_accesses.tolist(), found.age.tolist()) == ([7], [23])


def test_the_first_start_may_be_missing(tmp_path: Path) -> None:
    form = theirs()
    form[0]["snapshots"] = [
        {**form[0]["snapshots"][0], "start_time": None, "end_time": end} for end in (10**9, 1_200_000_000)
    ]
    found = read(tmp_path, form)
    assert found.start_s.tolist() == [0.9, 1.0]
    assert found.end_s.tolist() == [1.0, 1.2]


def test_tuned_intervals_scale_ages(tmp_path: Path) -> None:
    form = theirs()
    form[0]["snapshots"][0]["sample_interval_us"] = "20 ms"
    assert read(tmp_path, form).age.tolist() == [4936]


def test_targets_are_numbered_as_they_are_met(tmp_path: Path) -> None:
    one, other = theirs()[0], theirs()[0]
    other["target_id"] = 18446623435582458880
    found = read(tmp_path, [one, other])
    assert found.target.tolist() == [0, 1]
    assert found.operations == "vaddr"


EVENT = "kdamond.0  4452 [000] {}: damon:damon_aggregated: target_id=18446623435582458880 nr_regions=2 {}\n"
TRACE = "".join(
    EVENT.format(*one)
    for one in (
        ("82877.315633", "4096-8192: 0 3"),
        ("82877.315640", "8192-16384: 5 12"),
        ("82877.415633", "4096-8192: 1 0"),
        ("82877.415641", "8192-16384: 5 13"),
    )
)


def test_a_trace(tmp_path: Path) -> None:
    found = read(tmp_path, TRACE, Attrs())
    wanted = recording(
        (82877.215633, 82877.315633, [(4096, 8192, 0, 3), (8192, 16384, 5, 12)]),
        (82877.315633, 82877.415633, [(4096, 8192, 1, 0), (8192, 16384, 5, 13)]),
        operations="paddr",
    )
    assert_same(found, wanted)
    assert found.about == {"assumed": ["operations", "intervals", "nr_regions"]}


def test_lost_events_break_one_snapshot(tmp_path: Path) -> None:
    lines = (TRACE + TRACE.replace("82877.3", "82877.5").replace("82877.4", "82877.6")).splitlines(keepends=True)
    found = read(tmp_path, "".join(lines[:3] + lines[4:]), Attrs())  # one event of the second snapshot is lost
    assert found.nr_snapshots == 3
    assert found.about["nr_broken_snapshots"] == 1


def form_with(**changes: object) -> list[dict]:
    form = theirs()
    form[0].update(changes)
    return form


OLD_TRACE = "\n".join(line.rsplit(" ", 1)[0] for line in TRACE.splitlines())
TWICE = [*theirs(), *form_with(intervals={"sample_us": 1, "aggr_us": 10, "ops_update_us": 100})]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a recording"),
        (b"hello", "not a recording"),
        (b"\x00\xff\xfe", "cannot be read"),
        (b'{"kdamonds": []}', "not a recording"),
        (b"[", "cannot be read"),
        (b"[]", "it holds no record"),
        (b"[1]", "expected a list of records"),
        (b"[" * 100_000, "cannot be read"),
        (b"x\x9cbroken", "cannot be unpacked"),
        (zlib.compress(json.dumps(theirs()).encode())[:-9], "it is cut off"),
        (b"PERFILE2....", "perf script"),
        (TRACE, "--intervals"),
        (form_with(intervals=None), "--intervals"),
        (form_with(snapshots=[]), "no snapshot"),
        (form_with(intervals={"sample_us": "5 ms"}), "aggr_us"),
        (form_with(intervals={"sample_us": "5 s", "aggr_us": "1 s", "ops_update_us": "1 s"}), "sample_us"),
        (form_with(damoos={"operations": "magic", "about": {}, "nr_regions": {"min": 10, "max": 100}}), "damoos"),
        (TWICE, "differ"),
        (theirs(start="far"), "'far'"),
        (theirs(start=1 << 63), "63 bits"),
        (theirs(start=2**47, end=2**46), "do not follow"),
        (theirs(nr_accesses={"samples": None, "percent": None}), "nr_accesses"),
        (theirs(nr_accesses={"samples": -1}), "below 0"),
        (theirs(age={"usec": None, "aggr_intervals": None}), "age"),
        (theirs(age=None), "cannot be read"),
        (json.dumps(theirs(start=0)).replace(": 0,", ": NaN,", 1), "cannot be read"),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(tmp_path, content)
    assert said in str(refusal.value)
    assert str(refusal.value).startswith(str(tmp_path / "theirs.json"))
    assert "\n" not in str(refusal.value)


def test_a_trace_without_ages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"5\.16"):
        read(tmp_path, OLD_TRACE, Attrs())


def test_finding_a_recording(tmp_path: Path) -> None:
    path = files.write(stairs(), tmp_path / "results" / "one" / files.FILE_NAME)
    for name in (path, path.parent, "one"):
        assert files.find(name, tmp_path / "results") == path
    with pytest.raises(ConfigError, match="no such file"):
        files.find("two", tmp_path / "results")
    (tmp_path / "results" / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"recording\.damo"):
        files.find("empty", tmp_path / "results")
