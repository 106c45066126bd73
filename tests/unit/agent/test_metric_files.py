"""Files that a program has left for its metrics, and what a hostile one leaves instead."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from damoos.agent import metric_files
from damoos.agent.metric_files import contents
from damoos.errors import WorkloadError


def test_files_that_match_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("a.csv", "b.csv", "deep/c.csv", "other"):
        (tmp_path / name).write_text(name)
    (tmp_path / os.fsdecode(b"\xff.hdr")).write_bytes(b"\xff")
    assert contents(tmp_path, {"p50_ms": "*.csv", "p99_ms": "**/*.csv", "q": "*.hdr", "none": "nosuch"}) == {
        **{name: name for name in ("a.csv", "b.csv", "deep/c.csv")}, "\ufffd.hdr": "\ufffd",
    }  # fmt: skip
    assert contents(tmp_path, {}) == {}


def test_what_is_no_file_is_named_with_its_metric(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "server.sock"))
    os.mkfifo(tmp_path / "pipe.fifo")
    (tmp_path / "gone.link").symlink_to("nosuch")
    (tmp_path / "round.loop").symlink_to("round.loop")
    (tmp_path / "folder.d").mkdir()
    for pattern, why in {
        "*.sock": "'server.sock' in the run's folder is no regular file",
        "*.fifo": "'pipe.fifo' in the run's folder is no regular file",
        "*.d": "'folder.d' in the run's folder is no regular file",
        "*.link": "'gone.link' in the run's folder: No such file or directory",
        "*.loop": "'round.loop' in the run's folder: Too many levels of symbolic links",
    }.items():
        with pytest.raises(WorkloadError) as told:
            contents(tmp_path, {"p99_ms": pattern})
        assert str(told.value) == f"metric 'p99_ms': {why}"
    listening.close()


def test_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_files, "MOST_FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.csv").touch()
        (tmp_path / f"{number}.hdr").touch()
    assert len(contents(tmp_path, {"p99_ms": "[0-2].csv"})) == 3
    for patterns in ({"p99_ms": "*.csv"}, {"q": "[0-2].hdr", "p99_ms": "*.csv"}):
        with pytest.raises(
            WorkloadError, match=r"^metric 'p99_ms': metrics are read from more than 3 files, with those"
        ):
            contents(tmp_path, patterns)


@pytest.mark.parametrize("byte", [b"1", b"\0", b"\xff"])
def test_large_files_are_refused_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, byte: bytes) -> None:
    """By what is sent: a byte that is no letter is sent as six."""
    monkeypatch.setattr(metric_files, "FILES_BYTES", 5 << 20)
    for name in ("a.csv", "b.csv", "c.csv"):
        (tmp_path / name).write_bytes(byte * (2 << 20))
    with pytest.raises(WorkloadError, match=r"^metric 'p99_ms': the files that metrics are read from have more than 5"):
        contents(tmp_path, {"p99_ms": "*.csv"})
    (tmp_path / "c.csv").write_bytes(byte * (1 << 19))
    assert contents(tmp_path, {"p99_ms": "c.csv"})


def test_a_deep_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    here = os.open(tmp_path / "run", os.O_DIRECTORY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        with pytest.raises(
            WorkloadError, match=r"^metric 'p99_ms': no files are found that match '\*\*/x': its folders"
        ):
            contents(tmp_path, {"p99_ms": "**/x"})
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "run"], check=True)
