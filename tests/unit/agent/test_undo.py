from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

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
    log.record("process_group", pgid=child.pid)
    log.undo()
    assert child.wait(5) == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_what_has_ended_is_forgotten(tmp_path: Path) -> None:
    """The number of a process that has ended may be another one's when the list is undone."""
    log = UndoLog(tmp_path / "undo.json")
    log.record("process_group", pgid=4_194_000)
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
    assert log.undo() == []
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "swap").exists()
