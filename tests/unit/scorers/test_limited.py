"""A scorer with some of its limits changed."""

from __future__ import annotations

import math

import pytest

from damoos.errors import ConfigError
from damoos.scorers import scorer

from .conftest import BASELINE, run

SLOWER = run(runtime_s=108.0, rss_avg_bytes=1 << 30)


def test_its_own_limit_gives_way() -> None:
    assert scorer("daos").score(SLOWER, BASELINE, ()).feasible
    changed = scorer("daos", limits=["slowdown<=0.05"])
    score = changed.score(SLOWER, BASELINE, ())
    assert (score.feasible, score.value, score.objective) == (False, None, pytest.approx(0.335))
    assert score.margins == {"slowdown<=0.05": pytest.approx(-0.6)}
    assert changed.max_slowdown == 0.05
    wider = scorer("daos", limits=["slowdown<=0.2"])
    assert wider.score(run(runtime_s=115.0, rss_avg_bytes=1 << 30), BASELINE, (0.1,)).value == pytest.approx(0.3)


def test_limits_on_other_terms_stay() -> None:
    options = {"limits": ["slowdown<=0.1", "p99_ms<=1.2x every"]}
    changed = scorer("sla", options, ["slowdown<=0.2"])
    assert set(changed.score(SLOWER, BASELINE, ()).margins) == {"slowdown<=0.2", "p99_ms<=1.2x every"}
    assert changed.every == {"p99_ms<=1.2x every"}
    assert scorer("sla", options, ["p99_ms<=1.5x"]).max_slowdown == 0.1
    assert scorer("sla", options, ["p99_ms<=1.5x"]).every == frozenset()
    assert scorer("sla", {"limits": ["speedup>=-0.1"]}, ["slowdown<=0.2"]).max_slowdown == 0.2
    late = run(p99_ms=20.0)
    assert not changed.score(late, BASELINE, ()).feasible


def test_what_is_new_is_read_too() -> None:
    changed = scorer("daos", limits=["p99_ms<=1.2x"])
    assert changed.needs == ("runtime_s", "rss_avg_bytes", "p99_ms")
    assert (changed.direction, changed.name, changed.max_slowdown) == ("maximize", "daos", 0.1)
    with pytest.raises(ConfigError, match="write NAME<=NUMBER"):
        scorer("daos", limits=["fast"])


def test_a_run_that_was_stopped_tells_of_the_time_alone() -> None:
    stopped = run(runtime_s=130.0)
    changed = scorer("sla", {"limits": ["slowdown<=0.1", "p99_ms<=1.2x"]}, ["slowdown<=0.05"])
    assert changed.stopped(stopped, BASELINE).margins == {"slowdown<=0.05": pytest.approx(-5.0)}
    assert math.isinf(scorer("sla", {"limits": ["p99_ms<=1.2x"]}, ["p99_ms<=2x"]).max_slowdown)


def test_a_limit_that_no_margin_tells_of_stays_broken(tmp_path) -> None:
    """A plug-in that only says that a run is of no use."""
    file = tmp_path / "own.py"
    file.write_text("def score(run, baseline):\n    return None if run['runtime_s'] > 105 else 1.0\n")
    changed = scorer(f"{file}:score", limits=["slowdown<=0.2"])
    assert not changed.score(SLOWER, BASELINE, ()).feasible
    assert changed.score(run(runtime_s=104.0), BASELINE, ()).value == 1.0
