"""The age of a scheme that follows its workload, on services that are not there."""

from __future__ import annotations

import math

import pytest

from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context
from damoos.errors import ConfigError
from damoos.policies.catalog import parse as policy
from damoos.service.adaptation import EXPLORED_SHARE, QUIET_WINDOWS, Adaptation
from damoos.service.guard import parse
from damoos.service.min_age import ages_around, min_age_us, with_min_age
from damoos.testing.reused_memory import Outcome, PeriodOf, serve

S = 1_000_000
AGES_US = ages_around(4 * S, 100_000)
LIMIT = parse("memory_pressure<=3%")
MIB = 1 << 20
CALM = {"memory_pressure": 0.001}


def phases(now_s: float) -> float:
    """Twenty minutes of each: memory is used again after one minute, after 8 s, and after half a minute."""
    return (60.0, 8.0, 30.0)[int(now_s // 1200) % 3]


def oracle(period_s: float) -> float:
    """What the best age saves that keeps the limit in 99 % of the windows, in MiB."""
    runs = [serve(lambda now_s: period_s, AGES_US, age, hours=1 / 3, adapts=False) for age in AGES_US]
    return max(run.saved_mib for run in runs if run.broken <= 0.01)


def served(period_of: PeriodOf, hours: float = 1.0, seed: int = 0, adapts: bool = True) -> Outcome:
    return serve(period_of, AGES_US, 4 * S, hours=hours, seed=seed, adapts=adapts)


@pytest.mark.parametrize("seed", range(4))
def test_it_follows_phases_nearly_as_well_as_one_who_knows_them(seed: int) -> None:
    best = (oracle(60.0) + oracle(8.0) + oracle(30.0)) / 3
    adapted = served(phases, seed=seed)
    assert adapted.saved_mib >= 0.9 * best, adapted.said
    assert adapted.broken <= 0.01, adapted.said
    assert served(phases, adapts=False).broken > 0.3  # with the age that was right for the first of them


@pytest.mark.parametrize("seed", range(3))
def test_a_workload_that_stays_as_it_is_keeps_its_age(seed: int) -> None:
    assert served(lambda now_s: 60.0, hours=10, seed=seed).said == []


@pytest.mark.parametrize("seed", range(3))
def test_trials_break_no_more_than_theirs_if_the_workload_never_stays(seed: int) -> None:
    restless = served(lambda now_s: (60.0, 8.0, 30.0)[int(now_s // 300) % 3], hours=10, seed=seed)
    assert restless.broken <= 0.01
    assert any("saves more" in line for line in restless.said)


def test_trials_take_their_share_and_break_no_more_than_theirs() -> None:
    """The period comes and goes within two hours; for most of the time a lower age is worth a try."""
    swinging = served(lambda now_s: 35 + 25 * math.sin(now_s / 7200 * 2 * math.pi), hours=20)
    assert 0 < swinging.explored <= EXPLORED_SHARE
    assert swinging.broken <= 0.01
    assert any("saves more" in line for line in swinging.said)


def fed(adaptation: Adaptation, windows: int, net_mib: float = 30.0, pressure: float = 0.001) -> list[str]:
    said = []
    for _ in range(windows):
        change = adaptation.add(net_mib * MIB, {"memory_pressure": pressure}, {"net_bytes": net_mib * MIB})
        said += [change.why] if change and change.why else []
    return said


def test_a_broken_limit_moves_the_age_up_at_once_and_down_again_after_a_while() -> None:
    adaptation = Adaptation([LIMIT], 5.0, AGES_US, 4 * S)
    fed(adaptation, 20)
    assert fed(adaptation, 1, pressure=0.04) == ["memory_pressure was 0.04 in a window, limit memory_pressure<=3%"]
    assert adaptation.age_us == 8 * S
    assert fed(adaptation, QUIET_WINDOWS - 1) == []
    assert fed(adaptation, 10) == ["compares min_age 4s with 8s"]


def test_a_window_far_beyond_in_a_trial_is_the_trial_s() -> None:
    adaptation = Adaptation([LIMIT], 5.0, AGES_US, 4 * S)
    fed(adaptation, 20)
    fed(adaptation, 20, net_mib=50.0)
    fed(adaptation, 20)
    while adaptation.age_now_us == 4 * S:
        fed(adaptation, 1)
    change = adaptation.paused()
    assert change
    assert (change.age_us, adaptation.age_now_us) == (4 * S, 4 * S)
    assert fed(adaptation, QUIET_WINDOWS - 1) == []


def test_nothing_is_tried_in_the_first_hundred_windows() -> None:
    adaptation = Adaptation([LIMIT], 5.0, AGES_US, 4 * S)
    fed(adaptation, 20)
    (said,) = fed(adaptation, QUIET_WINDOWS - 21, net_mib=50.0)
    assert said.startswith("the workload has changed: net_bytes was")
    assert fed(adaptation, 1, net_mib=50.0) == ["compares min_age 2s with 4s"]


def test_a_comparison_ends_when_its_processes_do() -> None:
    adaptation = Adaptation([LIMIT], 5.0, AGES_US, 4 * S)
    assert adaptation.interrupted() is None
    fed(adaptation, 20)
    fed(adaptation, QUIET_WINDOWS, net_mib=50.0)
    assert adaptation.doing == "compares min_age 2s with 4s"
    change = adaptation.interrupted()
    assert change
    assert (change.age_us, adaptation.doing) == (4 * S, "watches for a change")


def test_at_the_highest_age_there_is_nothing_left_to_give() -> None:
    adaptation = Adaptation([LIMIT], 5.0, AGES_US, AGES_US[-1])
    assert adaptation.paused() is None
    assert adaptation.age_us == AGES_US[-1]


def test_memory_that_is_not_told_compares_nothing() -> None:
    adaptation = Adaptation([LIMIT], 5.0, AGES_US, 4 * S)
    for nth in range(400):
        rate = 0.0 if nth < 20 else 1000.0
        adaptation.add(math.nan, CALM, {"swap_ins_per_s": rate})
    assert adaptation.age_us == 4 * S


def test_ages_are_within_a_factor_of_eight() -> None:
    assert [age / S for age in AGES_US] == [0.5, 1, 2, 4, 8, 16, 32]
    assert ages_around(300_000, 200_000) == [300_000, 600_000, 1_200_000, 2_400_000]


def test_only_the_age_of_what_is_paged_out_is_moved() -> None:
    context = Context.parse("4K max min min 5s max pageout\n2M max 5 max 1s max hugepage", "vaddr")
    spec = {"context": context_to_json(context)}
    assert min_age_us(spec) == 5 * S
    moved = Context.parse("4K max min min 7s max pageout\n2M max 5 max 1s max hugepage", "vaddr")
    assert with_min_age(spec["context"], 7 * S) == context_to_json(moved)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (policy("senpai").spec(), "senpai steers itself"),
        (policy("memory-high").spec(), "must have one such scheme"),
        ({"context": context_to_json(Context.parse("4K max 5 max 1s max hugepage", "vaddr"))}, "must have one"),
        ({"context": context_to_json(Context.parse("4K max min min min max pageout", "vaddr"))}, "must have one"),
    ],
)
def test_what_has_no_such_age_is_refused(spec: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        min_age_us(spec)
