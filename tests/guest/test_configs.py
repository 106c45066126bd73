"""Configurations on a real kernel: huge pages come with thp and ethp and go with them, prcl saves memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.api import comparisons
from damoos.machines.guest import GuestSession
from tests.conftest import MIB, shell

FOLDER = "/sys/kernel/mm/transparent_hugepage"
ENABLED = f"{FOLDER}/enabled"
# One page in 16 of "sparse" is touched: 4 MiB of it, 64 MiB where huge pages hold it.
PATTERN = """#regions
hot, 16M
sparse, 64M
cold, 48M

fill
240
hot, 0, 4096, 20, wo
sparse, 0, 65536, 5, wo
cold, 0, 4096, 75, wo

work
20000
hot, 0, 4096, 100
"""
# Of 20 s, most of which are left when prcl and ethp have waited for 5 s and 7 s.
WORKLOAD = """description = "one page in 16 of most of it"
[pattern]
file = "own.pattern"
rate = 250
paced = true
"""


def test_a_thp_mode_is_in_force_for_one_run_only(fresh_guest: GuestSession) -> None:
    spec = {"env": {}, "limit_s": 30, "sample_s": 0.5, "drop_caches": False, "context": None}
    for mode in ("always", "madvise", None):
        raw = fresh_guest.agent.call("run", argv=["cat", ENABLED], **spec, thp=mode)
        assert f"[{mode or 'never'}]" in raw["stdout"]
        assert "[never]" in shell(fresh_guest, f"cat {ENABLED}")


def test_a_size_that_the_owner_has_turned_on_is_off_for_the_run(fresh_guest: GuestSession) -> None:
    spec = {"env": {}, "limit_s": 30, "sample_s": 0.5, "drop_caches": False, "context": None}
    own = f"{FOLDER}/hugepages-64kB/enabled"
    before = shell(fresh_guest, f"cat {own}; echo always > {own}")
    try:
        raw = fresh_guest.agent.call("run", argv=["cat", own], **spec, thp="madvise")
        assert "[never]" in raw["stdout"]
        assert raw["huge_pages"]["mode"] == "madvise"
        assert raw["huge_pages"]["64kB"] == "never"
        assert raw["huge_pages"]["2048kB"] == "inherit"
        raw = fresh_guest.agent.call("run", argv=["cat", own], **spec)
        assert "[always]" in raw["stdout"]
        assert raw["huge_pages"]["64kB"] == "always"
    finally:
        shell(fresh_guest, f"echo {before[before.index('[') + 1 : before.index(']')]} > {own}")


@pytest.mark.usefixtures("guest_image")
def test_four_configurations_in_three_blocks(tmp_path: Path) -> None:
    (tmp_path / "own.pattern").write_text(PATTERN)
    (tmp_path / "own.toml").write_text(WORKLOAD)
    found = comparisons.evaluate(
        [str(tmp_path / "own.toml")], ["guest"], ["thp", "ethp", "prcl"], repeats=3, results=tmp_path / "results"
    )
    assert found.result["failures"] == []
    (result,) = found.studies
    mean = {
        name: {key: one["mean"] for key, one in config["quantities"].items()}
        for name, config in result["configs"].items()
    }
    assert mean["thp"]["anon_huge_avg_bytes"] > 100 * MIB
    assert mean["thp"]["bloat"] > 0.5
    assert mean["ethp"]["anon_huge_avg_bytes"] > 2 * MIB
    (share,) = found.result["machines"][0]["thp"]
    assert share["bloat_removed"] > 0.5
    assert mean["prcl"]["memory_efficiency"] > 1.3
    assert result["configs"]["prcl"]["damos"]["sz_applied_bytes"] > 0
    # Runs follow those with huge pages in a shuffled order, and have none: the mode is back after each.
    others = found.runs[found.runs["config"].isin(["baseline", "prcl"])]
    assert len(others) == 6
    assert (others["anon_huge_max_bytes"] == 0).all()
    low, high = result["configs"]["baseline"]["quantities"]["performance"]["ci95"]
    assert 0.95 < low < 1 < high < 1.05
