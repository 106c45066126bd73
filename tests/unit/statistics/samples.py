"""Rounds of runs with given numbers."""

from __future__ import annotations

import numpy as np

from damoos.model.trial import Measurement
from damoos.scorers.base import Scorer
from damoos.scorers.daos import DaosScorer
from damoos.statistics.verdict import Judge

Values = list[tuple[float, float]]
BASE = [(100.0, 1000.0), (101.0, 1000.0), (99.5, 1001.0)]


def run(runtime_s: float, rss_bytes: float) -> Measurement:
    return Measurement({"runtime_s": runtime_s, "rss_avg_bytes": rss_bytes, "net_avg_bytes": rss_bytes})


def rounds(**arm_values: Values) -> list[dict[str, Measurement | None]]:
    """Runtime and RSS of each arm, round by round."""
    count = len(next(iter(arm_values.values())))
    return [{arm: run(*values[n]) for arm, values in arm_values.items()} for n in range(count)]


def judge_of(table: list[dict[str, Measurement | None]], scorer: Scorer | None = None, max_rounds: int = 6) -> Judge:
    """The judge of a study that has these rounds and no other baselines."""
    baselines = [found for one in table if (found := one.get("baseline"))]
    return Judge(scorer or DaosScorer(), baselines, [0.1], max_rounds)


def noisy(shares: list[float], seed: int) -> Values:
    """Runs that are as fast as the baseline and take shares of its memory, with some noise."""
    random = np.random.default_rng(seed)
    return [(100.0, 1000 * share + random.normal(0, 1)) for share in shares]
