"""How good searchers are: regret on curves whose best point is known, with a given number of trials."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from damoos.bench.curves import Curve
from damoos.common.interpreter import process_pool
from damoos.errors import ConfigError
from damoos.model.trial import History, Trial
from damoos.searchers import SEARCHERS, searcher
from damoos.searchers.base import Searcher, feasible

if TYPE_CHECKING:
    import pandas as pd

# What "all" stands for, beside damoos's own.
OPTUNA = ("optuna:tpe", "optuna:qmc", "optuna:nsgaii", "optuna:cmaes")


@dataclass(frozen=True)
class Outcome:
    """What one searcher came to on one curve, over its seeds."""

    regrets: tuple[float, ...]
    nr_broken: int
    ask_s: float
    nr_asks: int


def names(words: str) -> list[str]:
    """Searchers of a comma-separated list; ``all`` are damoos's own and some of Optuna's."""
    return [*SEARCHERS, *OPTUNA] if words == "all" else [word.strip() for word in words.split(",")]


def search(made: Searcher, curve: Curve) -> tuple[History, float]:
    """Let a searcher spend its trials on a curve; the history, and the seconds that its asks took."""
    history: History = ()
    spent = 0.0
    for number in range(made.nr_samples):
        begun = time.perf_counter()
        point = made.ask(history)
        spent += time.perf_counter() - begun
        history += (Trial(number, point, "complete", curve.query(point["min_age_us"])),)
    return history, spent


def judge(which: str | type[Searcher], curve: Curve, nr_samples: int, nr_seeds: int) -> Outcome:
    """A searcher, by its name or its class, on a curve: once per seed, once in all if the seed plays no part.

    Without a feasible trial there is nothing to recommend, which counts as the worst point and as a broken limit.
    """
    from threadpoolctl import threadpool_limits

    regrets, nr_broken, ask_s, nr_asks = [], 0, 0.0, 0
    with threadpool_limits(1):  # matrices of ten rows: more threads only wait for each other
        for seed in range(nr_seeds):
            racer = (
                searcher(which, curve.space, nr_samples, seed)
                if isinstance(which, str)
                else which(curve.space, nr_samples, seed)
            )
            history, spent = search(racer, curve)
            ask_s, nr_asks = ask_s + spent, nr_asks + len(history)
            if feasible(history):
                age_us = racer.recommend(history)["min_age_us"]
                regrets.append(curve.regret(age_us))
                nr_broken += not curve.query(age_us).feasible
            else:
                regrets.append(1.0)
                nr_broken += 1
            if racer.deterministic:
                break
    return Outcome(tuple(regrets), nr_broken, ask_s, nr_asks)


def race(
    searchers: Sequence[str | type[Searcher]],
    curves: Sequence[Curve],
    trials: Sequence[int] = (5, 10, 20),
    nr_seeds: int = 10,
) -> pd.DataFrame:
    """Race searchers in this process, so that a class which no package has yet can take part.

    Parameters
    ----------
    searchers : sequence of str or class
        Names as ``--searcher`` takes them, or subclasses of `damoos.searchers.base.Searcher`.

    Returns
    -------
    DataFrame
        One row per searcher, number of trials and curve: ``regret`` (mean over the seeds, in units of the curve's
        range), ``limit_broken`` (share of the recommendations), ``ask_ms``.
    """
    import pandas as pd

    rows = []
    for which, count, curve in product(searchers, trials, curves):
        outcome = judge(which, curve, count, nr_seeds)
        rows.append(
            {
                "searcher": which if isinstance(which, str) else which.name,
                "trials": count,
                "curve": curve.name,
                "regret": float(np.mean(outcome.regrets)),
                "limit_broken": outcome.nr_broken / len(outcome.regrets),
                "ask_ms": 1e3 * outcome.ask_s / outcome.nr_asks,
            }
        )
    return pd.DataFrame(rows)


def table(
    curves: Sequence[Curve], searchers: Sequence[str], trials: Sequence[int], nr_seeds: int
) -> list[dict[str, Any]]:
    """One row per searcher and number of trials.

    Returns
    -------
    list of dict
        ``searcher, trials, regret`` (mean over curves and seeds, in units of each curve's range), ``regret_ci95`` (the
        curves are the sample: bootstrap of their means), ``infeasible_rate`` (share of recommendations), ``ask_ms``.

    Raises
    ------
    ConfigError : a searcher does not exist or cannot be made, no seeds, or fewer than 2 trials
    """
    if nr_seeds < 1 or min(trials) < 2:
        raise ConfigError("--seeds must be 1 or more, --trials 2 or more")
    for name in searchers:
        searcher(name, curves[0].space, max(trials), 0)
    work = list(product(searchers, trials, curves))
    with process_pool() as pool:
        done = pool.map(
            judge,
            *zip(*((name, curve, count) for name, count, curve in work), strict=True),
            [nr_seeds] * len(work),
            chunksize=max(1, len(work) // 64),
        )
        outcomes = dict(zip(((n, t, id(c)) for n, t, c in work), done, strict=True))
    return [
        _row(name, count, [outcomes[name, count, id(c)] for c in curves]) for name, count in product(searchers, trials)
    ]


def _row(name: str, count: int, outcomes: list[Outcome]) -> dict[str, Any]:
    means = [float(np.mean(outcome.regrets)) for outcome in outcomes]
    return {
        "searcher": name,
        "trials": count,
        "regret": float(np.mean(means)),
        "regret_ci95": list(_interval(means)),
        "infeasible_rate": sum(outcome.nr_broken for outcome in outcomes)
        / sum(len(outcome.regrets) for outcome in outcomes),
        "ask_ms": 1e3 * sum(outcome.ask_s for outcome in outcomes) / sum(outcome.nr_asks for outcome in outcomes),
    }


def _interval(means: list[float]) -> tuple[float, float]:
    if len(set(means)) == 1:
        return means[0], means[0]
    bootstrap = stats.bootstrap((means,), np.mean, method="percentile", n_resamples=2000, rng=np.random.default_rng(0))
    return float(bootstrap.confidence_interval.low), float(bootstrap.confidence_interval.high)
