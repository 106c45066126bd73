"""One goal within limits."""

from __future__ import annotations

import pytest

from damoos.scorers import scorer

from .conftest import BASELINE, GIB, outcome, run, scored


def test_the_goal_within_the_limits() -> None:
    words = {"maximize": "memory_saving", "limits": ["slowdown<=0.05", "p99_ms<=1.2x"]}
    half = {"rss_avg_bytes": 2 * GIB}
    assert outcome(scored("sla", run(**half), **words)) == (0.5, True)
    assert scored("sla", run(runtime_s=104.9, p99_ms=12.0, **half), **words).feasible
    assert outcome(scored("sla", run(runtime_s=105.1, **half), **words)) == (None, False)
    assert outcome(scored("sla", run(p99_ms=12.1, **half), **words)) == (None, False)


def test_a_broken_limit_says_by_how_much_and_leaves_the_objective_known() -> None:
    words = {"maximize": "memory_saving", "limits": ["slowdown<=0.05", "p99_ms<=1.2x"]}
    score = scored("sla", run(runtime_s=110.0, p99_ms=9.0, rss_avg_bytes=2 * GIB), **words)
    assert score.margins == pytest.approx({"slowdown<=0.05": -1.0, "p99_ms<=1.2x": 0.25})
    assert score.margin == pytest.approx(-1.0)
    assert (score.value, score.objective) == (None, 0.5)


def test_limits_for_every_run_are_told_apart() -> None:
    words = {"limits": ["slowdown<=0.05", "p99_ms<=1.2x  every"]}
    assert scorer("sla", words).every == {"p99_ms<=1.2x every"}
    assert set(scored("sla", run(p99_ms=9.0), **words).margins) == {"slowdown<=0.05", "p99_ms<=1.2x every"}
    assert scorer("sla", {}).every == frozenset()


def test_a_goal_to_be_minimised() -> None:
    made = scorer("sla", {"minimize": "p99_ms", "limits": ["net_saving>=10%"]})
    assert made.direction == "minimize"
    assert made.needs == ("p99_ms", "net_avg_bytes")
    assert outcome(made.score(run(p99_ms=9.0, net_avg_bytes=3 * GIB), BASELINE, [])) == (9.0, True)
    assert not made.score(run(p99_ms=9.0), BASELINE, []).feasible
