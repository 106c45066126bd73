from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.agent.proc import start_ticks
from damoos.agent.undo import UndoLog
from damoos.errors import MachineError


def test_changes_are_taken_back_last_first(tmp_path: Path) -> None:
    knob = tmp_path / "knob"
    knob.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(knob, 2)
    log.set_file(knob, 3)
    assert len(log) == 2
    assert log.undo() == []
    assert knob.read_text().strip() == "1"
    assert not log


def test_the_chosen_word_of_a_list_is_what_comes_back(tmp_path: Path) -> None:
    thp = tmp_path / "enabled"
    thp.write_text("always [madvise] never\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(thp, "never")
    log.undo()
    assert thp.read_text().strip() == "madvise"


def test_no_change_no_entry(tmp_path: Path) -> None:
    thp = tmp_path / "enabled"
    thp.write_text("always madvise [never]\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(thp, "never")
    assert not log


def test_another_process_can_undo(tmp_path: Path) -> None:
    knob = tmp_path / "knob"
    knob.write_text("1\n")
    UndoLog(tmp_path / "undo.json").set_file(knob, 2)
    assert UndoLog(tmp_path / "undo.json").undo() == []
    assert knob.read_text().strip() == "1"
    assert json.loads((tmp_path / "undo.json").read_text()) == []


def test_one_failure_does_not_stop_the_rest_and_is_told(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("1\n")
    second.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(first, 2)
    log.set_file(second, 2)
    second.unlink()
    second.mkdir()
    with pytest.raises(MachineError, match=r"could not undo.*second"):
        log.restore()
    assert first.read_text().strip() == "1"


def test_only_what_came_after_a_mark(tmp_path: Path) -> None:
    knob = tmp_path / "knob"
    knob.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(knob, 2)
    mark = len(log)
    log.set_file(knob, 3)
    log.restore(keep=mark)
    assert knob.read_text().strip() == "2"


def test_a_process_group_is_ended(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    log = UndoLog(tmp_path / "undo.json")
    log.record("process_group", pgid=child.pid, start_ticks=start_ticks(child.pid))
    log.undo()
    assert child.wait(5) == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_what_has_ended_is_forgotten(tmp_path: Path) -> None:
    """The number of a process that has ended may be another one's when the list is undone."""
    log = UndoLog(tmp_path / "undo.json")
    log.record("process_group", pgid=4_194_000, start_ticks=1)
    log.record("folder", path=str(tmp_path / "run"))
    log.forget("process_group", pgid=4_194_000)
    assert json.loads((tmp_path / "undo.json").read_text()) == [{"kind": "folder", "path": str(tmp_path / "run")}]


def test_folders_and_swap_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/swaps").write_text("Filename Type Size Used Priority\n/dev/else partition 1 0 -2\n")
    (tmp_path / "run/data").mkdir(parents=True)
    (tmp_path / "swap").touch()
    log = UndoLog(tmp_path / "undo.json", root=tmp_path)
    log.record("folder", path=str(tmp_path / "run"))
    log.record("swap_file", path=str(tmp_path / "swap"))
    log.record("swap", device="/dev/none")  # was never turned on
    log.record("null_blk", name="damoos-1")  # was never made
    log.record("mount", path=str(tmp_path / "run"))  # was never mounted
    assert log.undo() == []
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "swap").exists()


def test_a_group_whose_number_is_another_process_s_now_is_left_alone(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    log = UndoLog(tmp_path / "undo.json")
    log.record("process_group", pgid=child.pid, start_ticks=1)
    assert log.undo() == []
    assert child.poll() is None
    child.kill()
    child.wait()


def test_what_could_not_be_undone_is_kept_told_and_tried_again(tmp_path: Path) -> None:
    knob, other = tmp_path / "knob", tmp_path / "other"
    knob.write_text("1\n")
    other.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(knob, 2)
    log.set_file(other, 2)
    knob.unlink()
    knob.mkdir()  # cannot be written
    assert len(log.undo()) == 1
    assert other.read_text().strip() == "1"

    later = UndoLog(tmp_path / "undo.json")
    assert later.left_behind() == [f"file path={knob} value=1"]
    later.record("folder", path=str(tmp_path / "new"))
    (problem,) = later.undo_left_behind()
    assert str(knob) in problem
    knob.rmdir()
    knob.write_text("2\n")
    assert later.undo_left_behind() == later.left_behind() == []
    assert knob.read_text().strip() == "1"
    assert len(later) == 1  # what this one has changed is not touched


def test_a_younger_value_of_a_file_is_not_brought_back_after_an_older_one(tmp_path: Path) -> None:
    """The younger change of two could not be undone, the older one could: the file is as it was."""
    knob = tmp_path / "knob"
    knob.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(knob, 2)
    mark = len(log)
    log.set_file(knob, 3)
    knob.unlink()
    knob.mkdir()
    assert log.undo(keep=mark)
    knob.rmdir()
    knob.write_text("3\n")
    assert log.undo() == []
    assert not log
    assert knob.read_text().strip() == "1"
    assert UndoLog(tmp_path / "undo.json").undo() == []
    assert knob.read_text().strip() == "1"


def test_a_list_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "undo.json").write_text("[{")
    with pytest.raises(MachineError, match=r"undo\.json, the list of what damoos has to undo here, cannot be read"):
        UndoLog(tmp_path / "undo.json")
    (tmp_path / "planted").write_text("[]")
    (tmp_path / "link").symlink_to("planted")
    with pytest.raises(MachineError, match="cannot be read"):
        UndoLog(tmp_path / "link")


# What happens to a few files in turn: one is set, one is blocked or freed, changes back to a mark are undone.
FILES = 3
_EVENTS = st.one_of(
    st.tuples(st.just("set"), st.integers(0, FILES - 1), st.integers(0, 3)),
    st.tuples(st.sampled_from(("block", "free")), st.integers(0, FILES - 1), st.just(0)),
    st.tuples(st.just("mark"), st.just(0), st.just(0)),
    st.tuples(st.just("undo"), st.just(0), st.just(0)),
    st.tuples(st.just("killed"), st.just(0), st.just(0)),
    st.tuples(st.just("killed before the change"), st.integers(0, FILES - 1), st.just(0)),
)


@given(st.lists(_EVENTS, max_size=25))
def test_any_sequence_of_changes_is_restored(events: list[tuple[str, int, int]]) -> None:
    """Whatever is changed, blocked for a while, undone in part, or taken up by the next agent after a kill."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / str(number) for number in range(FILES)]
        for number, file in enumerate(files):
            file.write_text(f"{number}\n")
        log, marks, blocked = UndoLog(folder / "undo.json"), [], set()
        for event, number, value in events:
            file = files[number]
            if event == "set" and file not in blocked:
                log.set_file(file, value)
            elif event == "block" and file not in blocked:
                file.rename(folder / f"{number}.kept")
                file.mkdir()
                blocked.add(file)
            elif event == "free" and file in blocked:
                file.rmdir()
                (folder / f"{number}.kept").rename(file)
                blocked.remove(file)
            elif event == "mark":
                marks.append(len(log))
            elif event == "undo":
                log.undo(keep=marks.pop() if marks else 0)
            elif event.startswith("killed"):
                if event == "killed before the change" and file not in blocked:
                    log.record("file", path=str(file), value=file.read_text().strip())
                log, marks = UndoLog(folder / "undo.json"), []
                log.undo()
        for file in blocked:
            file.rmdir()
            (folder / f"{file.name}.kept").rename(file)
        assert UndoLog(folder / "undo.json").undo() == []
        assert [file.read_text().strip() for file in files] == [str(number) for number in range(FILES)]


def test_what_somebody_else_has_changed_since_stays(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for file in (ours, theirs):
        file.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(ours, 2)
    log.set_file(theirs, 2)
    assert log.changed_by_others() == []
    theirs.write_text("3\n")
    assert log.changed_by_others() == [f"{theirs} is '3', which damoos had set to '2'"]
    assert log.undo() == []
    assert (ours.read_text(), theirs.read_text()) == ("1\n", "3\n")


def test_what_a_rule_writes_again_and_again_is_not_somebody_else_s(tmp_path: Path) -> None:
    file = tmp_path / "memory.high"
    file.write_text("max\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(file, 100)
    log.record("file", path=str(file), value="100")
    file.write_text("90\n")
    assert log.changed_by_others() == []
    assert log.undo() == []
    assert file.read_text() == "max\n"


def test_a_change_that_nobody_read_back_is_taken_back(tmp_path: Path) -> None:
    """The agent was killed between the two: whatever is there is not known to be somebody else's."""
    file = tmp_path / "file"
    file.write_text("3\n")
    (tmp_path / "undo.json").write_text(json.dumps([{"kind": "file", "path": str(file), "value": "1"}]))
    assert UndoLog(tmp_path / "undo.json").undo() == []
    assert file.read_text() == "1\n"


def test_each_of_several_owners_undoes_its_own(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("redis", "nginx", "machine")}
    for file in files.values():
        file.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(files["machine"], 2)
    redis, nginx = log.part("redis"), log.part("nginx")
    redis.set_file(files["redis"], 2)
    nginx.set_file(files["nginx"], 2)
    assert (len(log), len(redis), len(nginx)) == (3, 1, 1)
    redis.restore()
    assert [file.read_text() for file in files.values()] == ["1\n", "2\n", "2\n"]
    nginx.record("kdamond", interface="sysfs")
    nginx.forget("kdamond")
    assert len(nginx) == 1
    again = UndoLog(tmp_path / "undo.json")
    assert len(again) == 2
    assert again.undo() == []
    assert {file.read_text() for file in files.values()} == {"1\n"}


def test_what_is_to_stay_outlives_the_agent_and_not_the_next_one(tmp_path: Path) -> None:
    """And what has no owner: swap, say, which it may need."""
    knobs = {name: tmp_path / name for name in ("machine", "redis", "scheme", "nginx")}
    for knob in knobs.values():
        knob.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(knobs["machine"], 2)
    log.part("redis").record("stay")
    log.part("redis").set_file(knobs["redis"], 2)
    log.part("redis: schemes").set_file(knobs["scheme"], 2)
    log.part("nginx").set_file(knobs["nginx"], 2)
    assert log.leave() == []
    assert [knob.read_text().strip() for knob in knobs.values()] == ["2", "2", "2", "1"]
    assert UndoLog(tmp_path / "undo.json").undo() == []
    assert [knob.read_text().strip() for knob in knobs.values()] == ["1"] * 4


def test_once_that_is_taken_off_everything_is_undone(tmp_path: Path) -> None:
    knob = tmp_path / "knob"
    knob.write_text("1\n")
    log = UndoLog(tmp_path / "undo.json")
    log.set_file(knob, 2)
    redis = log.part("redis")
    redis.record("stay")
    redis.restore()
    assert log.leave() == []
    assert knob.read_text().strip() == "1"
