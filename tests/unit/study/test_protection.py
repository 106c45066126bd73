"""What a recording says is worth protecting, and an evaluation of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.api import comparisons
from damoos.errors import ConfigError
from damoos.recordings import files
from damoos.testing.fake import FakeMachine
from tests.records import recording

WORKLOAD = "synthetic/hot-cold"
ROWS = [(0x1000, 0x9000, 20, 5), (0x9000, 0x100000, 0, 9)]


def recorded(folder: Path, name: str = "rec-1", operations: str = "vaddr", **about: object) -> None:
    (folder / name).mkdir()
    files.write(recording((0.0, 0.1, ROWS), operations=operations, about=about), folder / name / files.FILE_NAME)


def evaluated(folder: Path) -> dict:
    found = comparisons.evaluate([WORKLOAD], ["a"], ["protect:rec-1"], repeats=3, results=folder)
    return dict(found.studies[0]["configs"]["protect:rec-1"])


def test_hot_parts_are_locked_in_each_run(machines: dict[str, FakeMachine], tmp_path: Path) -> None:
    machines["a"] = FakeMachine(noise=0.001)
    recorded(tmp_path, aslr=False)
    config = evaluated(tmp_path)
    assert config["protect"] == [[0x1000, 0x9000]]
    assert config["error"] == ""
    assert config["quantities"]["slowdown"]["mean"] == pytest.approx(0, abs=0.01)


def test_a_run_of_which_nothing_is_locked_has_failed(machines: dict[str, FakeMachine], tmp_path: Path) -> None:
    machines["a"] = FakeMachine(noise=0.001, locks=False)
    recorded(tmp_path, aslr=False)
    assert "nothing of it was locked; it is linked statically" in evaluated(tmp_path)["error"]


@pytest.mark.parametrize(
    ("operations", "about", "message"),
    [
        ("vaddr", {}, "record it with 'damoos record' on a machine whose file has 'aslr = false'"),
        ("vaddr", {"aslr": True}, "only if they are the same in each run"),
        ("paddr", {"aslr": False}, "only a program's own addresses"),
    ],
)
def test_other_recordings_are_refused(tmp_path: Path, operations: str, about: dict, message: str) -> None:
    recorded(tmp_path, operations=operations, **about)
    with pytest.raises(ConfigError, match=message):
        evaluated(tmp_path)


def test_a_recording_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rec-1: no such file, and no recording of this name"):
        evaluated(tmp_path)
