"""Runs that lie far beyond what the others of their kind let one expect: each is run again, once.

A cron job, a neighbour on the host, a disk that hangs: one run in twenty that takes three times as long would cost a
study its verdict. The run that is not believed is kept as one of the kind `OUTLIER`, and the other one takes its place,
whatever it measures: what happens twice is no accident.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from statistics import median

from damoos.model.trial import Run
from damoos.statistics.arms import BASELINE

OUTLIER = "outlier"
# A metric that differs from those of both runs beside it by this factor is no noise, unless so much is usual.
FACTOR = 1.3
# In standard deviations, where the usual noise is known.
NR_DEVIATIONS = 6.0
# So many pairs of runs tell the usual noise, one outlier being in two of them. Of fewer, only the runtime is judged.
LEAST_PAIRS = 5
# Of normal values, the median difference of two in standard deviations of one.
_MEDIAN_OF_A_PAIR = 0.954
_RUNTIME = "runtime_s"


def outlier(runs: Iterable[Run], metrics: Sequence[str]) -> Run | None:
    """A run that is to be done again; None where there is none.

    Parameters
    ----------
    runs : iterable of Run
        All that have finished, those of the kind `OUTLIER` among them.
    metrics : sequence of str
        Those that the score reads.
    """
    done = sorted(runs, key=lambda run: run.index)
    copies = {run.arm: run for run in done if run.kind == OUTLIER}
    for run in done:
        if (copy := copies.get(run.key)) and copy.measurement is run.measurement:
            return run  # it was found before, and has not been done again yet (`joined`)
    groups = [group for group in _groups(done) if len(group) > 1]
    left_alone = [group for group in groups if group[0].arm in ("", BASELINE)]
    schemes = [group for group in groups if group not in left_alone]
    for metric, alike in product(metrics, (left_alone, schemes)):
        most = _most(alike, metric)
        for group in alike if most else ():
            far = [run for run in group if run.key not in copies and _is_far(run, group, copies, metric, most)]
            if far:
                return far[-1]
    return None


def kept(run: Run) -> Run:
    """The run as one that is not believed."""
    return replace(run, kind=OUTLIER, arm=run.key)


def joined(runs: Mapping[str, Run]) -> dict[str, Run]:
    """Runs as read from a store, by their keys: one that was found and not done again has its copy's measurement.

    That it is the very same object tells it from one whose second run has measured the same.
    """
    copies = {copy.arm: copy.measurement for copy in runs.values() if copy.kind == OUTLIER}
    return {
        key: replace(run, measurement=copies[key]) if key in copies and copies[key] == run.measurement else run
        for key, run in runs.items()
    }


def _groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that should measure the same, in their order: baselines, and those of each arm of the validation."""
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        if run.measurement and not run.measurement.censored and run.kind in ("baseline", "validation"):
            by_name.setdefault(run.arm or BASELINE, []).append(run)
    return list(by_name.values())


def _most(groups: Sequence[Sequence[Run]], metric: str) -> float:
    """By how much the logarithm of a metric may differ between runs of a kind; 0 where nobody knows."""
    pairs = [abs(_apart(one, other, metric)) for group in groups for one, other in pairwise(group)]
    if metric != _RUNTIME and len(pairs) < LEAST_PAIRS:
        return 0.0
    usual = median(pairs) / _MEDIAN_OF_A_PAIR if len(pairs) >= LEAST_PAIRS else 0.0
    return max(math.log(FACTOR), NR_DEVIATIONS * usual)


def _is_far(run: Run, group: Sequence[Run], copies: Mapping[str, Run], metric: str, most: float) -> bool:
    """Whether a run differs from the two beside it, and from what those were before they were done again."""
    others = sorted((other for other in group if other is not run), key=lambda other: abs(other.index - run.index))[:2]
    beside = [*others, *(copies[other.key] for other in others if other.key in copies)]
    return all(abs(_apart(run, other, metric)) > most for other in beside)


def _apart(one: Run, other: Run, metric: str) -> float:
    """The logarithm of the ratio of a metric; 0 where there is none."""
    first, second = _value(one, metric), _value(other, metric)
    return math.log(first / second) if first > 0 and second > 0 else 0.0


def _value(run: Run, metric: str) -> float:
    assert run.measurement
    return run.measurement.metrics.get(metric, 0.0)
