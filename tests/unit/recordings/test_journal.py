"""What a recording agent sends, kept line by line: whatever ends the writer, what has come is there."""

from __future__ import annotations

import base64
import json
import stat
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from damoos.common import user_file
from damoos.damon.attrs import Attrs, IntervalsGoal
from damoos.errors import ConfigError, MachineError, MeasurementError, StoreError
from damoos.recordings import files, journal
from damoos.recordings.journal import Journal, ages_in_first_intervals
from tests.records import ATTRS, MIB, Row, assert_same, recording
from tests.trace_pages import FORM, PAGE_FORM, pages

TRACE = {"source": "trace", "format": FORM, "page": PAGE_FORM}
LOOKS = {"source": "tried_regions"}
S = 10**9
FIRST: list[Row] = [(0, MIB, 20, 3), (MIB, 3 * MIB, 0, 50)]
SECOND: list[Row] = [(0, MIB, 20, 4), (MIB, 2 * MIB, 0, 51), (2 * MIB, 3 * MIB, 1, 0)]
RESIDENT = [[0.5, [[[0, 256], [MIB, 100]], [[5 * MIB, 7]]]], [1.5, [[[0, 256]], []]]]


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()


def begin(words: dict) -> dict:
    return {"event": "record", "begin": words}


def traced(*snapshots: tuple[int, int, list[Row]]) -> dict:
    """A message of pages: (end in ns, target, rows)."""
    timed = [(ns, (target, len(rows), *row)) for ns, target, rows in snapshots for row in rows]
    return {"event": "record", "data": packed(pages(timed))}


def looked(at_s: float, rows: list[Row]) -> dict:
    return {"event": "record", "data": packed(struct.pack("=d", at_s) + b"".join(struct.pack("=4q", *r) for r in rows))}


def resident(count: list) -> dict:
    return {"event": "record", "resident": packed(json.dumps(count).encode())}


def filled(path: Path | None = None) -> Journal:
    made = Journal("vaddr", ATTRS, {"workload": "synthetic/stairs"}, path)
    for message in (
        begin(TRACE),
        traced((1 * S, 7, FIRST), (1 * S, 9, SECOND)),
        resident(RESIDENT[0]),
        traced((2 * S, 7, SECOND), (2 * S, 9, FIRST)),
        resident(RESIDENT[1]),
    ):
        made(message)
    return made


WANTED = recording((0.9, 1, FIRST), (0.9, 1, SECOND, 1), (1, 2, SECOND), (1, 2, FIRST, 1))
ABOUT = {"workload": "synthetic/stairs", "source": "trace", "resident": RESIDENT, "page_bytes": 4096}


def test_a_trace() -> None:
    found = filled().recording({"kernel": "6.12"})
    assert_same(found, WANTED)
    assert found.about == {**ABOUT, "kernel": "6.12"}


def test_a_snapshot_may_come_in_two_messages() -> None:
    made = Journal("vaddr", ATTRS)
    made(begin(TRACE))
    for rows in (SECOND[:1], SECOND[1:]):
        made({"event": "record", "data": packed(pages([(S, (0, 3, *row)) for row in rows]))})
    assert_same(made.recording({}), recording((0.9, 1, SECOND)))


def test_looks_at_what_a_scheme_shows() -> None:
    made = Journal("paddr", ATTRS)
    for message in (begin(LOOKS), looked(1.0, FIRST), looked(1.5, []), looked(2.0, SECOND)):
        made(message)
    found = made.recording({})
    assert_same(found, recording((0.9, 1.0, FIRST), (1.0, 1.5, []), (1.5, 2.0, SECOND), operations="paddr"))
    assert (found.about["source"], found.about["resident"]) == ("tried_regions", [])


def test_to_begin_again_replaces_what_was(tmp_path: Path) -> None:
    path = tmp_path / files.JOURNAL
    made = filled(path)
    made(begin(LOOKS))
    made(looked(5.0, FIRST))
    made.close()
    for found in (made.recording({}), journal.read(path)):
        assert_same(found, recording((4.9, 5.0, FIRST)))
        assert found.about["workload"] == "synthetic/stairs"
    assert len(path.read_text().splitlines()) == 2


def test_the_file_is_its_owners_and_says_the_same(tmp_path: Path) -> None:
    made = filled(tmp_path / "new" / files.JOURNAL)
    assert made.path
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    found = journal.read(made.path)  # nobody had closed it
    assert_same(found, WANTED)
    assert found.about == ABOUT


def test_a_last_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / files.JOURNAL
    filled(path).close()
    whole = path.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    assert last > 50
    for cut in range(1, last + 1):
        path.write_bytes(whole[:-cut])
        found = journal.read(path)
        assert found.nr_snapshots == 4
        assert found.about["resident"] == RESIDENT[:1]


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n",
        b"\xff\xfe\n",
        b"3\n",
        b"[]\n",
        b"null\n",
        b'{"kdamonds": []}\n',
        b'{"begin": {}}\n',
        b'{"begin": {"source": "trace"}, "operations": "vaddr", "attrs": {"no": 1}, "about": {}}\n',
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / files.JOURNAL
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="not a journal of 'damoos record'") as refusal:
        journal.read(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "line",
    [
        b"3\n",
        b'{"data": "!"}\n',
        b'{"data": 3}\n',
        b'{"data": "aGVsbG8="}\n',
        json.dumps({"resident": packed(b"[")}).encode() + b"\n",
        json.dumps({"data": packed(b"1234")}).encode() + b"\n",
    ],
)
def test_a_line_that_no_agent_sent_is_refused_in_one_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / files.JOURNAL
    made = Journal("vaddr", ATTRS, path=path)
    made(begin(LOOKS))
    made(looked(1.0, FIRST))
    made.close()
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(ConfigError, match="not a journal"):
        journal.read(path)


def test_a_file_that_is_missing_or_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recording\.journal: No such file"):
        journal.read(tmp_path / files.JOURNAL)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/recording\.journal"):
        filled(tmp_path / "file" / files.JOURNAL)


def test_nothing_that_came_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / files.JOURNAL).touch()
    with pytest.raises(MeasurementError, match="empty"):
        journal.read(tmp_path / files.JOURNAL)
    made = Journal("vaddr", ATTRS)
    with pytest.raises(MeasurementError, match="empty"):
        made.recording({})
    for words in (TRACE, LOOKS):
        made(begin(words))
        with pytest.raises(MeasurementError, match="no snapshot"):
            made.recording({})
    made(begin(TRACE))
    made({"event": "record", "data": packed(pages([(S, (0, 2, *FIRST[0]))]))})  # half a snapshot
    with pytest.raises(MeasurementError, match="no snapshot"):
        made.recording({})


def test_a_folder_with_only_a_journal_is_a_recording(tmp_path: Path) -> None:
    filled(tmp_path / "one" / files.JOURNAL).close()
    for name in (tmp_path / "one", "one"):
        path = files.find(name, tmp_path)
        assert path.name == files.JOURNAL
        assert_same(files.read(path), WANTED)
    files.write(recording((0, 1, FIRST)), tmp_path / "one" / files.FILE_NAME)
    assert files.find("one", tmp_path).name == files.FILE_NAME


def test_a_file_of_damos_keeps_what_the_journal_knows(tmp_path: Path) -> None:
    whole = filled().recording({"metrics": {"runtime_s": 2.5}})
    found = files.read(files.write(whole, tmp_path / files.FILE_NAME))
    assert_same(found, whole)
    assert found.about == whole.about
    assert found.about["resident"] == RESIDENT


def test_intervals_that_the_kernel_tunes_are_kept(tmp_path: Path) -> None:
    attrs = Attrs(goal=IntervalsGoal(aggrs=5))
    path = tmp_path / files.JOURNAL
    made = Journal("vaddr", attrs, path=path)
    made(begin(LOOKS))
    made(looked(1.0, FIRST))
    assert made.recording({}).attrs == attrs
    assert journal.read(path).attrs == attrs
    written = files.write(made.recording({}), tmp_path / files.FILE_NAME)
    assert files.read(written).attrs == attrs


def test_an_aggregation_begins_when_the_one_before_has_ended() -> None:
    found = filled().recording({})
    np.testing.assert_allclose(found.weight_s, [0.1, 0.1, 1, 1], atol=1e-9)


def test_ages_are_told_in_the_intervals_of_then() -> None:
    """The kernel tuned the interval from 0.1 to 0.4 s; one snapshot was lost. An age of 5 is 2 s at the end."""
    ends = np.array([0.1, 0.2, 0.3, 0.7, 1.1, 1.9, 2.3])
    columns = {
        "target": np.zeros(7, dtype=np.int64), "start_s": np.concatenate([[0.0], ends[:-1]]), "end_s": ends,
        "first": np.arange(8), "age": np.array([1, 2, 3, 1, 2, 4, 5]),
    }  # fmt: skip
    ages = ages_in_first_intervals(columns, Attrs(aggr_us=100_000, goal=IntervalsGoal()))
    assert ages.tolist() == [1, 2, 3, 4, 8, 16, 20]


def test_messages_without_content_are_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes memory, though it brings nothing."""
    monkeypatch.setattr(user_file, "MADE_BYTES", 1 << 20)
    kept = Journal("vaddr", ATTRS)
    for _ in range(1 << 10):
        kept({"event": "record", "data": ""})
    with pytest.raises(MachineError, match="sent a recording of more than 1 MiB"):
        kept({"event": "record", "data": ""})
