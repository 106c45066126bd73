"""What finished studies are worth to a new one: of the same workload elsewhere, and of another workload by mistake."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from damoos.bench.simulated import Ending, learn, play
from damoos.bench.surfaces import elsewhere, generate
from damoos.common.interpreter import process_pool

# What a study learns from.
NOTHING, SAME, OTHER = "nothing", "the workload elsewhere", "another workload"
# Of the seeds that make the other workloads.
APART = 1000


def table(
    nr_params: int, seeds: Sequence[int], count: int, learned: int, trials: Sequence[int]
) -> list[dict[str, Any]]:
    """One row for what was learned from and the number of trials.

    Parameters
    ----------
    count : int
        Made workloads of each seed.
    learned : int
        Trials of the studies that are learned from.

    Returns
    -------
    list of dict
        ``like, params, trials, lost, lost_ci95, broken, runs`` (mean), as of `damoos.bench.simulated.table`.
    """
    jobs = [(nr_params, seed, number, learned, tuple(trials)) for seed in seeds for number in range(count)]
    with process_pool() as pool:
        played = list(pool.map(_play, jobs))
    return [_row(like, nr_params, nr, [one[like, nr] for one in played]) for like, nr in played[0]]


def _play(words: tuple[int, int, int, int, tuple[int, ...]]) -> dict[tuple[str, int], Ending]:
    """Studies of one workload elsewhere."""
    from threadpoolctl import threadpool_limits

    nr_params, seed, number, learned, trials = words
    with threadpool_limits(1):
        here, other = (generate(number + 1, one, nr_params)[number] for one in (seed, seed + APART))
        there = elsewhere(here, number)
        known = {NOTHING: (), SAME: (learn(here, learned, number),), OTHER: (learn(other, learned, number),)}
        return {
            (like, nr): play(there, "auto", nr, number, like=[one for one in known[like] if one.is_enough])
            for like, nr in product(known, trials)
        }


def _row(like: str, nr_params: int, nr_trials: int, endings: Sequence[Ending]) -> dict[str, Any]:
    lost = np.array([ending.lost for ending in endings])
    half = 1.96 * float(lost.std(ddof=1)) / math.sqrt(len(lost))
    return {
        "like": like,
        "params": nr_params,
        "trials": nr_trials,
        "lost": float(lost.mean()),
        "lost_ci95": [float(lost.mean()) - half, float(lost.mean()) + half],
        "broken": float(np.mean([ending.broken for ending in endings])),
        "runs": float(np.mean([ending.runs for ending in endings])),
    }
