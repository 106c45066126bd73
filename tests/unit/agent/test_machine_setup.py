"""THP modes, as the agent sets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent import machine_setup
from damoos.agent.undo import UndoLog
from damoos.errors import UnsupportedError


@pytest.fixture
def enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "enabled"
    path.write_text("always madvise [never]\n")
    monkeypatch.setattr(machine_setup, "THP_ENABLED", path)
    return path


def test_a_mode_is_set_and_undone(enabled: Path, tmp_path: Path) -> None:
    log = UndoLog(tmp_path / "undo.json")
    machine_setup.set_thp("always", log)
    assert enabled.read_text() == "always\n"
    assert log.undo() == []
    assert enabled.read_text() == "never\n"


def test_a_mode_in_force_is_no_change(enabled: Path, tmp_path: Path) -> None:
    log = UndoLog(tmp_path / "undo.json")
    machine_setup.set_thp("never", log)
    assert len(log) == 0


def test_what_cannot_be_is_said(enabled: Path, tmp_path: Path) -> None:
    log = UndoLog(tmp_path / "undo.json")
    with pytest.raises(UnsupportedError, match="no THP mode 'alway'; did you mean 'always'"):
        machine_setup.set_thp("alway", log)
    enabled.unlink()
    with pytest.raises(UnsupportedError, match="no transparent huge pages"):
        machine_setup.set_thp("always", log)
    machine_setup.prepare({"thp": "never"}, log)  # a machine without THP is one with "never"
    assert len(log) == 0
