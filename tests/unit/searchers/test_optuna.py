"""What samplers of Optuna are told of trials that were stopped or failed."""

from __future__ import annotations

from damoos.damon.attrs import Attrs
from damoos.model.space import Space, parse_param
from damoos.model.trial import History, Score, Trial
from damoos.searchers.optuna import OptunaSearcher

SPACE = Space("4K max  min max  MIN_AGE max  pageout", (parse_param("min_age=1s:60s", Attrs().aggr_us),))
STOPPED = Score(None, feasible=False, margins={"slowdown<=0.1": -0.1})
FAILED = Score(None, feasible=False)
COMPLETE = Score(0.3, feasible=True, margins={"slowdown<=0.1": 0.5, "p99_ms<=2x": 0.2}, parts={"saving": 0.3})


def history(searcher: OptunaSearcher, scores: list[Score]) -> History:
    found: History = ()
    for number, score in enumerate(scores):
        state = {None: "fail", "slowdown<=0.1": "censored"}.get(next(iter(score.margins), None), "complete")
        found += (Trial(number, searcher.ask(found), state if score is not COMPLETE else "complete", score),)
    return found


def told(scores: list[Score], sampler: str = "tpe") -> list[dict[str, float]]:
    """The constraints of all trials that a sampler knows."""
    searcher = OptunaSearcher(SPACE, 10, 0, sampler)
    searcher.ask(history(searcher, scores))
    assert searcher._study
    return [dict(trial.constraints) for trial in searcher._study.trials if trial.state.name == "COMPLETE"]


def test_all_trials_have_the_same_constraints() -> None:
    """Some samplers end with an error otherwise."""
    found = told([COMPLETE, STOPPED, FAILED, COMPLETE])
    assert found[:3] == [
        {"slowdown<=0.1": -0.5, "p99_ms<=2x": -0.2},
        {"slowdown<=0.1": 0.1, "p99_ms<=2x": 0.0},
        {"slowdown<=0.1": 1.0, "p99_ms<=2x": 1.0},
    ]


def test_limits_that_are_heard_of_later_are_told_of_all() -> None:
    found = told([STOPPED, COMPLETE, STOPPED])
    assert {frozenset(one) for one in found} == {frozenset(COMPLETE.margins)}


def test_a_sampler_without_constraints_is_told_none() -> None:
    assert told([COMPLETE, STOPPED, COMPLETE], "qmc") == [{}, {}, {}]
