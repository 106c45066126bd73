"""How often damoos declares a winner where there is none: verdicts on runs that are all of the same scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from damoos.dispatch.lease import Lease
from damoos.errors import ConfigError
from damoos.model.trial import Measurement
from damoos.policies.base import NonePolicy
from damoos.scorers.base import Scorer
from damoos.statistics import verdict
from damoos.study.config import MAX_EXTRA_ROUNDS, manual_policy
from damoos.study.run_config import RunConfig

NR_STUDIES = 2000
# What a study compares: the manual scheme, and the better one of two candidates.
ARMS = (verdict.MANUAL, f"{verdict.CANDIDATE}1", f"{verdict.CANDIDATE}2")


def run(config: RunConfig, rounds: int, say: Callable[[str], None]) -> tuple[list[Measurement], list[Measurement], str]:
    """Run a workload in turns without a scheme and under the manual one.

    Returns
    -------
    (list of Measurement, list of Measurement, str)
        Runs without, runs under it, and what ran.
    """
    without, under = [], []
    with Lease(config.machine_for(), say) as lease:
        workload = config.workload_on(lease.which)
        scheme = manual_policy(workload.tuning.manual_us, "vaddr")
        limit_s = config.run_limit_s or workload.tuning.limit_s
        if workload.note:
            say(workload.note)
        for number in range(rounds):
            without.append(lease.run(workload, NonePolicy(), limit_s)[0])
            under.append(lease.run(workload, scheme, limit_s)[0])
            say(
                f"round {number + 1} of {rounds}: {without[-1].metric('runtime_s'):.2f} s without,"
                f" {under[-1].metric('runtime_s'):.2f} s under {scheme.schemes[0]}"
            )
        facts = lease.facts
    what = f"{workload.name} ({workload.variant}) on {config.machine}, Linux {facts['kernel']}, {facts['accel']}"
    return without, under, what


def check_rounds(rounds: int, planned: int) -> None:
    """Refuse too few rounds, before any is run.

    Raises
    ------
    ConfigError : an arm of a drawn study would have to hold the same run twice
    """
    if rounds < planned + MAX_EXTRA_ROUNDS:
        raise ConfigError(
            f"--rounds {rounds} are too few for --repeats {planned}; give {planned + MAX_EXTRA_ROUNDS} or more"
        )


def false_winners(
    without: Sequence[Measurement], under: Sequence[Measurement], scorer: Scorer, planned: int, seed: int = 0
) -> dict[str, Any]:
    """Verdicts on studies drawn from runs in which nothing differs.

    Two questions are put to each drawn study, each with the rounds that a real one would get: is the manual scheme
    better than the better one of two candidates, or the other way round, where all three are the same scheme
    (``schemes``), and where all three are baselines (``baselines``)?

    Parameters
    ----------
    without, under : sequence of Measurement
        Runs without a scheme and under one; every study draws anew, without replacement within a round.
    planned : int
        Rounds of a validation.

    Returns
    -------
    dict
        ``schemes`` and ``baselines``: share of false winners with its 95 % interval (Wilson) over the drawn studies.
    """
    check_rounds(min(len(without), len(under)), planned)
    needed = len(ARMS) * (planned + MAX_EXTRA_ROUNDS)
    random = np.random.default_rng(seed)

    def draw(runs: Sequence[Measurement]) -> list[list[Measurement]]:
        """The arms' runs; a run is drawn again only when all have been drawn."""
        order = [n for _ in range(-(-needed // len(runs))) for n in random.permutation(len(runs))]
        return [[runs[n] for n in order[k : needed : len(ARMS)]] for k in range(len(ARMS))]

    counts = {"schemes": 0, "baselines": 0}
    for _ in range(NR_STUDIES):
        base = draw(without)[0]
        for question, runs in (("schemes", draw(under)), ("baselines", draw(without))):
            rounds = [
                {verdict.BASELINE: base[n], **{name: runs[k][n] for k, name in enumerate(ARMS)}}
                for n in range(planned + MAX_EXTRA_ROUNDS)
            ]
            counts[question] += _has_winner(rounds, scorer, planned)
    return {
        "studies": NR_STUDIES,
        **{question: _share(count) for question, count in counts.items()},
    }


def _has_winner(rounds: list[dict[str, Measurement]], scorer: Scorer, planned: int) -> bool:
    """Whether one of the equal arms is said to be better, asked as `damoos.study.search` asks."""

    def equal_arms(some: Sequence[Mapping[str, Measurement]]) -> tuple[dict[str, verdict.Arm], dict[str, str]]:
        arms, names = verdict.settle(some, scorer, [0.0], planned)
        # They are judged among themselves, kept limits or not: it is the noise that is asked about.
        among = {name: replace(arm, feasible=True) for name, arm in arms.items() if name != verdict.BASELINE}
        return {name: arm for name, arm in among.items() if arm.scores}, names

    arms, names = equal_arms(rounds[:planned])
    if verdict.judge(arms, scorer.direction).best in arms:
        return True
    if not verdict.in_question(arms, scorer.direction, len(rounds) - planned):
        return False
    lost = [raw for raw, name in names.items() if name.startswith(verdict.RUNNER_UP)]
    more = [{name: run for name, run in runs.items() if name not in lost} for runs in rounds[planned:]]
    arms, _ = equal_arms([*rounds[:planned], *more])
    return verdict.judge(arms, scorer.direction).best in arms


def _share(count: int) -> dict[str, Any]:
    interval = stats.binomtest(count, NR_STUDIES).proportion_ci(method="wilson")
    return {"false_winners": count / NR_STUDIES, "ci95": [float(interval.low), float(interval.high)]}
