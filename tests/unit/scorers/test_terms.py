"""What scores are made of, and the limits that people write."""

from __future__ import annotations

import math

import pytest

from damoos.errors import ConfigError
from damoos.scorers import scorer
from damoos.scorers.terms import parse_limit

from .conftest import GIB, run, scored


def test_the_net_saving_charges_the_swap_pool() -> None:
    measured = run(rss_avg_bytes=1 * GIB, net_avg_bytes=3 * GIB)
    assert scored("sla", measured).value == 0.75
    assert scored("sla", measured, maximize="net_saving").value == 0.25


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
    ("text", "message"),
    [
        ("slowdown", "write NAME<=NUMBER"),
        ("slowdown=0.1", "write NAME<=NUMBER"),
        ("slowdown<=fast", "'fast' is not a number"),
        ("p99_ms<=5s", "'5s' is not a number; in the unit of the name, 5 s"),
        ("slowdown<=1.2x", "is already relative to the baseline"),
        ("Slowdown<=1", "'Slowdown' is not a metric; did you mean 'slowdown'"),
    ],
)
def test_limits_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_limit(text)
