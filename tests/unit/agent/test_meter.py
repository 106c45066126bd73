"""What is read of processes while something is measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from damoos.agent import meter, proc
from damoos.agent.meter import EXACT_SHARE, SAMPLE_COLUMNS, Meter


def test_a_sample_has_a_value_in_each_column() -> None:
    meter = Meter(None, None)
    meter.sample([os.getpid()])
    (sample,) = meter.read()["samples"]
    row = dict(zip(SAMPLE_COLUMNS, sample, strict=True))
    assert 0 < row["pss_bytes"] <= row["rss_bytes"] * 1.5
    assert 0 <= row["anon_huge_bytes"] <= row["rss_bytes"]
    assert row["major_faults"] >= 0


def test_major_faults_are_those_of_the_group_since_it_is_measured(tmp_path: Path) -> None:
    stat = tmp_path / "memory.stat"
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (tmp_path / "cpu.stat").write_text("user_usec 1\nsystem_usec 1\n")
    stat.write_text("anon 4096\npgmajfault 10\n")
    meter = Meter(tmp_path, None)
    meter.sample([os.getpid()])
    stat.write_text("anon 4096\npgmajfault 17\n")
    meter.sample([os.getpid()])
    column = SAMPLE_COLUMNS.index("major_faults")
    assert [sample[column] for sample in meter.read()["samples"]] == [0, 7]


def test_a_process_that_is_gone_has_nothing() -> None:
    assert proc.mapped_bytes(2**22 + 1) == (0, 0)


def test_walks_through_page_tables_keep_to_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of 128 GiB: a walk takes a second of a CPU. What it found holds until the next one."""
    clock = {"now_s": 100.0, "cpu_s": 0.0}
    walks = []

    def walk(pid: int) -> tuple[int, int]:
        clock["cpu_s"] += 0.9
        clock["now_s"] += 0.9
        walks.append(pid)
        return 5, 3

    monkeypatch.setattr(meter.time, "monotonic", lambda: clock["now_s"])
    monkeypatch.setattr(meter.time, "thread_time", lambda: clock["cpu_s"])
    monkeypatch.setattr(proc, "mapped_bytes", walk)
    measuring = Meter(None, None)
    for _ in range(1000):
        measuring.sample([os.getpid()])
        clock["now_s"] += 0.5
    result = measuring.read()
    assert result["sampling_cpu_s"] == pytest.approx(0.9 * len(walks))
    assert result["sampling_cpu_s"] <= 1.5 * EXACT_SHARE * result["runtime_s"]
    assert {row[SAMPLE_COLUMNS.index("pss_bytes")] for row in result["samples"]} == {5}
