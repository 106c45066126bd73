"""The doctor on machines that are given as an agent's answers."""

from __future__ import annotations

import json
import random
import time
from dataclasses import asdict
from typing import Any

import pytest

from damoos.doctor import Finding, examine, fit, why_unfit
from damoos.doctor.noise import Noise
from damoos.doctor.tiers import tiers
from damoos.errors import DamoosError, MachineError, MachineLost, UnsupportedError
from damoos.machines.base import AS_IT_IS, Conditions, Swap

MIB = 1 << 20


def steadiness(spread: float = 0.001, a_slower: float = 0.0, **more: float) -> dict[str, Any]:
    """Ten seconds of equal pieces of work; whole seconds of it differ by the spread."""
    dice = random.Random(0)
    seconds = [1 - spread, 1 + spread] * 5
    pieces = [0.1 * second for second in seconds for _ in range(5)]
    first = [one * (1 + a_slower) * dice.gauss(1, 0.002) for one in pieces]
    return {"a_s": first, "b_s": pieces, "elapsed_s": 10.0, "steal_s": 0.0, "others_cpu_s": 0.0, **more}


class Answers:
    """An agent's `call`; a keyword replaces an answer, one of ``state`` or ``facts`` a part of it."""

    def __init__(self, **changes: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.clock_jumps: dict[str, float] = {}
        self.answers: dict[str, Any] = {
            "facts": {
                "kernel": "6.12.0-made", "arch": "x86_64", "vcpus": 2, "mem_bytes": 1024 * MIB,
                "swap_bytes": 256 * MIB, "damon_in_use": "", "left_behind": [],
            },
            "state": {
                "uid": 0, "mem_available_bytes": 900 * MIB, "swaps": ["/dev/zram0"], "cgroup_v2": True, "cgroups": True,
                "psi": True, "emulated": False, "clocksource": "tsc", "wall_s": 0.0, "boot_s": 0.0,
                "nodes": [{"node": 0, "sz_bytes": 1024 * MIB, "has_cpus": True, "tier": 4}],
            },
            "probe": {"interfaces": ["sysfs"], "operations": ["vaddr", "paddr"], "actions": ["pageout", "stat"]},
            "tryout": {"pageout": 8 * MIB},
            "seen_accesses": {"accessed": 0.99, "idle": 0.0},
            "steadiness": steadiness(),
        }  # fmt: skip
        for name, value in changes.items():
            is_part = name in ("facts", "state")
            self.answers[name] = self.answers[name] | value if is_part else value

    def __call__(self, name: str, **args: Any) -> Any:
        self.asked.append((name, args))
        answer = self.answers[name]
        if isinstance(answer, DamoosError):
            raise answer
        if name == "state":
            nth = sum(one == "state" for one, _ in self.asked) - 1
            now = {"wall_s": time.time(), "boot_s": time.monotonic() + 1000}
            return {**answer, **{key: s + answer[key] + nth * self.clock_jumps.get(key, 0) for key, s in now.items()}}
        return answer


def of(findings: list[Finding], name: str) -> Finding:
    (found,) = (one for one in findings if one.name == name)
    return found


def test_a_machine_without_the_swap_that_its_file_asks_for_is_unfit() -> None:
    found = of(
        examine(Answers(state={"swaps": []}), "mine", Conditions(swap=Swap(kind="zram", size="1G"))), "other swap"
    )
    assert (found.state, found.found) == ("unfit", "no swap is on, although [swap] of its machine file asks for one")


def test_a_machine_whose_numbers_cannot_be_computed_with_is_named() -> None:
    answers = Answers(steadiness={**steadiness(), "a_s": [1e308, 1e300], "b_s": [1.0, 1.0]})
    with pytest.raises(MachineError, match=r"^machine 'mine': its answers cannot be computed with: math range error"):
        examine(answers, "mine", AS_IT_IS)


def test_a_fit_machine() -> None:
    answers = Answers()
    findings = examine(answers, "mine", Conditions(cpus="0-1"))
    assert [one.state for one in findings] == ["ok"] * len(findings), findings
    assert fit(findings)
    assert why_unfit(findings) == ""
    assert [one.name for one in findings] == [
        "kernel", "privileges", "earlier runs", "DAMON free", "DAMON_STAT", "DAMON", "accessed bits", "swap",
        "cgroup v2", "PSI", "free memory", "neighbours", "clock",
    ]  # fmt: skip
    assert not any(one.todo for one in findings)
    assert of(findings, "swap").found.startswith("/dev/zram0 (256 MiB); pageout on vaddr applied to 8 MiB")
    assert ("steadiness", {"for_s": 10.0, "cpus": [0, 1]}) in answers.asked
    assert json.loads(json.dumps([asdict(one) for one in findings]))[0]["found"].startswith("Linux 6.12.0-made")


def test_what_damon_stat_has_seen_is_told_and_no_reason_against_the_machine() -> None:
    idle_ms = [-500] * 40 + [800] * 20 + [30_000] * 41
    seen = {"idle_ms_percentiles": idle_ms, "bandwidth_bytes_per_s": 64 * MIB, "aggr_us": 500_000}
    findings = examine(Answers(facts={"damon_stat": seen}), "mine", AS_IT_IS)
    assert fit(findings)
    told = of(findings, "DAMON_STAT")
    assert told.state == "ok"
    assert told.found.startswith("ran, is off while damoos has the machine, and on again after it")
    assert "40 % for 1s, 40 % for 10s, 0 % for 2m; accessed about 64 MiB per second" in told.found


def test_what_a_newer_damon_has_is_named() -> None:
    offered = of(examine(Answers(), "mine", AS_IT_IS), "DAMON").found
    assert "unknown" not in offered
    newer = Answers()
    newer.answers["probe"] = {**newer("probe"), "unknown": ["schemes/0/dream", "action:dream"]}
    finding = of(examine(newer, "mine", AS_IT_IS), "DAMON")
    assert (finding.state, finding.found) == (
        "ok", f"{offered}; unknown to damoos, and left alone: schemes/0/dream action:dream",
    )  # fmt: skip


def test_swap_of_others_beside_damoos_s_own_is_told() -> None:
    conditions = Conditions(swap=Swap(size="1G"))
    assert of(examine(Answers(), "mine", conditions), "other swap").state == "ok"
    both = Answers(state={"swaps": ["/dev/zram0", "/dev/vdb"]})
    finding = of(examine(both, "mine", conditions), "other swap")
    assert (finding.state, finding.found[:8]) == ("warn", "/dev/vdb")


def test_what_earlier_runs_could_not_undo_is_told() -> None:
    answers = Answers(facts={"left_behind": ["zram id=0"]})
    finding = of(examine(answers, "mine", AS_IT_IS), "earlier runs")
    assert (finding.state, finding.found) == ("warn", "could not undo zram id=0")
    assert finding.todo == "damoos doctor mine --clean"


@pytest.mark.parametrize(
    ("changes", "name", "found", "todo"),
    [
        ({"state": {"uid": 1000}}, "privileges", "user 1000 is not root", "sudo = true"),
        ({"facts": {"damon_in_use": "nr_kdamonds is not 0"}}, "DAMON free", "nr_kdamonds is not 0", "damo stop"),
        (
            {"seen_accesses": {"accessed": 0.0, "idle": 0.0}},
            "accessed bits",
            "saw 0% of memory that is acc",
            "flush_tlb",
        ),
        ({"seen_accesses": {"accessed": 1.0, "idle": 1.0}}, "accessed bits", "100% of memory that is", "flush_tlb"),
        ({"seen_accesses": MachineError("no target")}, "accessed bits", "could not be tried: no target", "mend"),
        ({"probe": {}}, "DAMON", "this kernel has none", "CONFIG_DAMON"),
        ({"probe": MachineError("files: refused")}, "DAMON", "files: refused", "mend"),
        ({"tryout": {"pageout": 0}, "state": {"swaps": []}}, "swap", "no swap; pageout", "file of 'mine' a [swap]"),
        ({"tryout": {"pageout": 0}}, "swap", "applied to nothing", "another kernel"),
        ({"tryout": MachineError("no pages")}, "swap", "could not be tried: no pages", "mend"),
        ({"state": {"mem_available_bytes": 90 * MIB}}, "free memory", "90 MiB available of 1 GiB", "more memory"),
        ({"steadiness": steadiness(spread=0.1)}, "neighbours", "seconds spread by 10.5", "end or pin away"),
        ({"steadiness": steadiness(a_slower=0.06)}, "neighbours", "interval +5.9", "end or pin away"),
        ({"steadiness": steadiness(steal_s=0.6)}, "neighbours", "steal 6.0%", "another machine"),
        ({"steadiness": UnsupportedError("CPUs [9] do not exist here")}, "neighbours", "CPUs [9] do not", "'cpus'"),
    ],
)
def test_what_makes_a_machine_unfit(changes: dict[str, Any], name: str, found: str, todo: str) -> None:
    findings = examine(Answers(**changes), "mine", AS_IT_IS)
    assert not fit(findings)
    assert [one.name for one in findings if one.state == "unfit"] == [name]
    assert found in of(findings, name).found
    assert todo in of(findings, name).todo
    assert why_unfit(findings).startswith(f"{name}: ")
    assert "\n" not in why_unfit(findings)


@pytest.mark.parametrize(
    ("changes", "name", "found"),
    [
        ({"state": {"cgroup_v2": False, "cgroups": False}}, "cgroup v2", "psi_* are the whole machine"),
        ({"state": {"cgroups": False}}, "cgroup v2", "groups cannot be made"),
        ({"state": {"psi": False}}, "PSI", "off"),
        ({"state": {"mem_available_bytes": 200 * MIB}}, "free memory", "200 MiB"),
        ({"state": {"wall_s": 3600.0}}, "clock", "wall clock +3600.0 s from ours"),
        ({"steadiness": steadiness(spread=0.03)}, "neighbours", "spread"),
        ({"steadiness": steadiness(a_slower=0.03)}, "neighbours", "interval +2.9"),
        ({"steadiness": steadiness(others_cpu_s=5.0)}, "neighbours", "others used 0.50 CPUs"),
    ],
)
def test_what_is_only_mentioned(changes: dict[str, Any], name: str, found: str) -> None:
    findings = examine(Answers(**changes), "mine", AS_IT_IS)
    assert fit(findings)
    assert [one.name for one in findings if one.state == "warn"] == [name]
    assert found in of(findings, name).found
    assert of(findings, name).todo


def test_somebody_elses_damon_is_not_tried() -> None:
    for changes in ({"facts": {"damon_in_use": "nr_kdamonds is not 0"}}, {"state": {"uid": 1000}}):
        answers = Answers(**changes)
        examine(answers, "mine", AS_IT_IS)
        assert not {"probe", "tryout"} & {name for name, _ in answers.asked}


def test_without_root_nobody_can_say_whether_damon_is_free() -> None:
    changes = {"facts": {"damon_in_use": "nr_kdamonds: Permission denied"}, "state": {"uid": 1000}}
    findings = examine(Answers(**changes), "mine", AS_IT_IS)
    assert (of(findings, "DAMON free").state, of(findings, "privileges").state) == ("warn", "unfit")


def test_only_what_is_needed_has_to_work() -> None:
    changes = {"tryout": {"pageout": 0}, "state": {"swaps": []}}
    assert fit(examine(Answers(**changes), "mine", AS_IT_IS, needs=()))
    assert not fit(examine(Answers(**changes), "mine", AS_IT_IS, needs=(("vaddr", "hugepage"),)))


def test_a_clock_that_runs_wrong() -> None:
    answers = Answers()
    answers.clock_jumps = {"boot_s": 10.0, "wall_s": 10.0}
    clock = of(examine(answers, "mine", AS_IT_IS), "clock")
    assert clock.state == "unfit"
    assert "10.0 s passed there in 0.0 s here" in clock.found


def test_a_wall_clock_that_is_set_meanwhile() -> None:
    answers = Answers()
    answers.clock_jumps = {"wall_s": -3.0}
    clock = of(examine(answers, "mine", AS_IT_IS), "clock")
    assert (clock.state, "by -3.0 s" in clock.found) == ("warn", True)


@pytest.mark.parametrize(("rate", "steady_s"), [(4e9, 0.25), (5e8, 2.0), (None, 10.0)])
def test_an_emulators_time_is_virtual_and_no_fault(rate: float | None, steady_s: float) -> None:
    answers = Answers(state={"emulated": True, "wall_s": 3600.0}, instruction_rate=rate)
    answers.clock_jumps = {"boot_s": 10.0, "wall_s": 10.0}
    clock = of(examine(answers, "mine", AS_IT_IS), "clock")
    assert clock.state == "ok"
    assert "virtual" in clock.found
    assert ("4,000 MIPS" in clock.found) == (rate == 4e9)
    assert ("steadiness", {"for_s": steady_s, "cpus": []}) in answers.asked


def test_an_emulated_cpu_that_seems_not_to_be_steady_is_looked_at_for_longer() -> None:
    answers = Answers(state={"emulated": True}, instruction_rate=4e9, steadiness=steadiness(a_slower=0.06))
    assert of(examine(answers, "mine", AS_IT_IS), "neighbours").state == "unfit"
    assert [args["for_s"] for name, args in answers.asked if name == "steadiness"] == [0.25, 1.25]


def test_a_machine_that_is_lost_is_no_finding() -> None:
    for name in ("facts", "state", "probe", "tryout", "steadiness"):
        answers = Answers()
        answers.answers[name] = MachineLost("gone")
        with pytest.raises(MachineLost):
            examine(answers, "mine", AS_IT_IS)


def test_the_interval_holds_what_it_says() -> None:
    """Of 400 machines on which A is as fast as B, about 95 % have an interval around 0."""
    dice = random.Random(1)

    def noisy() -> Noise:
        first, second = ([dice.gauss(0.1, 0.005) for _ in range(50)] for _ in "ab")
        return Noise.of({"a_s": first, "b_s": second, "elapsed_s": 10.0, "steal_s": 0.0, "others_cpu_s": 0.0})

    held = sum(noise.low <= 0 <= noise.high for noise in (noisy() for _ in range(400)))
    assert 0.92 * 400 <= held <= 0.98 * 400


FAST = {"node": 0, "sz_bytes": 256 * MIB, "has_cpus": True, "tier": 4}
SLOW = {"node": 1, "sz_bytes": 768 * MIB, "has_cpus": False, "tier": 56}


def test_memory_tiers_are_told_where_there_are_several_nodes() -> None:
    assert tiers([FAST], Conditions(demotion=True)) == []
    (found,) = tiers([SLOW, FAST], Conditions())
    assert (found.state, found.found) == ("ok", "2: node 0 (256 MiB) before node 1 (768 MiB, no CPUs)")


@pytest.mark.parametrize("conditions", [{"demotion": True}, {"numa_balancing": 2}, {"numa_balancing": 3}])
def test_one_tier_is_a_warning_where_something_is_to_move_between_them(conditions: dict) -> None:
    one = [FAST, {**SLOW, "tier": 4}]
    (found,) = tiers(one, Conditions(**conditions))
    assert found.state == "warn"
    assert "neither demotion nor promotion will do anything" in found.found
    assert "latency" in found.todo
    (found,) = tiers(one, Conditions(numa_balancing=1))
    assert (found.state, found.todo) == ("ok", "")
