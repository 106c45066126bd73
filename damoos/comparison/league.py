"""The league: what each of several policies saves at a bounded slowdown, tuned and at its defaults, on many workloads.

Each workload has had a study of all policies (`StudyConfig.league`): the same number of trials each, and fresh runs of
each one's best point and of its defaults in the same rounds. Here these fresh runs are judged under several limits.
What a policy saves under a limit is what the better of its two points saves that is shown to keep it, and nothing where
neither is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from damoos.errors import ConfigError
from damoos.scorers.terms import TERMS
from damoos.statistics.arms import BASELINE, Arm, beside, rounds_of
from damoos.statistics.intervals import interval_of_average
from damoos.statistics.summary import Quantity, told
from damoos.statistics.verdict import Judge
from damoos.study.course import outcome
from damoos.study.damage import names_damage
from damoos.study.result import which_policy
from damoos.study.study import Study

# Slowdowns under which the policies are compared.
SLOWDOWNS = (0.02, 0.05, 0.1)
# What is saved: of all memory that is charged to the run, with what its swapped pages take where swap is compressed.
SAVED = "net_saving"

Entry = dict[str, Any]
"""What one study came to, as plain values (`entry`)."""


@names_damage
def entry(study: Study) -> Entry:
    """What a league's study of one workload came to.

    Parameters
    ----------
    study : Study
        Finished.

    Returns
    -------
    dict
        ``study, workload, variant, machine`` (as in its result), ``policies``, ``limit`` (the slowdown that it was
        tuned for), ``runs``; ``searched``: by policy ``trials`` (a number) and ``error`` (why none ran); ``limits``: by
        slowdown ``arms`` and ``first``, the policies that nothing beats, ``baseline`` for leaving it alone. An arm has
        ``policy, defaults, scheme, standing, saving, slowdown`` (quantities).

    Raises
    ------
    ConfigError : it is no study of a league, or not finished
    """
    result = study.record.result
    if result is None or not study.config.league:
        raise ConfigError(f"study '{study.name}' is not a finished one of a league")
    return {
        **{key: result[key] for key in ("study", "workload", "variant", "machine", "provenance")},
        "policies": list(study.config.policies),
        "limit": study.scorer.max_slowdown,
        "runs": len(study.runs()),
        "searched": dict(_searched(study)),
        "limits": {f"{slowdown:g}": _judged(study, slowdown) for slowdown in SLOWDOWNS},
    }


def _searched(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    trials = study.trials()
    for name in study.config.policies:
        own = [trial for trial in trials if study.space.readable(trial.params)["policy"] == name]
        failed = [trial.error for trial in own if trial.state == "fail"]
        yield name, {"trials": len(own), "error": failed[-1] if own and len(failed) == len(own) else ""}


def _judged(study: Study, slowdown: float) -> dict[str, Any]:
    """The fresh runs under one limit."""
    limits = [f"slowdown<={slowdown:g}"]
    other = study.asked_again(scorer="sla", scorer_options={"maximize": SAVED, "limits": limits}, limits=())
    runs = other.runs()
    stand = outcome(other, runs)
    base = beside(rounds_of(runs))
    raw_of = {name: raw for raw, name in stand.names.items()}
    abouts = {name: which_policy(study, raw_of.get(name, name), stand.points.get(name)) for name in stand.arms}
    arms = []
    for name, arm in stand.arms.items():
        if name == BASELINE:
            continue
        slower = [TERMS["slowdown"].of(run, base[n]) for n, run in arm.runs.items()]
        saving = told(list(arm.scores.values()), arm.interval) if arm.scores else None
        arms.append({**abouts[name], "standing": arm.standing.value, "saving": saving, "slowdown": told(slower)})
    leaders, _ = stand.judge.leaders(stand.arms)
    return {
        "arms": arms,
        "first": list(dict.fromkeys(abouts[arm.name]["policy"] or BASELINE for arm in leaders)),
        "tuning_won": dict(_tuning(stand.arms, stand.judge, abouts)),
    }


def _tuning(
    by_name: Mapping[str, Arm], judge: Judge, abouts: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, bool]]:
    """Whether the tuned point of each validated policy is certainly better than its defaults.

    It is, too, where the defaults are not shown to keep the limit, and the tuned point is and beats leaving it alone.
    """
    pairs: dict[str, dict[bool, Arm]] = {}
    for name, arm in by_name.items():
        if name != BASELINE:
            pairs.setdefault(abouts[name]["policy"], {})[abouts[name]["defaults"]] = arm
    for policy, pair in pairs.items():
        tuned, defaults = pair.get(False), pair.get(True)
        if tuned is None or defaults is None:
            continue
        rival = defaults if defaults.feasible else by_name[BASELINE]
        yield policy, tuned.feasible and judge.beats(tuned, rival, by_name)


def saved(found: Entry, policy: str, slowdown: float) -> Quantity | None:
    """What a policy saves on one workload under a limit; 0 where nothing is shown to keep it, None where it cannot run.

    Returns
    -------
    dict
        ``mean, ci95, values`` as fractions, and ``defaults``: whether its defaults are the better point.
    """
    if found["searched"][policy]["error"]:
        return None
    arms = [arm for arm in found["limits"][f"{slowdown:g}"]["arms"] if arm["policy"] == policy]
    kept = [arm for arm in arms if arm["standing"] == "kept" and arm["saving"] and arm["saving"]["mean"] > 0]
    if not kept:
        return {"mean": 0.0, "ci95": [0.0, 0.0], "values": [0.0, 0.0], "defaults": False}
    best = max(kept, key=lambda arm: arm["saving"]["mean"])
    return {**best["saving"], "defaults": best["defaults"]}


def table(found: Sequence[Entry]) -> list[dict[str, Any]]:
    """The league's table on each machine.

    Parameters
    ----------
    found : sequence of dict
        Of `entry`.

    Returns
    -------
    list of dict
        By machine: ``machine``, ``workloads`` (real, models: numbers), ``policies``: by name, the best first,
        ``saved`` (by slowdown a quantity over the workloads on which it can run), ``wins``, ``shared`` (workloads on
        which nothing beats it, alone and together with others, under the limit of the tuning), ``kept`` (on which it
        saves something), ``tuning`` (``won``, ``of``: on how many of those with both points validated tuning is
        certainly better), ``cannot`` (why it cannot run there).

    Raises
    ------
    ConfigError : nothing to compare, or studies of different policies
    """
    if not found:
        raise ConfigError("no study of the league has finished yet")
    if len({tuple(one["policies"]) for one in found}) > 1:
        raise ConfigError("the studies are of leagues of different policies")
    machines = dict.fromkeys(one["machine"]["name"] for one in found)
    return [_machine(name, [one for one in found if one["machine"]["name"] == name]) for name in machines]


def _machine(name: str, found: Sequence[Entry]) -> dict[str, Any]:
    rows = {policy: _row(policy, found) for policy in found[0]["policies"]}
    limit = f"{nearest_limit(found):g}"
    order = sorted(rows, key=lambda policy: -(rows[policy]["saved"][limit] or {"mean": -1.0})["mean"])
    models = sum(one["variant"] == "model" for one in found)
    return {
        "machine": name,
        "about": found[0]["machine"],
        "limit": float(limit),
        "workloads": {"real": len(found) - models, "models": models},
        "alone": sum(one["limits"][limit]["first"][:1] == [BASELINE] for one in found),
        "policies": {policy: rows[policy] for policy in order},
    }


def nearest_limit(found: Sequence[Entry]) -> float:
    """The slowdown that a league was tuned for, or the nearest of those under which policies are compared."""
    limit = found[0]["limit"]
    return min(SLOWDOWNS, key=lambda slowdown: abs(slowdown - limit)) if math.isfinite(limit) else SLOWDOWNS[-1]


def _row(policy: str, found: Sequence[Entry]) -> dict[str, Any]:
    limit = f"{nearest_limit(found):g}"
    firsts = [one["limits"][limit]["first"] for one in found]
    tuning = [one["limits"][limit]["tuning_won"][policy] for one in found
              if policy in one["limits"][limit]["tuning_won"]]  # fmt: skip
    own = [value for one in found if (value := saved(one, policy, float(limit)))]
    errors = [one["searched"][policy]["error"] for one in found]
    return {
        "saved": {f"{slowdown:g}": _average(policy, slowdown, found) for slowdown in SLOWDOWNS},
        "wins": sum(first == [policy] for first in firsts),
        "shared": sum(policy in first and len(first) > 1 for first in firsts),
        "kept": sum(value["mean"] > 0 for value in own),
        "of": len(own),
        "tuning": {"won": sum(tuning), "of": len(tuning)},
        "cannot": next(iter(filter(None, errors)), "") if not own else "",
    }


def _average(policy: str, slowdown: float, found: Sequence[Entry]) -> Quantity | None:
    """Over the workloads on which it can run; the interval is of the noise of the runs."""
    own = [value for one in found if (value := saved(one, policy, slowdown))]
    if not own:
        return None
    groups = [value["values"] for value in own]
    ends = tuple(own[0]["ci95"]) if len(own) == 1 and own[0]["ci95"] else interval_of_average(groups)
    return told([float(np.mean(group)) for group in groups], (ends[0], ends[1]))


def rows(found: Sequence[Entry]) -> list[dict[str, Any]]:
    """A tidy table: a row for each validated point of a policy on a workload, under each limit."""
    tidy = []
    for one in found:
        for slowdown, judged in one["limits"].items():
            for arm in judged["arms"]:
                low, high = (arm["saving"] or {}).get("ci95") or (None, None)
                tidy.append(
                    {
                        "machine": one["machine"]["name"],
                        "kernel": one["machine"]["kernel"],
                        "workload": one["workload"],
                        "variant": one["variant"],
                        "policy": arm["policy"],
                        "defaults": arm["defaults"],
                        "scheme": arm["scheme"],
                        "slowdown_limit": float(slowdown),
                        "limit": arm["standing"],
                        "net_saving": arm["saving"] and arm["saving"]["mean"],
                        "net_saving_low": low,
                        "net_saving_high": high,
                        "slowdown": arm["slowdown"]["mean"],
                        "rounds": len(arm["slowdown"]["values"]),
                        "first": arm["policy"] in judged["first"],
                    }
                )
    return tidy
