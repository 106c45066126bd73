"""Transparent huge pages, as the agent sets them and tells them; the files are those of a 6.12 kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent import huge_pages, machine_setup
from damoos.agent.undo import UndoLog
from damoos.errors import UnsupportedError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "transparent_hugepage"
    path.mkdir()
    (path / "enabled").write_text("always madvise [never]\n")
    return path


@pytest.fixture
def sizes(folder: Path) -> Path:
    (folder / "hpage_pmd_size").write_text("2097152\n")
    for size, mode in (("64", "[always] inherit madvise never"), ("2048", "always [inherit] madvise never")):
        (folder / f"hugepages-{size}kB").mkdir()
        (folder / f"hugepages-{size}kB/enabled").write_text(f"{mode}\n")
    return folder


@pytest.fixture
def log(tmp_path: Path) -> UndoLog:
    return UndoLog(tmp_path / "undo.json")


def test_a_mode_is_set_and_undone(folder: Path, log: UndoLog) -> None:
    huge_pages.set_mode("always", log, folder)
    assert huge_pages.settings(folder) == {"mode": "always"}
    assert log.undo() == []
    assert (folder / "enabled").read_text() == "never\n"


def test_a_mode_in_force_is_no_change(folder: Path, log: UndoLog) -> None:
    huge_pages.set_mode("never", log, folder)
    assert len(log) == 0


def test_never_holds_for_all_sizes(sizes: Path, log: UndoLog) -> None:
    assert huge_pages.settings(sizes) == {"mode": "never", "64kB": "always", "2048kB": "inherit"}
    huge_pages.set_mode("never", log, sizes)
    assert huge_pages.settings(sizes) == {"mode": "never", "64kB": "never", "2048kB": "inherit"}
    assert log.undo() == []
    assert huge_pages.settings(sizes)["64kB"] == "always"


def test_a_mode_means_the_processors_size(sizes: Path, log: UndoLog) -> None:
    (sizes / "hugepages-2048kB/enabled").write_text("always inherit madvise [never]\n")
    huge_pages.set_mode("always", log, sizes)
    assert huge_pages.settings(sizes) == {"mode": "always", "64kB": "never", "2048kB": "inherit"}


def test_a_mode_that_cannot_be_set_is_an_error(folder: Path, log: UndoLog) -> None:
    with pytest.raises(UnsupportedError, match="no THP mode 'alway'; did you mean 'always'"):
        huge_pages.set_mode("alway", log, folder)
    (folder / "enabled").unlink()
    with pytest.raises(UnsupportedError, match="no transparent huge pages"):
        huge_pages.set_mode("always", log, folder)
    assert huge_pages.settings(folder) == {}
    assert len(log) == 0


def test_a_machine_without_huge_pages_is_one_with_never(
    tmp_path: Path, log: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huge_pages, "usable", lambda: False)
    machine_setup.prepare({"thp": "never"}, log)
    assert len(log) == 0
