"""What scores are made of, and the limits that people write."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damoos.errors import ConfigError
from damoos.model.trial import Measurement
from damoos.scorers import scorer
from damoos.scorers.terms import Limit, parse_limit, term

from .conftest import BASELINE, GIB, MIB, run, scored


def test_the_net_saving_charges_the_swap_pool() -> None:
    measured = run(rss_avg_bytes=1 * GIB, net_avg_bytes=3 * GIB)
    assert scored("sla", measured).value == 0.75
    assert scored("sla", measured, maximize="net_saving").value == 0.25


def test_a_term_of_one_role_reads_what_is_told_of_it() -> None:
    own = {"net_avg_bytes.tax": 3 * GIB, "psi_some_us.tax": 2e6}
    measured, base = (
        run(net_avg_bytes=9 * GIB, **own),
        run(net_avg_bytes=9 * GIB, **own | {"net_avg_bytes.tax": 4 * GIB}),
    )
    assert term("net_saving.tax").needs == ("net_avg_bytes.tax",)
    assert term("net_saving.tax").of(measured, base) == 0.25
    assert term("net_avg_bytes.tax").of(measured, base) == 3 * GIB
    limit = parse_limit("memory_pressure.tax<=4%")
    assert limit.needs == ("psi_some_us.tax", "runtime_s")
    assert limit.margin(measured, base) == pytest.approx(1 - 2 / measured.metric("runtime_s") / 0.04)
    with pytest.raises(ConfigError, match="there is no role 'taxes'; did you mean 'tax'"):
        term("net_saving.taxes")
    with pytest.raises(ConfigError, match="'slowdown' is not told of each role"):
        parse_limit("slowdown.tax<=5%")


# A baseline of 100 s waits 1 s for a CPU.
@pytest.mark.parametrize(
    ("runtime_s", "waited_s", "spare"),
    [
        (110, 9, 0.02),  # 8 s of the 10 were spent waiting for the policy
        (110, 1, 0.1),
        (110, 30, 0.0),  # a program that sleeps has lost no more than it has
        (100, 5, 0.0),
        (95, 5, -0.05),
    ],
)
def test_the_slowdown_with_a_spare_core_is_without_what_a_program_waited_for_the_policy(
    runtime_s: float, waited_s: float, spare: float
) -> None:
    measured = run(runtime_s=runtime_s, psi_cpu_some_us=1e6 * waited_s)
    assert term("spare_core_slowdown").of(measured, BASELINE) == pytest.approx(spare)


def test_the_cpu_time_of_a_policy_is_that_of_the_kernel_and_of_the_agent() -> None:
    measured = run(runtime_s=200.0, kdamond_cpu_s=6.0)
    assert term("policy_cpu_share").of(measured, BASELINE) == pytest.approx(0.03)
    assert term("policy_cpu_share").of(run(controller_cpu_s=1.0), BASELINE) == pytest.approx(0.01)
    assert parse_limit("policy_cpu_share<=2%").margin(measured, BASELINE) == pytest.approx(-0.5)


@pytest.mark.parametrize(
    ("limits", "slowdown"),
    [
        ([], math.inf),
        (["slowdown<=0.05"], 0.05),
        (["slowdown<=5%", "slowdown<=0.03"], 0.03),
        (["speedup>=-0.2"], 0.2),
        (["slowdown>=0.05", "p99_ms<=1.2x"], math.inf),
    ],
)
def test_the_slowdown_from_which_on_a_run_is_lost(limits: list[str], slowdown: float) -> None:
    assert scorer("sla", {"limits": limits}).max_slowdown == slowdown
    assert scorer("weighted", {"limits": limits}).max_slowdown == slowdown


@pytest.mark.parametrize(
    ("text", "changes", "margin"),
    [
        ("slowdown<=0.1", {"runtime_s": 105.0}, 0.5),
        ("slowdown<=10%", {"runtime_s": 120.0}, -1.0),
        ("speedup>=-0.2", {"runtime_s": 110.0}, 0.5),
        ("p99_ms<=1.2x", {"p99_ms": 15.0}, -0.25),
        ("p99_ms<=20", {"p99_ms": 15.0}, 0.25),
        ("swap_written_bytes_per_s<=1M", {"swap_written_bytes_per_s": 1.5 * MIB}, -0.5),
        ("swap_written_bytes_per_s<=1MiB every", {"swap_written_bytes_per_s": 0.0}, 1.0),
        ("rss_avg_bytes<=0.5x", {"rss_avg_bytes": 3 * GIB}, -0.5),
        ("memory_saving>=30%", {"rss_avg_bytes": 2 * GIB}, 2 / 3),
        # A bound of 0 is no unit.
        ("slowdown<=0", {"runtime_s": 103.0}, -0.03),
        ("kdamond_cpu_s<=0", {"kdamond_cpu_s": 2.0}, -2.0),
        ("p99_ms>=0", {"p99_ms": 15.0}, 1.5),
    ],
)
def test_a_margin_is_counted_in_units_of_the_limit(text: str, changes: dict[str, float], margin: float) -> None:
    assert parse_limit(text).margin(run(**changes), BASELINE) == pytest.approx(margin)


@settings(max_examples=300)
@given(value=st.floats(1e-6, 1e9), bound=st.floats(1e-6, 1e9), is_upper=st.booleans())
def test_the_sign_of_a_margin_says_whether_the_limit_is_kept(value: float, bound: float, is_upper: bool) -> None:
    limit = Limit("x", "p99_ms", is_upper, bound, of_baseline=False)
    kept = value <= bound if is_upper else value >= bound
    assert (limit.margin(run(p99_ms=value), BASELINE) >= 0) == kept


def test_a_run_that_was_stopped_bounds_the_limits_that_time_breaks() -> None:
    limits = ["slowdown<=5%", "speedup>=-0.1", "runtime_s<=130", "p99_ms<=1.2x", "runtime_s>=10"]
    score = scorer("sla", {"limits": limits}).stopped(Measurement({"runtime_s": 110.0}), BASELINE)
    assert (score.value, score.feasible, score.parts) == (None, False, {})
    known = {"slowdown<=5%": -1.0, "speedup>=-0.1": 0.0, "runtime_s<=130": 2 / 13}
    assert score.margins == pytest.approx(known, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slowdown", "write NAME<=NUMBER"),
        ("slowdown=0.1", "write NAME<=NUMBER"),
        ("slowdown<=fast", "'fast' is not a number"),
        ("slowdown<=1M", "'1M' is not a number"),
        ("p99_ms<=5s", "'5s' is not a number; in the unit of the name, 5 s"),
        ("slowdown<=1.2x", "is already relative to the baseline"),
        ("Slowdown<=1", "'Slowdown' is not a metric; did you mean 'slowdown'"),
    ],
)
def test_limits_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_limit(text)
