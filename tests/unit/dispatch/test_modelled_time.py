"""The time that a run would have taken with the latencies of its nodes."""

from __future__ import annotations

import pytest

from damoos.dispatch.modelled_time import of_tiers

COUNTERS = {"accesses_n0": 9_000_000, "accesses_n1": 9_000_000, "misses_n0": 3_000_000, "misses_n1": 1_000_000}


def test_each_miss_takes_its_nodes_latency() -> None:
    assert of_tiers(COUNTERS, 2.0, {"latency_ns": [80, 250]}) == {
        "fast_hits": 0.75,
        "modelled_s": pytest.approx(2.0 + 0.24 + 0.25),
        "modelled_all_fast_s": pytest.approx(2.0 + 0.32),
        "modelled_all_slow_s": pytest.approx(2.0 + 1.0),
    }


def test_the_fast_node_need_not_be_the_first_one() -> None:
    assert of_tiers(COUNTERS, 2.0, {"latency_ns": [250, 80]})["fast_hits"] == 0.25


def test_a_run_without_a_miss() -> None:
    found = of_tiers({"misses_n0": 0, "misses_n1": 0}, 2.0, {"latency_ns": [80, 250]})
    assert set(found.values()) == {1.0, 2.0}


@pytest.mark.parametrize("counter", [{}, {"latency_ns": [80, None]}, {"latency_ns": [80, 250, 300]}])
def test_nothing_is_modelled_of_what_is_not_known(counter: dict[str, object]) -> None:
    assert of_tiers(COUNTERS, 2.0, counter) == {}
