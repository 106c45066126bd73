"""DAMON's files, on a fake tree; what a real kernel does with them is tested in guests."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.damon.attrs import Attrs, IntervalsGoal
from damoos.damon.filters import Filter
from damoos.damon.interface import kdamond as preferred
from damoos.damon.interface import probe, used_by_others
from damoos.damon.kdamond import system_ram
from damoos.damon.quotas import Goal, Quotas
from damoos.damon.scheme import Context, Scheme, Watermarks
from damoos.damon.sysfs import ADMIN, SysfsKdamond
from damoos.errors import MachineBusy, MachineError, UnsupportedError

PRCL = Scheme.parse("4K max  min min  5s max  pageout")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A kernel's empty DAMON directory, with the folders that a real one would make by itself."""
    context = tmp_path / ADMIN / "kdamonds/0/contexts/0"
    for folder in (
        "monitoring_attrs/intervals",
        "monitoring_attrs/nr_regions",
        "targets/0/regions/0",
        "targets/0/regions/1",
    ):
        (context / folder).mkdir(parents=True)
    for scheme in ("0", "1"):
        for folder in ("sz", "nr_accesses", "age"):
            (context / "schemes" / scheme / "access_pattern" / folder).mkdir(parents=True)
        for folder in ("quotas/weights", "quotas/goals/0", "watermarks", "filters/0", "stats"):
            (context / "schemes" / scheme / folder).mkdir(parents=True)
        for file in ("quotas/goals/nr_goals", "filters/nr_filters"):
            (context / "schemes" / scheme / file).write_text("0\n")
    (context / "schemes/nr_schemes").write_text("0\n")
    (tmp_path / ADMIN / "kdamonds/nr_kdamonds").write_text("0\n")
    return tmp_path


def nr_kdamonds(root: Path) -> str:
    return (root / ADMIN / "kdamonds/nr_kdamonds").read_text().strip()


def value(root: Path, name: str) -> str:
    return (root / ADMIN / "kdamonds/0/contexts/0" / name).read_text().strip()


def test_everything_is_written_the_trap_of_60_s_included(root: Path) -> None:
    kdamond = SysfsKdamond(root)
    kdamond.create()
    kdamond.configure(Context((PRCL,), attrs=Attrs(update_us=1_000_000)), [4711])
    written = {
        "operations": "vaddr",
        "monitoring_attrs/intervals/sample_us": "5000",
        "monitoring_attrs/intervals/aggr_us": "100000",
        "monitoring_attrs/intervals/update_us": "1000000",
        "monitoring_attrs/nr_regions/min": "10",
        "monitoring_attrs/nr_regions/max": "1000",
        "targets/nr_targets": "1",
        "targets/0/pid_target": "4711",
        "schemes/0/action": "pageout",
        "schemes/0/access_pattern/sz/min": "4096",
        "schemes/0/access_pattern/sz/max": "18446744073709551615",
        "schemes/0/access_pattern/nr_accesses/max": "0",
        "schemes/0/access_pattern/age/min": "50",
        "schemes/0/access_pattern/age/max": "4294967295",
        "schemes/0/watermarks/metric": "none",
    }
    assert {name: value(root, name) for name in written} == written
    assert kdamond.accepted()["schemes/0/access_pattern/age/min"] == "50"
    kdamond.start()
    assert kdamond.is_on()
    kdamond.remove()
    assert nr_kdamonds(root) == "0"


def test_quotas_watermarks_and_filters(root: Path) -> None:
    scheme = Scheme(
        "pageout",
        quotas=Quotas(
            time_ms=10, sz_bytes=4096, reset_interval_ms=1000, weight_age_permil=7, goals=(Goal("user_input", 9, 3),)
        ),
        watermarks=Watermarks("free_mem_rate", 5_000_000, 500, 400, 200),
        filters=(Filter("memcg", matching=False, memcg_path="/workload"),),
    )
    kdamond = SysfsKdamond(root)
    kdamond.create()
    with pytest.raises(MachineError, match=r"schemes/0/filters/0/memcg_path: group .*/workload does not exist"):
        kdamond.configure(Context((Scheme("stat", filters=scheme.filters),)), [1])
    (root / "sys/fs/cgroup/workload").mkdir(parents=True)
    (root / "sys/fs/cgroup/workload/memory.stat").touch()
    (root / "proc").mkdir()
    (root / "proc/iomem").write_text(
        "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n"
        "00100000-3ffddfff : System RAM\n  01000000-01ffffff : Kernel code\n"
    )
    kdamond.configure(Context((Scheme("stat"), scheme), operations="paddr"), [])
    assert value(root, "targets/0/regions/nr_regions") == "2"
    assert value(root, "targets/0/regions/0/end") == str(0x9F000)
    assert value(root, "targets/0/regions/1/start") == str(0x100000)
    assert value(root, "schemes/nr_schemes") == "2"
    assert value(root, "schemes/1/quotas/weights/age_permil") == "7"
    assert value(root, "schemes/1/quotas/goals/nr_goals") == "1"
    assert value(root, "schemes/1/quotas/goals/0/target_value") == "9"
    assert value(root, "schemes/1/watermarks/mid") == "400"
    assert value(root, "schemes/1/filters/0/memcg_path") == "/workload"
    assert value(root, "schemes/1/filters/0/matching") == "N"
    assert not (root / ADMIN / "kdamonds/0/contexts/0/targets/0/pid_target").exists()


def test_memory_behind_cxl_is_memory(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/iomem").write_text(
        "200000000-2ffffffff : CXL Window 0\n  200000000-2ffffffff : region0\n    200000000-2ffffffff : dax0.0\n"
        "      200000000-27fffffff : System RAM (kmem)\n"
        "00100000-3fffffff : System RAM\n  01000000-01ffffff : Kernel code\n  02000000-02ffffff : System RAM\n"
    )
    assert system_ram(tmp_path) == [(0x100000, 0x40000000), (0x200000000, 0x280000000)]


def test_a_kdamond_of_somebody_else_is_not_touched(root: Path) -> None:
    (root / ADMIN / "kdamonds/nr_kdamonds").write_text("1\n")
    for attempt in (SysfsKdamond(root).create, lambda: probe(root)):
        with pytest.raises(MachineBusy):
            attempt()
    assert nr_kdamonds(root) == "1"


def test_a_kernel_without_damon(tmp_path: Path) -> None:
    assert probe(tmp_path) == {}
    assert used_by_others(tmp_path) == ""
    with pytest.raises(UnsupportedError, match="no DAMON"):
        preferred(tmp_path)


def test_a_module_of_the_kernels_that_runs_damon_is_somebody_else(root: Path) -> None:
    module = root / "sys/module/damon_reclaim/parameters"
    module.mkdir(parents=True)
    (module / "kdamond_pid").write_text("4711\n")
    with pytest.raises(MachineBusy, match="damon_reclaim runs"):
        SysfsKdamond(root).create()
    (module / "kdamond_pid").write_text("-1\n")
    SysfsKdamond(root).create()


def test_a_goal_is_written_again_after_a_commit_lost_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kdamond = SysfsKdamond(root)
    kdamond.create()
    goal = root / ADMIN / "kdamonds/0/contexts/0/schemes/0/quotas/goals/0/current_value"
    said = []

    def command(word: str) -> None:
        said.append(word)
        if word == "commit":
            goal.write_text("0\n")

    monkeypatch.setattr(kdamond, "_command", command)
    monkeypatch.setattr(kdamond, "is_on", lambda: True)
    quotas = Quotas(sz_bytes=4096, reset_interval_ms=1000, goals=(Goal("user_input", 9, 3),))
    kdamond.configure(Context((Scheme("stat", quotas=quotas),)), [4711])
    kdamond.commit()
    assert goal.read_text() == "3\n"
    assert said == ["commit", "commit_schemes_quota_goals"]


def test_an_older_sysfs_is_not_asked_for_what_is_not_wanted(root: Path) -> None:
    """6.1 has no filters, goals or apply intervals; a scheme without them is none of its business."""
    import shutil

    for index in ("0", "1"):
        for folder in ("filters", "quotas/goals"):
            shutil.rmtree(root / ADMIN / "kdamonds/0/contexts/0/schemes" / index / folder)
    kdamond = SysfsKdamond(root)
    kdamond.create()
    kdamond.configure(Context((PRCL,)), [4711])
    with pytest.raises(UnsupportedError, match="filters/nr_filters"):
        kdamond.configure(Context((Scheme("stat", filters=(Filter("anon"),)),)), [4711])


def test_a_start_or_commit_that_the_kernel_only_seems_to_accept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kdamond = SysfsKdamond(root)
    kdamond.create()
    state = root / ADMIN / "kdamonds/0/state"
    monkeypatch.setattr(kdamond, "_command", lambda word: state.write_text("off\n"))
    kdamond.configure(Context((PRCL,)), [4711])
    with pytest.raises(MachineError, match="did not start"):
        kdamond.start()
    with pytest.raises(MachineError, match="died after a commit"):
        kdamond.commit()


GOAL = "monitoring_attrs/intervals/intervals_goal"


def test_a_kernel_that_does_not_tune_intervals_is_only_told_when_it_is_asked_to(root: Path) -> None:
    kdamond = SysfsKdamond(root)
    kdamond.create()
    kdamond.configure(Context((PRCL,)), [4711])
    with pytest.raises(UnsupportedError, match=r"intervals_goal/access_bp \(since Linux 6\.15"):
        kdamond.configure(Context((PRCL,), attrs=Attrs(goal=IntervalsGoal())), [4711])
    assert not (root / ADMIN / "kdamonds/0/contexts/0" / GOAL).exists()


def test_intervals_that_the_kernel_is_to_tune(root: Path) -> None:
    (root / ADMIN / "kdamonds/0/contexts/0" / GOAL).mkdir()
    for name in ("access_bp", "aggrs", "min_sample_us", "max_sample_us"):
        (root / ADMIN / "kdamonds/0/contexts/0" / GOAL / name).write_text("0\n")
    kdamond = SysfsKdamond(root)
    kdamond.create()

    def written() -> list[str]:
        return [value(root, f"{GOAL}/{name}") for name in ("access_bp", "aggrs", "min_sample_us", "max_sample_us")]

    kdamond.configure(Context((PRCL,), attrs=Attrs(goal=IntervalsGoal(300, 4, 6_000, 7_000_000))), [4711])
    assert written() == ["300", "4", "6000", "7000000"]
    assert value(root, "monitoring_attrs/intervals/sample_us") == "5000"
    # What a kdamond before it was asked for does not stay.
    kdamond.configure(Context((PRCL,)), [4711])
    assert written() == ["0", "0", "0", "0"]
