"""Programs that are asked something, and do what they should not."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import pytest

from damoos.common.programs import NoAnswer, answer


def test_what_it_says_and_its_status() -> None:
    told = answer(["sh", "-c", "cat; echo no >&2; exit 3"], "a text", 30, 1000)
    assert (told.exit_status, told.stdout, told.stderr) == (3, "a text", "no\n")


def test_more_input_than_a_pipe_holds() -> None:
    assert answer(["sh", "-c", "head -c 3"], "x" * 10_000_000, 30, 1000).stdout == "xxx"


def test_endless_output() -> None:
    with pytest.raises(NoAnswer, match="more than 1000 bytes"):
        answer(["yes"], "", 30, 1000)


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    program = f"sleep 1000 & echo $! > {tmp_path}/child; wait"
    with pytest.raises(NoAnswer, match=r"no answer within 0\.5 s"):
        answer(["sh", "-c", program], "", 0.5, 1000)
    _await_end(int((tmp_path / "child").read_text()))


def test_one_that_closes_its_output_and_goes_on_is_killed() -> None:
    with pytest.raises(NoAnswer, match=r"no answer within 0\.3 s"):
        answer(["sh", "-c", "exec >&- 2>&-; exec sleep 600"], "", 0.3, 1000)


def test_a_child_that_is_left_behind_holds_nothing_up(tmp_path: Path) -> None:
    told = answer(["sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/child; echo 0.5"], "", 60, 1000)
    assert (told.exit_status, told.stdout) == (0, "0.5\n")
    _await_end(int((tmp_path / "child").read_text()))


def test_one_that_is_not_there() -> None:
    with pytest.raises(OSError, match="no_such"):
        answer(["/no_such"], "", 1, 1)


def test_bytes_that_are_no_text() -> None:
    code = "import sys; sys.stdout.buffer.write(bytes([255, 65]))"
    assert answer([sys.executable, "-c", code], "", 30, 100).stdout.endswith("A")


def _await_end(pid: int) -> None:
    """Wait until a process that was killed is gone, or only waits to be collected; the test's time limit ends it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while " Z " not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.01)
