"""Files of a service by a colleague who means harm: none takes much more memory than an honest one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.errors import StoreError
from damoos.service.journal import Journal
from damoos.service.liveness import KeeperFile, Liveness
from damoos.service.windows import MOST_BYTES_OF_WINDOWS, Windows
from damoos.store.artifacts import Artifacts
from damoos.testing.rollout_fleet import spec
from tests.unit.service.test_keeper import STATE

READ = """
import resource, sys
from pathlib import Path
from damoos.errors import StoreError
from damoos.service.journal import Journal
from damoos.store.artifacts import Artifacts
folder, used = Path(sys.argv[1]), int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
journal = Journal(folder)
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_AS)[1]))
print(sorted(journal.states()), journal.keeper_pid, len(journal.windows("a")), repr(journal.last_words("a")))
try:
    print(Artifacts(folder).read_json("a.json"))
except StoreError as error:
    print(error)
"""
# An honest folder takes 5 MiB; each of the files below took several hundred MiB, or several GiB.
MOST_BYTES = 200 << 20
SPARSE_BYTES = 2 << 30


def in_bounds(folder: Path) -> tuple[str, str]:
    """What is read of a folder, and what is said of its files."""
    argv = [sys.executable, "-c", READ, str(folder), str(MOST_BYTES)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout, done.stderr


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, SPARSE_BYTES)


def lists(path: Path) -> None:
    path.write_bytes(b'{"x": [' + b"[]," * (10 << 20) + b"[]]}")


def lists_within_the_size(path: Path) -> None:
    path.write_bytes(b'{"x": [' + b"[]," * 330_000 + b"[]]}")


def lines_of_lists(path: Path) -> None:
    line = b'{"at_s": 1, "x": [' + b"[]," * 20_000 + b"[]]}\n"
    path.write_bytes(line * 500)


def short_lines(path: Path) -> None:
    path.write_bytes(b'{"at_s":1}\n' * (4 << 20))


@pytest.mark.parametrize(
    ("name", "fill"),
    [
        (".keeper", sparse), ("a.state", sparse), ("a.state", lists), ("a.state", lists_within_the_size),
        ("a.windows", sparse), ("a.windows", lines_of_lists), ("a.windows", short_lines), ("a.windows-before", sparse),
        ("audit.log", sparse), ("a.json", sparse), ("a.json", lists),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_no_file_of_a_service_fills_memory(tmp_path: Path, name: str, fill: Callable[[Path], None]) -> None:
    fill(tmp_path / name)
    if name == "a.windows-before":
        (tmp_path / "a.windows").touch()
    read, said = in_bounds(tmp_path)
    assert read.startswith("['a'] 0 " if name == "a.state" else "[] 0 ")
    if name == "a.state":
        (line,) = said.splitlines()
        assert "larger than 1 MiB" in line or "more values than" in line
    if name == "a.json":
        assert "a.json: larger than 16 MiB" in read


@pytest.mark.slow
def test_of_files_that_are_too_long_the_end_is_read(tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"at_s": float(nth), "paused": False}).encode() + b"\n" for nth in range(300_000))
    assert len(lines) > 2 * MOST_BYTES_OF_WINDOWS
    (tmp_path / "a.windows").write_bytes(lines)
    windows = Windows(tmp_path, "a")
    found = windows.read()
    assert found[-1]["at_s"] == 299_999.0
    with open(tmp_path / "a.windows", "a") as file:
        file.write('{"at_s": 300000.0}\n')
    assert windows.read()[-2:][0]["at_s"] == 299_999.0
    assert found[-1]["at_s"] == 300_000.0
    audit = "2026-11-27T00:00:00+0000 a: {}\n"
    (tmp_path / "audit.log").write_text(audit.format("x" * (2 << 20)) + audit.format("on") + audit.format("off"))
    assert Journal(tmp_path).last_words("a") == "off"


def test_honest_files_are_far_from_the_limits(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    watched = {f"metric-{nth}": 1.5 for nth in range(1000)}
    journal.tell("a", {**STATE, "watched": watched, "damos": [{"sz_applied_bytes": 1.0}] * 1000})
    journal.want("a", spec(machine="there") | {"metrics": [["cmd", "x" * 100]] * 1000})
    journal.add_window("a", {"at_s": 1.0, "watched": watched})
    assert list(journal.states()) == list(journal.wanted()) == ["a"]
    assert journal.windows("a")[0]["watched"] == watched


@pytest.mark.parametrize("words", ["1 nan nan nan", "1 1e999 0 0", "x", "", "1 " + "0" * 300])
def test_a_keeper_s_file_with_other_words_tells_of_none(tmp_path: Path, words: str) -> None:
    (tmp_path / ".keeper").write_text(words)
    assert KeeperFile(tmp_path).liveness() == Liveness()


def test_a_pipe_in_the_folder_of_a_study_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.json")
    with pytest.raises(StoreError, match="not a regular file"):
        Artifacts(tmp_path).read_json("x.json")
    (tmp_path / "y.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match="more levels than"):
        Artifacts(tmp_path).read_json("y.json")
