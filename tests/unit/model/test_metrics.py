"""The one table of metrics: names, units, and what a workload may not call its own."""

from __future__ import annotations

import pytest

from damoos.agent import memcg, nodes
from damoos.agent.meter import COUNTERS, SAMPLE_COLUMNS
from damoos.model.metrics import BUILT_IN, EVERYWHERE, METRICS, TIER_METRICS, unit_of
from damoos.model.roles import ROLE_METRICS
from damoos.scorers import scorer
from damoos.units import show_score


def test_what_the_agent_reads_has_a_name() -> None:
    averages = {f"{column.removesuffix('_bytes')}_avg_bytes" for column in SAMPLE_COLUMNS if column.endswith("_bytes")}
    counts = {*COUNTERS, *memcg.COUNTS, *nodes.MOVES, *(f"limit_{event}" for event in memcg.EVENTS)}
    assert averages | counts | {*ROLE_METRICS, *TIER_METRICS, *EVERYWHERE} <= set(METRICS) == set(BUILT_IN)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("net_avg_bytes", "bytes"), ("memory_avg_bytes.tax", "bytes"), ("runtime_s", "s"), ("p99_ms", "ms"),
        ("refaults_per_s", "1/s"), ("ops_per_s", ""), ("heap_bytes", "bytes"), ("qps", ""),
    ],
)  # fmt: skip
def test_a_metric_has_a_unit(name: str, unit: str) -> None:
    assert unit_of(name) == unit


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"minimize": "net_avg_bytes"}, "44.9 MiB"), ({"minimize": "p99_ms"}, "47,059,512 ms"),
        ({"maximize": "memory_saving"}, "+4.706e+07"), ({"maximize": "ops_per_s"}, "+4.706e+07"),
    ],
)  # fmt: skip
def test_a_score_is_shown_in_its_unit(options: dict[str, str], shown: str) -> None:
    assert show_score(47_059_512, scorer("sla", options).shown_in) == shown
