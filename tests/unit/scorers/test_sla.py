"""One goal within limits."""

from __future__ import annotations

from damoos.model.trial import Score
from damoos.scorers import scorer

from .conftest import BASELINE, GIB, run, scored


def test_the_goal_within_the_limits() -> None:
    words = {"maximize": "memory_saving", "limits": ["slowdown<=0.05", "p99_ms<=1.2x"]}
    half = {"rss_avg_bytes": 2 * GIB}
    assert scored("sla", run(**half), **words) == Score(0.5, feasible=True)
    assert scored("sla", run(runtime_s=104.9, p99_ms=12.0, **half), **words).feasible
    assert scored("sla", run(runtime_s=105.1, **half), **words) == Score(None, feasible=False)
    assert scored("sla", run(p99_ms=12.1, **half), **words) == Score(None, feasible=False)


def test_a_goal_to_be_minimised() -> None:
    made = scorer("sla", {"minimize": "p99_ms", "limits": ["net_saving>=10%"]})
    assert made.direction == "minimize"
    assert made.needs == ("p99_ms", "net_avg_bytes")
    assert made.score(run(p99_ms=9.0, net_avg_bytes=3 * GIB), BASELINE, []) == Score(9.0, feasible=True)
    assert not made.score(run(p99_ms=9.0), BASELINE, []).feasible
