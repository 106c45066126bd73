"""What is no regular file is not read, and of one no more than it can have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from damoos import regular_file
from damoos.agent import metric_source
from damoos.cli import settings
from damoos.errors import MeasurementError
from damoos.machines.bundle import _sources


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(regular_file.NotRegularError, match="not a regular file"):
            regular_file.whole(path, 10)
        with pytest.raises(MeasurementError, match=f"^'{path}': it is no regular file$"):
            metric_source.reading("file", [str(path)])


def test_a_file_has_as_much_as_it_may(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert regular_file.whole(tmp_path / "file", 10) == b"x" * 10
    with pytest.raises(regular_file.TooLargeError, match="larger than 9 bytes"):
        regular_file.whole(tmp_path / "file", 9)
    assert regular_file.whole(Path("/proc/self/comm"), 100)  # whose size is told as 0
    with pytest.raises(regular_file.TooLargeError):
        regular_file.whole(Path("/proc/self/comm"), 1)


def test_a_link_is_followed_unless_it_is_not_to_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("7")
    (tmp_path / "link").symlink_to("file")
    assert regular_file.whole(tmp_path / "link", 10) == b"7"
    with pytest.raises(OSError, match="symbolic links"):
        regular_file.descriptor(tmp_path / "link", os.O_NOFOLLOW)


def test_agent_and_controller_have_one_reader() -> None:
    assert "damoos/regular_file.py" in _sources()
    for module in (metric_source, settings):
        assert module.regular_file is regular_file
        assert not hasattr(module, "_FLAGS")


def test_a_file_of_a_folder_is_not_read_where_a_link_leads_out_of_it(tmp_path: Path) -> None:
    for file in ("theirs/in/file", "secret"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("7")
    theirs = tmp_path / "theirs"
    (theirs / "link").symlink_to("in/file")
    (theirs / "out").symlink_to(tmp_path / "secret")
    (theirs / "up").symlink_to(tmp_path)
    os.mkfifo(theirs / "pipe")
    for name in ("in/file", "link", "in/../link"):
        assert regular_file.whole_below(theirs, theirs / name, 10) == b"7"
    for name in ("out", "up/secret", "../secret", "/etc/passwd"):
        with pytest.raises(regular_file.OutsideError, match=f"leads out of {theirs}"):
            regular_file.whole_below(theirs, theirs / name, 10)
    with pytest.raises(regular_file.NotRegularError):
        regular_file.whole_below(theirs, theirs / "pipe", 10)
