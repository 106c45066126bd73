"""The kernel's own monitor, switched off and on again, on a fake tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent.damon_stat import readings, switch_off
from damoos.agent.undo import UndoLog
from damoos.damon.interface import used_by_others
from damoos.damon.kdamond import DAMON_STAT


@pytest.fixture
def parameters(tmp_path: Path) -> Path:
    folder = tmp_path / DAMON_STAT
    folder.mkdir(parents=True)
    (folder / "enabled").write_text("Y\n")
    (folder / "memory_idle_ms_percentiles").write_text(",".join(str(n - 10) for n in range(101)) + "\n")
    (folder / "estimated_memory_bandwidth").write_text("4096\n")
    return folder


def test_it_is_off_for_the_time_of_a_lease_and_on_again_after_it(tmp_path: Path, parameters: Path) -> None:
    log = UndoLog(tmp_path / "undo.json", tmp_path)
    assert used_by_others(tmp_path) == "", "it is nobody's work"
    switch_off(log, tmp_path)
    assert (parameters / "enabled").read_text() == "N\n"
    assert log.undo() == []
    assert (parameters / "enabled").read_text() == "Y\n"


def test_what_is_off_stays_off(tmp_path: Path, parameters: Path) -> None:
    (parameters / "enabled").write_text("N\n")
    log = UndoLog(tmp_path / "undo.json", tmp_path)
    switch_off(log, tmp_path)
    assert not log
    assert readings(tmp_path) is None


def test_what_it_has_seen(tmp_path: Path, parameters: Path) -> None:
    seen = readings(tmp_path)
    assert seen is not None
    assert (seen["idle_ms_percentiles"][0], seen["idle_ms_percentiles"][100]) == (-10, 90)
    assert (seen["bandwidth_bytes_per_s"], seen["aggr_us"]) == (4096, None), "6.17 does not tell its interval"
    (parameters / "aggr_interval_us").write_text("200000\n")
    assert readings(tmp_path)["aggr_us"] == 200_000


def test_a_kernel_without_it(tmp_path: Path) -> None:
    assert readings(tmp_path) is None
