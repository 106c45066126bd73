"""Programs of a run: real processes, awaited and ended, and what is told of them."""

import signal
from pathlib import Path

import pytest

from damoos.agent import children
from damoos.agent.programs import Programs
from damoos.agent.undo import UndoLog
from damoos.errors import WorkloadError


@pytest.fixture
def log(tmp_path: Path) -> UndoLog:
    return UndoLog(tmp_path / "undo.json")


@pytest.fixture
def programs(tmp_path: Path, log: UndoLog) -> Programs:
    folder, outputs = tmp_path / "folder", tmp_path / "outputs"
    folder.mkdir()
    outputs.mkdir()
    return Programs(folder, outputs, {"env": {"WORD": "all", "OTHER": "all"}}, log, lambda: False)


def test_what_a_program_prints_and_writes_is_told_when_it_has_ended(programs: Programs, log: UndoLog) -> None:
    words = "echo $WORD $OTHER; echo oops >&2; echo 7 > one.csv; exit 3"
    program = programs.start(["sh", "-c", words], "program", None, env={"OTHER": "own"})
    assert len(log) == 1
    assert programs.wait(program, 60, lambda: 0.5)
    programs.end(program)
    assert program.exit_status == 3
    assert program.cpu_s >= (0.0, 0.0)
    assert programs.output(program, {"p99_ms": "*.csv"}) == {
        "stdout": "all own\n",
        "stderr": "oops\n",
        "files": {"one.csv": "7\n"},
    }
    assert programs.said("program") == "oops"
    assert len(log) == 0


def test_a_program_that_goes_on_is_killed(programs: Programs) -> None:
    program = programs.start(["sleep", "1000"], "program", None)
    assert not programs.wait(program, 0, lambda: 0.5)
    assert not program.has_ended
    assert program.pid in program.pids()
    programs.end(program)
    assert program.exit_status == -signal.SIGKILL
    programs.end(program)  # once more changes nothing


def test_one_that_prints_too_much_is_named(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "PRINT_BYTES", 10)
    program = programs.start(["echo", "more than ten bytes"], "load", None)
    assert programs.wait(program, 60, lambda: 0.5)
    programs.end(program)
    with pytest.raises(WorkloadError, match="the load printed more than"):
        programs.check_output()
