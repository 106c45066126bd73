"""Each kernel's own tests, and what damoos asks of it beyond the contract of its interface."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from damoos.damon.attrs import Attrs
from damoos.damon.damo_json import context_to_json
from damoos.damon.filters import Filter
from damoos.damon.pattern import AccessPattern
from damoos.damon.quotas import Goal, Quotas
from damoos.damon.scheme import Context, Scheme
from damoos.dispatch.run import check_schemes, run_once
from damoos.doctor import examine
from damoos.errors import (
    MachineBusy,
    MachineError,
    MachineLost,
    MeasurementError,
    SchemeError,
    UnsupportedError,
)  # fmt: skip
from damoos.machines.base import Conditions, Swap
from damoos.machines.guest import GuestMachine, GuestSession, kernels
from damoos.machines.guest.features import features
from damoos.machines.guest.kselftest import run as run_kselftests
from damoos.machines.guest.kunit import run as run_kunit
from damoos.machines.nodes import equal
from damoos.policies.base import DamosPolicy
from damoos.testing.contracts import until
from damoos.workloads.catalog import NO_PROGRAMS, workload
from tests.conftest import KERNELS, agent_pid, hot_cold_workload, open_guest, prcl, shell

MIB = 1 << 20
COLD_MIB, HOT_MIB = 60, 4  # of synthetic/idle
SYSFS_KERNELS = ("debian", "damoos")
DEBUGFS = "/sys/kernel/debug/damon"


@pytest.fixture(scope="module", params=SYSFS_KERNELS)
def sysfs_guest(request: pytest.FixtureRequest, guest_image: None) -> Iterator[GuestSession]:
    session = open_guest(request.param)
    yield session
    session.close()


@pytest.fixture(scope="module")
def old_guest(guest_image: None) -> Iterator[GuestSession]:
    session = open_guest("damoos-6.1")
    yield session
    session.close()


def open_with(kernel: str, **settings) -> GuestSession:
    """A guest of the test's own making."""
    swap = settings.pop("swap", Swap(size="128M"))
    machine = GuestMachine("test", "", 1, 512 * MIB, Conditions(swap=swap, thp="never"), kernel=kernel, **settings)
    session = machine.open()
    session.agent.call("prepare", **machine.conditions.wanted())
    return session


def idle(session: GuestSession) -> list[str]:
    return workload("synthetic/idle", NO_PROGRAMS).argv(session.copy)


def start(session: GuestSession, context: Context, argv: list[str] | None = None) -> int:
    spec = {"argv": argv or idle(session), "env": {}, "context": context_to_json(context)}
    return session.agent.call("apply", **spec)["pid"]


def swapped_mib(session: GuestSession, pid: int) -> float:
    return int(shell(session, f"sed -n 's/^VmSwap:[^0-9]*\\([0-9]*\\) kB/\\1/p' /proc/{pid}/status")) / 1024


def swapped_mib_at_last(session: GuestSession, pid: int, enough_mib: float, within_s: float) -> float:
    """What it has on swap, once that is enough or the guest's time is up.

    It is asked seldom: each look makes accesses, which the kdamond sees in regions that cold memory is part of.
    """
    status = first = session.agent.call("status")
    while (found := swapped_mib(session, pid)) < enough_mib and status["for_s"] - first["for_s"] < within_s:
        time.sleep(2)
        status = session.agent.call("status")
    return found


@pytest.mark.parametrize(("kernel", "count"), [("damoos", 37), ("damoos-6.1", 18)])
def test_the_kernels_own_unit_tests_pass(kernel: str, count: int, guest_image: None) -> None:
    found = run_kunit(kernel)
    assert len(found) >= count
    assert {"damon", "damon-operations"} <= {one.suite for one in found}
    assert [str(one) for one in found if one.state != "ok"] == []


def test_the_kernels_own_selftests_pass(guest_image: None) -> None:
    # Of 6.1, which takes 6 s; those of 7.3 take 100 s, and "make kernel-test" runs them.
    found = run_kselftests("damoos-6.1")
    assert len(found) == 7
    assert [str(one) for one in found if one.state == "not ok"] == []
    assert {one.name for one in found if one.state == "ok"} >= {"debugfs_attrs.sh", "debugfs_schemes.sh"}


def test_a_kernel_without_unit_tests_says_so(guest_image: None) -> None:
    with pytest.raises(UnsupportedError, match="kernel 'debian' has no KUnit tests"):
        run_kunit("debian")
    with pytest.raises(UnsupportedError, match="kernel 'debian' has no kselftests beside it"):
        run_kselftests("debian")


def series(release: str) -> list[str]:
    return release.split(".")[:2]


@pytest.mark.parametrize(
    "names",
    [("debian", "damoos", "damoos-6.1"), pytest.param(("debian-newest",), marks=pytest.mark.kernel_test)],
    ids=str,
)
def test_the_table_in_the_docs_is_what_the_kernels_have(guest_image: None, names: Sequence[str]) -> None:
    """Debian's newest is of the same series as ours: make test leaves it to make kernel-test."""
    text = (Path(__file__).parents[2] / "docs/kernel.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    start = next(n for n, row in enumerate(rows) if row[1:] == list(KERNELS))
    written = {
        row[0]: dict(zip(KERNELS, row[1:], strict=True)) for row in rows[start + 1 :] if len(row) == len(KERNELS) + 1
    }
    probed = features(names, print)
    # Debian's newest moves on; then its column is of another kernel.
    same = [name for name in names if series(kernels.kernel(name).release) == series(written["release"][name])]
    assert {"debian", "damoos-6.1"} & set(names) <= set(same)
    for feature in probed[names[0]]:
        assert {name: written[feature][name] for name in same} == {name: probed[name][feature] for name in same}, (
            feature
        )


# Quota goals


def goal_context(current: int, metric: str = "user_input") -> Context:
    quotas = Quotas(reset_interval_ms=200, goals=(Goal(metric, 1000, current),))
    return Context((replace(Scheme.parse("4K max  min min  1h max  pageout"), quotas=quotas),))


def test_a_goal_that_is_missed_widens_the_quota_and_one_that_is_exceeded_narrows_it(sysfs_guest: GuestSession) -> None:
    start(sysfs_guest, goal_context(current=100))
    try:
        early = until(sysfs_guest, within_s=1.0)["effective_bytes"][0]
        late = until(sysfs_guest, lambda status: status["effective_bytes"][0] > 10 * early, 60)["effective_bytes"][0]
        assert late > 10 * early > 0
        # A goal that comes by a commit has lost its current value; were it not written again, the quota would widen.
        sysfs_guest.agent.call("commit", context=context_to_json(goal_context(current=1_000_000)))
        after = until(sysfs_guest, lambda status: status["effective_bytes"][0] < late / 10, 60)["effective_bytes"][0]
        assert after < late / 10
    finally:
        sysfs_guest.agent.call("stop")


def test_a_goal_by_pressure_is_taken(sysfs_guest: GuestSession) -> None:
    start(sysfs_guest, goal_context(0, "some_mem_psi_us"))
    try:
        assert until(sysfs_guest, lambda status: status["effective_bytes"][0] > 0)["effective_bytes"][0] > 0
    finally:
        sysfs_guest.agent.call("stop")


# Filters

COLD = "4K max  min min  500ms max  pageout"
ALL_OF_IT = Filter("addr", addr_start=0, addr_end=1 << 47)


@pytest.mark.parametrize(
    ("operations", "one", "goes"),
    [
        ("paddr", Filter("anon"), False),
        ("paddr", Filter("anon", matching=False), True),
        ("paddr", Filter("memcg", memcg_path="/theirs"), True),
        ("paddr", Filter("memcg", matching=False, memcg_path="/theirs"), False),
        ("vaddr", ALL_OF_IT, False),
        ("vaddr", replace(ALL_OF_IT, matching=False), True),
        ("vaddr", Filter("target", target_idx=0), False),
    ],
)
def test_filters_leave_out_what_they_match(sysfs_guest: GuestSession, operations: str, one: Filter, goes: bool) -> None:
    """Cold memory of a process in the root group leaves it, unless the filter keeps it."""
    shell(sysfs_guest, "echo +memory > /sys/fs/cgroup/cgroup.subtree_control; mkdir -p /sys/fs/cgroup/theirs")
    scheme = replace(Scheme.parse(COLD), filters=(one,))
    # 7.3 gets through all of the machine's memory more slowly (docs/kernel.md).
    is_slow = operations == "paddr" and sysfs_guest.facts["kernel_name"] == "damoos"
    enough_mib = (0.1 if is_slow else 0.8) * COLD_MIB
    pid = start(sysfs_guest, Context((scheme,), operations))
    try:
        left = swapped_mib_at_last(sysfs_guest, pid, enough_mib if goes else math.inf, within_s=60 if goes else 4)
    finally:
        sysfs_guest.agent.call("stop")
    assert left > enough_mib if goes else left < 1, left


def test_the_young_filter_keeps_what_was_just_used(sysfs_guest: GuestSession) -> None:
    """A scheme for all memory, hot or not, that leaves out young pages pages out the cold ones."""
    scheme = replace(Scheme.parse("4K max  min max  min max  pageout"), filters=(Filter("young"),))
    pid = start(sysfs_guest, Context((scheme,), "paddr"))
    try:
        status = until(sysfs_guest, lambda _: swapped_mib(sysfs_guest, pid) > 0.8 * COLD_MIB)
        assert swapped_mib(sysfs_guest, pid) > 0.8 * COLD_MIB
        assert status["rss_bytes"] > 0.8 * HOT_MIB * MIB
    finally:
        sysfs_guest.agent.call("stop")


# Memory nodes


@pytest.mark.parametrize("settings", [{"nodes": equal(2, 512 * MIB, 1)}, {"cmdline": "numa=fake=2"}])
def test_pages_move_between_nodes(guest_image: None, settings: dict) -> None:
    """Nodes of QEMU's, and nodes that the kernel makes of one; Debian's has no memory nodes."""
    session = open_with("damoos", **settings)
    try:
        assert shell(session, "ls -d /sys/devices/system/node/node[0-9]* | wc -l") == "2"
        moved = session.agent.call("tryout", operations="paddr", actions=["migrate_cold", "migrate_hot"])
        assert moved["migrate_cold"] > MIB, moved
        assert moved["migrate_hot"] > 0, moved
    finally:
        session.close()


# What goes wrong without a word


def test_a_kernel_whose_accessed_bits_would_lie_is_refused(guest_image: None) -> None:
    with pytest.raises(UnsupportedError, match="neither page-table isolation nor damon"):
        open_with("damoos", cmdline="damon.flush_tlb=0 pti=off")


def test_the_doctor_sees_that_accessed_bits_lie(guest_image: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the positive control alone: the guest is opened without the look at what its kernel has."""
    monkeypatch.setattr(GuestMachine, "_check_accessed_bits", lambda *_: None)
    session = open_with("damoos", cmdline="damon.flush_tlb=0 pti=off")
    try:
        findings = {finding.name: finding for finding in examine(session.agent.call, "test", Conditions(), 1.0)}
    finally:
        session.close()
    assert findings["accessed bits"].state == "unfit"
    # A second is too short to judge the neighbours by.
    unfit = [name for name, finding in findings.items() if finding.state == "unfit" and name != "neighbours"]
    assert unfit == ["accessed bits"]


def test_pageout_without_swap_is_refused(guest_image: None) -> None:
    session = open_with("damoos", swap=None)
    try:
        for operations in ("vaddr", "paddr"):
            refusal = f"'pageout' on {operations} and applies it to nothing; it has no swap"
            with pytest.raises(UnsupportedError, match=refusal):
                check_schemes(session.agent.call, "test", [Context((Scheme("pageout"),), operations)])
    finally:
        session.close()


def test_an_action_that_the_operations_set_cannot_do_is_refused(sysfs_guest: GuestSession) -> None:
    with pytest.raises(UnsupportedError, match="accepts action 'lru_prio' on vaddr and applies it to nothing"):
        check_schemes(sysfs_guest.agent.call, "guest", [Context((Scheme("lru_prio"),), "vaddr")])
    check_schemes(sysfs_guest.agent.call, "guest", [Context((Scheme("lru_prio"),), "paddr")])


def test_a_bad_commit_that_kills_the_kdamond_does_not_go_unnoticed(sysfs_guest: GuestSession) -> None:
    """7.3 refuses it, and goes on as it was."""
    place = "/sys/kernel/mm/damon/admin/kdamonds/0"
    document = prcl("5s")
    document["kdamonds"][0]["contexts"][0]["nr_regions"] = {"min": "10", "max": "5"}
    start(sysfs_guest, Context((Scheme("stat"),)))
    try:
        with pytest.raises(SchemeError, match="nr_regions"):
            sysfs_guest.agent.call("commit", context=document)
        # The same by hand: 6.12 reports success.
        shell(sysfs_guest, f"echo 5 > {place}/contexts/0/monitoring_attrs/nr_regions/max")
        said = shell(sysfs_guest, f"echo commit 2>&1 > {place}/state || echo refused")
        state = shell(sysfs_guest, f"cat {place}/state")
        if sysfs_guest.facts["kernel_name"] == "debian":
            assert (said, state) == ("", "off")
            with pytest.raises(MachineError):
                sysfs_guest.agent.call("commit", context=prcl("5s"))
        else:
            assert (said.endswith("refused"), state) == (True, "on")
            sysfs_guest.agent.call("commit", context=prcl("5s"))
    finally:
        sysfs_guest.agent.call("stop")


def test_an_action_makes_its_regions_young_again(sysfs_guest: GuestSession) -> None:
    """All actions but stat reset ages, so two schemes on one region disturb each other."""
    oldest = {}
    for action in ("stat", "cold"):
        start(sysfs_guest, Context((Scheme(action, AccessPattern(max_freq=None)),), attrs=Attrs(update_us=10_000_000)))
        until(sysfs_guest, within_s=4)
        for _ in range(30):  # an aggregation takes longer on a busy host
            oldest[action] = max(age for *_, age in sysfs_guest.agent.call("regions"))
            if action == "cold" or oldest[action] > 20:
                break
            until(sysfs_guest, within_s=1)
        sysfs_guest.agent.call("stop")
    assert oldest["stat"] > 20, oldest
    assert oldest["cold"] < 10, oldest


def test_a_module_that_runs_damon_is_left_alone(guest_image: None) -> None:
    session = open_with("debian")
    try:
        shell(session, "echo Y > /sys/module/damon_reclaim/parameters/enabled")
        with pytest.raises(MachineBusy, match="damon_reclaim runs"):
            session.agent.call("probe")
    finally:
        session.close()


# What a context says, whole


def test_a_goal_is_fed_with_a_metric_of_the_workload(sysfs_guest: GuestSession) -> None:
    """The same goal: told that the workload has more memory than the target, the kernel narrows the quota; told nothing
    (which is 0), it widens it."""
    goal = "quotas.sz=1G quotas.reset_interval=200ms quotas.goals[0].metric=user_input quotas.goals[0].target=1048576"
    text = f"4K max  min min  500ms max  pageout  {goal}"
    sizes = {}
    for feed in ("", " quotas.goals[0].feed=rss_bytes"):
        start(sysfs_guest, Context.parse(text + feed))
        try:
            within_s = 8 if feed else 60
            status = until(sysfs_guest, lambda status: status["effective_bytes"][0] > 64 * MIB, within_s=within_s)
            sizes[feed] = status["effective_bytes"][0]
        finally:
            sysfs_guest.agent.call("stop")
    unfed, fed = sizes.values()
    assert unfed > 64 * MIB > fed


def test_a_goal_that_nothing_feeds_is_told(sysfs_guest: GuestSession) -> None:
    goal = (
        "quotas.reset_interval=1s quotas.goals[0].metric=user_input quotas.goals[0].target=1 quotas.goals[0].feed=qps"
    )
    start(sysfs_guest, Context.parse(f"4K max  min min  1h max  pageout  {goal}"))
    try:
        with pytest.raises(MeasurementError, match=r"feed=qps: no such metric is measured .*; known: rss_bytes"):
            sysfs_guest.agent.call("status")
    finally:
        sysfs_guest.agent.call("stop")


def test_a_filter_of_the_workloads_own_group(sysfs_guest: GuestSession) -> None:
    """Its name is known only once the run has made it."""
    machine = GuestMachine("test", "", 1, 512 * MIB, Conditions(), kernel="debian")
    program = hot_cold_workload(repeats=2)
    text = "filters[0].type=memcg filters[0].memcg_path=@workload filters[0].matching=N"
    policy = DamosPolicy(Context.parse(f"attrs operations=paddr\n4K max  min min  500ms max  pageout  {text}"))
    measured, _ = run_once(sysfs_guest, machine, program, policy, 120)
    paths = [value for name, value in measured.provenance["accepted"].items() if name.endswith("memcg_path")]
    assert [path.startswith("/damoos-") for path in paths] == [True]
    assert measured.metric("pswpout") > 0  # with memory to spare, nobody else swaps


def test_intervals_that_the_kernel_tunes_are_in_the_provenance(guest_image: None) -> None:
    session = open_with("damoos")
    try:
        text = "attrs  intervals_goal.aggrs=3  intervals_goal.max_sample=1s\nmin max  min max  min max  stat"
        machine = GuestMachine("test", "", 1, 512 * MIB, Conditions(), kernel="damoos")
        program = hot_cold_workload()
        measured, _ = run_once(session, machine, program, DamosPolicy(Context.parse(text)), 120)
    finally:
        session.close()
    tuned = measured.provenance["tuned_intervals"]
    assert tuned["aggr_us"] == 20 * tuned["sample_us"] > 0
    assert measured.damos[0].nr_snapshots > 3


def test_a_module_reclaims_and_is_put_back(sysfs_guest: GuestSession) -> None:
    """That of 6.12 runs and tries nothing in our guests (docs/kernel.md); that of 7.3 does."""
    always = "wmarks_high=1000 wmarks_mid=999 wmarks_low=0 sample_interval=5ms aggr_interval=100ms"
    parameters = "cd /sys/module/damon_reclaim/parameters; grep . enabled min_age wmarks_* quota_* *_interval monitor_*"
    before = shell(sysfs_guest, parameters)
    context = Context.parse(f"module damon_reclaim  min_age=500ms  quota_ms=100ms  {always}")
    check_schemes(sysfs_guest.agent.call, "guest", [context])
    start(sysfs_guest, context)
    try:
        # How much of it is the idle process's depends on where its pages lie among those of all others.
        tries = sysfs_guest.facts["kernel_name"] == "damoos"
        within_s = 60 if tries else 8
        done = until(sysfs_guest, lambda status: status["damos"][0]["sz_tried_bytes"] > 20 * MIB, within_s=within_s)
        assert done["in_force"]
        if tries:
            assert done["damos"][0]["sz_tried_bytes"] > 20 * MIB
    finally:
        sysfs_guest.agent.call("stop")
    assert shell(sysfs_guest, parameters) == before


# The interface of the older kernels


def test_somebody_elses_scheme_in_debugfs_is_left_alone(old_guest: GuestSession) -> None:
    line = "0 4096 0 0 10 20 5 0 0 0 0 0 0 0 0 0 0 0"
    shell(old_guest, f"echo {line} > {DEBUGFS}/schemes")
    try:
        with pytest.raises(MachineBusy, match="schemes is not empty"):
            start(old_guest, Context((Scheme("stat"),)), ["sleep", "9"])
        assert shell(old_guest, f"cat {DEBUGFS}/schemes").startswith("0 4096 0 0 10 20 5")
    finally:
        shell(old_guest, f"echo > {DEBUGFS}/schemes")


def test_a_killed_agent_is_cleaned_up_after_in_debugfs(guest_image: None) -> None:
    session = open_guest("damoos-6.1")
    try:
        attrs = shell(session, f"cat {DEBUGFS}/attrs")
        start(session, Context((Scheme("stat"),)), ["sleep", "1000"])
        assert shell(session, f"cat {DEBUGFS}/monitor_on") == "on"
        shell(session, f"kill -9 {agent_pid(session)}")
        with pytest.raises(MachineLost):
            session.agent.call("status")
        look = f"cat {DEBUGFS}/monitor_on; wc -c < {DEBUGFS}/schemes; cat {DEBUGFS}/attrs; pgrep -x sleep | wc -l"
        deadline = time.monotonic() + 120
        while (left := shell(session, look).splitlines()) != ["off", "0", attrs, "0"] and time.monotonic() < deadline:
            time.sleep(0.5)
        assert left == ["off", "0", attrs, "0"]
    finally:
        session.close()
