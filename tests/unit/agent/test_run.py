"""Runs of real programs on this host, without a cgroup: what is counted, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent import cgroup, folders, steering
from damoos.agent.controllers.base import Controller
from damoos.agent.folders import Folders
from damoos.agent.run import Run
from damoos.agent.undo import UndoLog


class BusyOnce(Controller):
    """Takes a second of CPU time at each look until a file is there, and none from then on."""

    def __init__(self, file: Path) -> None:
        super().__init__(file.parent, 0.01)
        self._file = file

    def look(self) -> None:
        """There is nothing to look at."""

    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Take a second where it is due; the decision is how many."""
        spent_s = 0.0 if self._file.exists() else 1.0
        self.cpu_s += spent_s
        return (spent_s,)


def test_what_a_controller_does_while_a_server_warms_up_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(folders, "data_folder", lambda: tmp_path / "data")
    monkeypatch.setattr(cgroup, "usable", lambda: False)
    warm = tmp_path / "warm"
    rule = BusyOnce(warm)
    monkeypatch.setattr(steering, "controller", lambda spec, group: rule)
    log = UndoLog(tmp_path / "undo.json")
    # Each command is looked after several times: a run looks at least twice a second.
    load = {"ready": [], "warm_up": [["sleep", "1"], ["touch", str(warm)]], "argv": ["sleep", "1"], "address": "none"}
    spec = {
        "argv": ["sleep", "600"], "env": {}, "load": load, "limit_s": 60, "sample_s": 0.1, "drop_caches": False,
        "context": None, "controller": {"name": "busy"},
    }  # fmt: skip
    raw = Run(spec, log, Folders(log), None, lambda: False, lambda _: None)()
    spent = [row[1] for row in raw["controller"]["decisions"]]
    assert spent[0] == 1.0
    assert spent[-1] == 0.0
    assert raw["controller"]["cpu_s"] < 1.0
