"""Each policy with parameters on a real kernel: it does what it says on a live process, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from damoos.errors import MachineError, UnsupportedError
from damoos.machines.base import Session
from damoos.machines.guest import GuestSession
from damoos.policies import catalog
from damoos.policies.base import NonePolicy
from damoos.testing.contracts import NO_PROGRAMS, until, workload
from damoos.testing.policy_contracts import ReclaimContract, spec, state
from tests.conftest import MIB, shell

# Values at which each takes the cold memory of a service that idles within seconds. Every policy of the catalogue is
# here or below; those for tiers are in test_tiers.py.
TAKES = {
    "senpai": "senpai:interval=500ms:ratio=10%:most=20%:pressure=10%:io_pressure=10%",
    "senpai-high": "senpai-high:interval=1s:min_size=16M:max_probe=10%:pressure=1s",
    "oomd": "oomd:interval=500ms:limit_min=8M:max_probe=20%:pressure=10%:io_pressure=10%",
    "gswap": "gswap:interval=2s:grace=0s:window=2s:min_age=1s:promotions=20%",
    "damon-reclaim": "damon-reclaim:min_age=500ms:free=100%:quota_ms=1s:quota_sz=1G",
    "dama": "dama:start=1s:min_age=500ms:interval=1s:pressure=10%:quota_ms=1s:quota_sz=1G",
    "damos-psi": "damos-psi:target=100ms:min_age=500ms:quota_sz=1G",
    "memory-high": "memory-high:share=50%",
    "mglru": "mglru:min_age=1s:swappiness=200",
}
# Those that change how the kernel reclaims, and reclaim nothing themselves: the words, a file, and what it holds then.
SETS = {
    "swappiness": ("swappiness:value=150", "/proc/sys/vm/swappiness", "150"),
    "zswap-shrinker": ("zswap-shrinker:max_pool=35%", "/sys/module/zswap/parameters/max_pool_percent", "35"),
    "thp": ("thp:mode=madvise", "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
    "damon-lru-sort": ("damon-lru-sort:free=100%", "/sys/module/damon_lru_sort/parameters/enabled", "Y"),
}


def test_each_policy_is_here() -> None:
    assert sorted([*TAKES, *SETS]) == sorted(name for name in catalog.RULES if not catalog.RULES[name].of_tiers)


class TestThoseThatTake(ReclaimContract):
    @pytest.fixture(params=TAKES)
    def words(self, request: pytest.FixtureRequest) -> str:
        return TAKES[request.param]

    @pytest.fixture
    def session(self, guest: GuestSession) -> Session:
        return guest

    def enough(self, status: dict[str, Any], words: str) -> bool:
        """Of modules of the kernel 8 MiB, as they look at all of the guest and take minutes for more."""
        if words.startswith(("damon-reclaim", "dama:")):
            return sum(scheme["sz_applied_bytes"] for scheme in status["damos"]) > 8 * MIB
        return super().enough(status, words)


@pytest.mark.parametrize("name", SETS)
def test_it_sets_what_it_says_for_as_long_as_it_is_in_force(guest: GuestSession, name: str) -> None:
    words, path, value = SETS[name]
    before = state(guest)
    run = {"env": {}, "limit_s": 60, "sample_s": 0.5, "drop_caches": False}
    # A module says that it is on once its thread runs, which is begun when the program is there.
    waits = f"until grep -qF '{value}' {path}; do sleep 0.1; done; cat {path}"
    raw = guest.agent.call("run", argv=["sh", "-c", waits], **run, **spec(words))
    assert raw["stdout"].strip() == value
    assert state(guest) == before
    raw = guest.agent.call("run", argv=["cat", path], **run, **NonePolicy().spec())
    assert raw["stdout"].strip() != value


def test_the_first_decisions_of_gswap_are_its_rules(guest: GuestSession) -> None:
    """Nothing is promoted of a service that idles, so the lowest threshold is the best one, and it is used."""
    argv = workload("synthetic/idle", NO_PROGRAMS).argv(guest.copy, arch=guest.facts["arch"])
    guest.agent.call("apply", argv=argv, env={}, **spec("gswap:interval=2s:grace=0s:window=10s:min_age=3s"))
    try:
        status = until(guest, lambda status: status.get("rule", {}).get("t_s", 0) > 5, within_s=120)
    finally:
        guest.agent.call("stop")
    rule = status["rule"]
    assert rule["threshold_s"] >= rule["best_s"] >= 3.0
    assert 0 < rule["working_set_bytes"] < 200 * MIB


def test_a_process_that_shares_its_group_is_not_steered(guest: GuestSession) -> None:
    """The agent's own shell is in the group of everything that the guest started."""
    pid = int(shell(guest, "setsid sleep 300 > /dev/null 2>&1 & echo $!"))
    try:
        with pytest.raises(UnsupportedError, match=f"process {pid} is in the cgroup / with others"):
            guest.agent.call("apply", on={"kind": "pid", "pid": pid}, **spec("senpai"))
    finally:
        shell(guest, f"kill {pid}")


def test_what_a_kernel_lacks_is_one_line(guest: GuestSession) -> None:
    asked = {"env": {}, "limit_s": 60, "sample_s": 0.5, "drop_caches": False, "context": None}
    with pytest.raises((UnsupportedError, MachineError), match="this kernel has no /proc/sys/vm/no_such_file"):
        guest.agent.call("run", argv=["true"], settings={"/proc/sys/vm/no_such_file": "1"}, **asked)
