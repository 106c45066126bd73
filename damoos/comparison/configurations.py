"""Configurations set against the baseline of their own block, and what they come to over many workloads (Figure 7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from damoos.errors import MeasurementError
from damoos.model.trial import Measurement, Run
from damoos.policies import named
from damoos.policies.base import DamosPolicy
from damoos.statistics.verdict import interval, interval_of_average, mean_measurement

Block = Mapping[str, Run]
Quantity = dict[str, Any]


def _ratio(metric: str) -> Callable[[Measurement, Measurement], float]:
    return lambda base, run: base.metric(metric) / run.metric(metric)


def _change(metric: str) -> Callable[[Measurement, Measurement], float]:
    return lambda base, run: run.metric(metric) / base.metric(metric) - 1


def _own(metric: str) -> Callable[[Measurement, Measurement], float]:
    return lambda base, run: run.metric(metric)


# What is told of a configuration, from a block's baseline and its own run. Normalised as the paper's Figure 7 is: the
# baseline is 1, more is better. Changes are as its Listing 2 and the v8 patch set count them.
QUANTITIES: dict[str, Callable[[Measurement, Measurement], float]] = {
    "performance": _ratio("runtime_s"),
    "memory_efficiency": _ratio("rss_avg_bytes"),
    "slowdown": _change("runtime_s"),
    "bloat": _change("rss_avg_bytes"),
    "kdamond_cpu": lambda base, run: run.metric("kdamond_cpu_s") / run.metric("runtime_s"),
    "runtime_s": _own("runtime_s"),
    "rss_avg_bytes": _own("rss_avg_bytes"),
    "anon_huge_avg_bytes": _own("anon_huge_avg_bytes"),
}
# Averages of these over workloads mean something.
AVERAGED = ("performance", "memory_efficiency", "slowdown", "bloat", "kdamond_cpu")


def told(values: Sequence[float], ci95: tuple[float, float] | None = None) -> Quantity:
    """Values, their mean and its 95 % interval; the interval is null where there are too few values for one."""
    ends = ci95 or interval(values)
    return {
        "mean": float(np.mean(values)),
        "ci95": list(ends) if all(map(math.isfinite, ends)) else None,
        "values": list(values),
    }


def config_json(name: str, form: Mapping[str, str], time_scale: int, blocks: Sequence[Block]) -> dict[str, Any]:
    """One configuration of a listed study: what was in force, and its quantities; or why there are none.

    Parameters
    ----------
    form : mapping
        As `damoos.policies.named.resolve` gives it.
    time_scale : int
        By how much ages of schemes were divided.
    blocks : sequence of mapping of str to Run
        Runs by configuration, one mapping per block.

    Returns
    -------
    dict
        ``scheme, operations, thp, record, nr_runs, error, quantities, damos``
    """
    policy = named.policy(form, time_scale)
    runs = [block[name] for block in blocks if name in block]
    pairs, error = _pairs(name, blocks), next((run.error for run in runs if run.error), "")
    if not pairs and not error:
        error = "none of its runs was on the machine of its block's baseline"
    total = [one.as_dict() for _, measured in pairs for one in measured.damos]
    return {
        "scheme": "\n".join(map(str, policy.schemes)) if isinstance(policy, DamosPolicy) else None,
        **{key: form.get(key) for key in ("operations", "thp", "record")},
        "nr_runs": len(runs),
        "error": error,
        "quantities": {} if error else {key: told([of(*pair) for pair in pairs]) for key, of in QUANTITIES.items()},
        "damos": {
            key: sum(one[key] for one in total)
            for key in ("nr_tried", "sz_tried_bytes", "nr_applied", "sz_applied_bytes")
        },
    }


def _pairs(name: str, blocks: Sequence[Block]) -> list[tuple[Measurement, Measurement]]:
    """Runs with the baseline of their block; a block that was broken over two machines has no pair.

    A baseline is set against those of the other blocks, so that its interval shows the noise.
    """
    pairs = []
    bases = [block[named.BASELINE] for block in blocks if named.BASELINE in block]
    for block in blocks:
        run, base = block.get(name), block.get(named.BASELINE)
        if not run or not run.measurement or not base or not base.measurement or run.host != base.host:
            continue
        against = base.measurement
        if name == named.BASELINE:
            others = [one.measurement for one in bases if one is not base and one.host == base.host and one.measurement]
            against = mean_measurement(others) if others else against
        pairs.append((against, run.measurement))
    return pairs


def evaluation(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What finished listed studies come to on each machine.

    Returns
    -------
    list of dict
        By machine: ``machine, workloads``, ``configs`` (by name: each of `AVERAGED` with ``mean``, ``ci95``, and the
        ``best`` and ``worst`` workload; ``workloads`` that count; those that ``failed``, with the reason), and
        ``thp`` (see `thp_shares`).

    Raises
    ------
    MeasurementError : there is no finished study
    """
    if not results:
        raise MeasurementError("no study of this evaluation has finished, so there is nothing to tell")
    machines = dict.fromkeys(one["machine"]["name"] for one in results)
    return [_on(name, [one for one in results if one["machine"]["name"] == name]) for name in machines]


def _on(machine: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(results[0]["configs"])
    configs = {name: _average(name, results) for name in names}
    shares = [
        {"workload": one["workload"], **share}
        for one in results
        for share in thp_shares({name: found["quantities"] for name, found in one["configs"].items()}, one["configs"])
    ]
    if len(results) > 1:
        shares += [{"workload": None, **share} for share in thp_shares(configs, results[0]["configs"])]
    return {"machine": machine, "workloads": [one["workload"] for one in results], "configs": configs, "thp": shares}


def _average(name: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One configuration over the workloads that it ran with."""
    good = {one["workload"]: found["quantities"] for one in results if not (found := one["configs"][name])["error"]}
    failed = [
        {"workload": one["workload"], "error": found["error"]}
        for one in results
        if (found := one["configs"][name])["error"]
    ]
    averages = {}
    for key in AVERAGED if good else ():
        means = {workload: found[key]["mean"] for workload, found in good.items()}
        groups = [found[key]["values"] for found in good.values()]
        average = told(list(means.values()), interval_of_average(groups))
        # More is better of what is normalised, less of the rest.
        ranked = sorted(means, key=lambda one: means[one], reverse=key in ("performance", "memory_efficiency"))
        averages[key] = {
            "mean": average["mean"],
            "ci95": average["ci95"],
            "best": {"workload": ranked[0], "mean": means[ranked[0]]},
            "worst": {"workload": ranked[-1], "mean": means[ranked[-1]]},
        }
    return {**averages, "workloads": list(good), "failed": failed}


def thp_shares(
    found: Mapping[str, Mapping[str, Quantity]], forms: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """How much of what ``thp`` bloats each THP scheme removes, and how much of its speedup it keeps.

    Nothing is divided by noise: where THP's own bloat (or speedup) does not lie above 0 with 95 %, the share is null.

    Parameters
    ----------
    found : mapping of str to mapping of str to quantity
        ``bloat`` and ``slowdown`` by configuration.
    forms : mapping of str to mapping
        What each configuration is, with its ``scheme`` and ``thp``.

    Returns
    -------
    list of dict
        ``config, bloat_removed, speedup_kept`` (fractions; more than 1 where the scheme does better than THP), and the
        four values that they are made of: ``bloat, thp_bloat, speedup, thp_speedup``.

    References
    ----------
    DAOS (HPDC'22), section 4.2; v8 patch set, Appendix E: a speedup is the share of the runtime that is saved
    """
    whole = found.get(named.THP, {})
    shares = []
    for name, form in forms.items():
        mine = found.get(name, {})
        if not form["scheme"] or not form["thp"] or "bloat" not in mine or "bloat" not in whole:
            continue
        bloat, faster = mine["bloat"]["mean"], -mine["slowdown"]["mean"]
        thp_bloat, thp_faster = whole["bloat"]["mean"], -whole["slowdown"]["mean"]
        bloats = whole["bloat"]["ci95"] is not None and whole["bloat"]["ci95"][0] > 0
        helps = whole["slowdown"]["ci95"] is not None and whole["slowdown"]["ci95"][1] < 0
        shares.append(
            {
                "config": name,
                "bloat_removed": 1 - bloat / thp_bloat if bloats else None,
                "speedup_kept": faster / thp_faster if helps else None,
                "bloat": bloat,
                "thp_bloat": thp_bloat,
                "speedup": faster,
                "thp_speedup": thp_faster,
            }
        )
    return shares


def rows(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A tidy table: one row per machine, workload and configuration, units in the names of its columns."""
    made = []
    for one in results:
        shares = thp_shares({name: found["quantities"] for name, found in one["configs"].items()}, one["configs"])
        by_name = {share["config"]: share for share in shares}
        for name, found in one["configs"].items():
            row = {"machine": one["machine"]["name"], "workload": one["workload"], "variant": one["variant"]}
            row |= {"config": name, "nr_runs": found["nr_runs"]}
            for key in QUANTITIES:
                quantity = found["quantities"].get(key, {"mean": None, "ci95": None})
                low, high = quantity["ci95"] or (None, None)
                row |= {key: quantity["mean"], f"{key}_low": low, f"{key}_high": high}
            share = by_name.get(name, {})
            row |= {key: share.get(key) for key in ("bloat_removed", "speedup_kept")}
            made.append(row | {"error": found["error"]})
    return made
