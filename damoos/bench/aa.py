"""How often damoos declares a winner where there is none: verdicts on runs that are all of the same scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from damoos.dispatch.lease import Lease
from damoos.errors import ConfigError
from damoos.model.trial import Measurement
from damoos.policies.base import NonePolicy
from damoos.scorers.base import Scorer
from damoos.statistics import arms
from damoos.statistics.limits import MIN_ROUNDS
from damoos.statistics.verdict import Judge, wants_baseline
from damoos.study.config import manual_policy
from damoos.study.run_config import RunConfig

NR_STUDIES = 2000
# Baselines of a search of 10 trials.
NR_SEARCH = 3
ARMS = (arms.MANUAL, arms.TUNED)


def run(config: RunConfig, rounds: int, say: Callable[[str], None]) -> tuple[list[Measurement], list[Measurement], str]:
    """Run a workload in turns without a scheme and under the manual one.

    Returns
    -------
    (list of Measurement, list of Measurement, str)
        Runs without, runs under it, and what ran.
    """
    without, under = [], []
    with Lease(config.machine_for(), say) as lease:
        workload = config.workload_on(lease.place)
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


def check_rounds(rounds: int, repeats: int) -> None:
    """Refuse too few rounds, before any is run.

    Raises
    ------
    ConfigError : an arm of a drawn study would have to hold the same run twice
    """
    if rounds < repeats:
        raise ConfigError(f"--rounds {rounds} are too few for --repeats {repeats}; give {repeats} or more")


def false_winners(
    without: Sequence[Measurement], under: Sequence[Measurement], scorer: Scorer, repeats: int, seed: int = 0
) -> dict[str, Any]:
    """Verdicts on studies drawn from runs in which nothing differs.

    Two questions are put to each drawn study, each with the rounds that a real one would get: is the manual scheme
    better than the tuned one, or the other way round, where both are the same scheme (``schemes``), and where both are
    baselines (``baselines``)?

    Parameters
    ----------
    without, under : sequence of Measurement
        Runs without a scheme and under one; every study draws anew, without replacement within an arm.
    repeats : int
        The most rounds of a validation.

    Returns
    -------
    dict
        ``schemes`` and ``baselines``: share of false winners with its 95 % interval (Wilson) over the drawn studies.
    """
    check_rounds(min(len(without), len(under)), repeats)
    needed = len(ARMS) * repeats
    random = np.random.default_rng(seed)

    def draw(runs: Sequence[Measurement]) -> list[list[Measurement]]:
        """The arms' runs; a run is drawn again only when all have been drawn."""
        order = [n for _ in range(-(-needed // len(runs))) for n in random.permutation(len(runs))]
        return [[runs[n] for n in order[k : needed : len(ARMS)]] for k in range(len(ARMS))]

    counts = {"schemes": 0, "baselines": 0}
    for _ in range(NR_STUDIES):
        # Those of the search, which the judge knows, too, and those of the rounds.
        search = [without[n] for n in random.choice(len(without), min(NR_SEARCH, len(without)), replace=False)]
        base = draw(without)[0]
        for question, runs in (("schemes", draw(under)), ("baselines", draw(without))):
            rounds = [
                {arms.BASELINE: base[n], **{name: runs[k][n] for k, name in enumerate(ARMS)}} for n in range(repeats)
            ]
            counts[question] += _has_winner(rounds, search, scorer)
    return {
        "studies": NR_STUDIES,
        **{question: _share(count) for question, count in counts.items()},
    }


def _has_winner(rounds: list[dict[str, Measurement]], search: Sequence[Measurement], scorer: Scorer) -> bool:
    """Whether one of the equal arms is said to be better, asked after each round as `damoos.study.course` asks."""
    played: list[dict[str, Measurement]] = []
    for runs in rounds:
        asked = {arms.BASELINE, *ARMS} if wants_baseline(played, ARMS) else {*ARMS}
        played.append({name: run for name, run in runs.items() if name in asked})
        if len(played) < MIN_ROUNDS:
            continue
        baselines = [*search, *(one[arms.BASELINE] for one in played if arms.BASELINE in one)]
        judge = Judge(scorer, baselines, [0.0], len(rounds))
        found = judge.arms(played)
        if judge.verdict(found).best in ARMS:
            return True
        if not set(judge.in_question(found)) & {*ARMS}:
            return False
    return False


def _share(count: int) -> dict[str, Any]:
    interval = stats.binomtest(count, NR_STUDIES).proportion_ci(method="wilson")
    return {"false_winners": count / NR_STUDIES, "ci95": [float(interval.low), float(interval.high)]}
