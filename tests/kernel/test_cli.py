"""The commands about kernels, as people run them, on real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from damoos.damon.damo_json import context_from_json
from damoos.damon.scheme import Context
from damoos.machines.guest import kernels
from tests.conftest import damoos, short_workload


@pytest.fixture
def mine(guest_image: None) -> str:
    """Our kernel once more, as a user would bring it."""
    name = "test-mine"
    done = damoos("kernel", "add", name, "--bzimage", kernels.kernel("damoos").path / "bzImage")
    assert done.returncode == 0, done.stderr
    yield name
    assert damoos("kernel", "remove", name).returncode == 0
    assert kernels.kernel("damoos").bootable.exists(), "another name still leads to it"


def test_a_kernel_does_not_differ_from_itself(mine: str, tmp_path: Path) -> None:
    """The workload never waits, so that its runtime counts its instructions: waits end late on a busy host."""
    short = short_workload(tmp_path, manual_min_age="500ms", work_ms=1000, rate=20_000, paced=False)
    words = ["--workload", short, "--kernels", f"damoos,{mine}", "--repeats", "3", "--tolerance", "5%"]
    words += ["--scheme", "4K max  min min  100ms max  pageout"]  # a short workload's pages are old enough soon
    done = damoos("kernel", "compare", *words, "--results", tmp_path, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["kernel_id"] for one in found["kernels"]] == [kernels.kernel("damoos").identity] * 2
    assert all("damon.flush_tlb=1" in one["emulation"] for one in found["kernels"] if one["accel"] == "tcg")
    by_name = {one["quantity"]: one for one in found["differences"]}
    assert abs(by_name["runtime without, s"]["difference"]) < 0.02
    # DAMON is random, and one interval in a hundred misses a difference of nothing; a large one besides is no chance.
    saving = by_name["RSS saving"]
    assert not (saving["differs"] and abs(saving["difference"]) > 0.1), saving
    assert all(one["quantities"]["RSS saving"]["mean"] > 0.1 for one in found["kernels"])
    assert len(list(tmp_path.glob("kernels-short-*/*.parquet"))) == 12


def test_a_study_on_two_kernels_and_how_they_differ(guest_image: None, tmp_path: Path) -> None:
    """One of them is driven through debugfs."""
    short = short_workload(tmp_path, manual_min_age="500ms", work_ms=1500)
    words = [
        "--workload",
        short,
        "--kernels",
        "damoos-6.1,damoos",
        "--trials",
        "2",
        "--repeats",
        "2",
        "--candidates",
        "1",
    ]
    limits = ["--score", "weighted", "--weight", "memory_saving=1", "--limit", "slowdown<=0.5"]
    done = damoos("tune", *words, *limits, "--results", tmp_path, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    old, new = found["studies"]
    assert (old["machine"]["kernel_name"], new["machine"]["kernel_name"]) == ("damoos-6.1", "damoos")
    assert old["machine"]["kernel"].startswith("6.1.")
    assert new["machine"]["kernel"] == kernels.kernel("damoos").release
    assert all(trial["damos"]["sz_tried_bytes"] > 0 for trial in old["trials"])
    compared = found["comparison"]
    assert [one["name"] for one in compared["kernels"]] == ["damoos-6.1", "damoos"]
    assert [one["scheme"] for one in compared["kernels"]] == [one["recommended"]["scheme"] for one in (old, new)]
    assert len(compared["differences"]) == 5


def test_wrong_words_about_kernels(tmp_path: Path) -> None:
    compare = ["kernel", "compare", "--command", "true"]
    for words, message in (
        (["kernel", "add", "mine", "--bzimage", tmp_path / "none"], f"{tmp_path}/none: No such file or directory"),
        (["kernel", "add", "damoos", "--bzimage", "/bin/sh"], "'damoos' is not a valid kernel name"),
        (["kernel", "remove", "debain"], "unknown kernel 'debain'"),
        (["kernel", "test", "debain"], "unknown kernel 'debain'; did you mean 'debian'?"),
        ([*compare, "--kernels", "debian,debain"], "unknown kernel 'debain'"),
        ([*compare, "--machine", "local", "--kernels", "debian"], "machine 'local' runs its"),
        ([*compare, "--kernels", "debian", "--tolerance", "1%"], "--tolerance compares kernels"),
        (["tune", "--command", "true", "--kernels", ","], "--kernels: expected different names, got ','"),
        (["kernel", "list", "--format", "markdwon"], "unknown format 'markdwon'; did you mean 'markdown'?"),
    ):
        done = damoos(*words)
        assert done.returncode == 2, words
        assert done.stderr.startswith(f"damoos: {message}"), done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_an_age_an_interval_and_a_goal_are_tuned_together(guest_image: None, tmp_path: Path) -> None:
    """On 7.3, with a goal that the kernel steers by pressure."""
    scheme = tmp_path / "psi.damos"
    goal = "quotas.goals[0].metric=some_mem_psi_us quotas.goals[0].target=5ms"
    limits = "quotas.sz=1G quotas.reset_interval=100ms quotas.weights.age=1000"
    scheme.write_text(f"attrs  sample=5ms\n4K max  min min  MIN_AGE max  pageout  {limits}  {goal}\n")
    tuned = ("min_age=100ms:2s", "attrs.aggr=20ms:400ms", "quotas.goals[0].target=1ms:50ms")
    words = ["--workload", short_workload(tmp_path, manual_min_age="500ms"), "--kernels", "damoos", "--scheme", scheme]
    words += [word for one in tuned for word in ("--tune", one)]
    words += ["--trials", "4", "--repeats", "2", "--candidates", "1", "--results", tmp_path, "--format", "json"]
    done = damoos("tune", *words, "--score", "weighted", "--weight", "memory_saving=1", "--limit", "slowdown<=0.5")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    keys = {"min_age_us", "attrs.aggr_us", "quotas.goals[0].target_us"}
    assert all(set(trial["params"]) == keys for trial in found["trials"])
    assert found["verdict"]
    best = Context.parse(found["recommended"]["scheme"])
    assert best.attrs.aggr_us == found["recommended"]["params"]["attrs.aggr_us"]
    assert best == context_from_json(found["recommended"]["damo"])
