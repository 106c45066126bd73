"""Configurations set against the baseline of their own block, and what they come to over many workloads (Figure 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from damoos.errors import MeasurementError
from damoos.policies import named
from damoos.statistics.intervals import interval_of_average
from damoos.statistics.summary import Quantity, told
from damoos.study.configurations import QUANTITIES, ROLE_QUANTITIES

# Averages of these over workloads mean something.
AVERAGED = (
    "performance", "memory_efficiency", "slowdown", "spare_core_slowdown", "bloat", "kdamond_cpu", "policy_cpu_share",
)  # fmt: skip


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
        raise MeasurementError("no study of this evaluation has finished, so there is nothing to show")
    machines = dict.fromkeys(result["machine"]["name"] for result in results)
    return [_on(name, [result for result in results if result["machine"]["name"] == name]) for name in machines]


def _on(machine: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(results[0]["configs"])
    configs = {name: _average(name, results) for name in names}
    shares = [
        {"workload": result["workload"], **share}
        for result in results
        for share in thp_shares(
            {name: config["quantities"] for name, config in result["configs"].items()}, result["configs"]
        )
    ]
    if len(results) > 1:
        shares += [{"workload": None, **share} for share in thp_shares(configs, results[0]["configs"])]
    return {
        "machine": machine,
        "workloads": [result["workload"] for result in results],
        "configs": configs,
        "thp": shares,
    }


def _average(name: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One configuration over the workloads that it ran with."""
    good = {
        result["workload"]: config["quantities"]
        for result in results
        if not (config := result["configs"][name])["error"]
    }
    failed = [
        {"workload": result["workload"], "error": config["error"]}
        for result in results
        if (config := result["configs"][name])["error"]
    ]
    averages = {}
    for key in AVERAGED:
        if not good or any(key not in quantities for quantities in good.values()):
            continue  # a kernel without PSI does not tell what a spare core would change
        means = {workload: quantities[key]["mean"] for workload, quantities in good.items()}
        groups = [quantities[key]["values"] for quantities in good.values()]
        average = told(list(means.values()), interval_of_average(groups))
        # More is better of what is normalised, less of the rest.
        ranked = sorted(
            means, key=lambda workload: means[workload], reverse=key in ("performance", "memory_efficiency")
        )
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
    thp = found.get(named.THP, {})
    shares = []
    for name, config in forms.items():
        mine = found.get(name, {})
        if not config["scheme"] or not config["thp"] or "bloat" not in mine or "bloat" not in thp:
            continue
        bloat, faster = mine["bloat"]["mean"], -mine["slowdown"]["mean"]
        thp_bloat, thp_faster = thp["bloat"]["mean"], -thp["slowdown"]["mean"]
        bloats = thp["bloat"]["ci95"] is not None and thp["bloat"]["ci95"][0] > 0
        helps = thp["slowdown"]["ci95"] is not None and thp["slowdown"]["ci95"][1] < 0
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


def role_rows(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A tidy table: one row per machine, workload, configuration and role; empty where nothing ran in containers."""
    table = []
    for result in results:
        for name, config in result["configs"].items():
            for role, quantities in config.get("roles", {}).items():
                row = {"machine": result["machine"]["name"], "workload": result["workload"]}
                row |= {"config": name, "role": role}
                for key in ROLE_QUANTITIES:
                    quantity = quantities.get(key, {"mean": None, "ci95": None})
                    low, high = quantity["ci95"] or (None, None)
                    row |= {key: quantity["mean"], f"{key}_low": low, f"{key}_high": high}
                table.append(row)
    return table


def rows(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A tidy table: one row per machine, workload and configuration, units in the names of its columns."""
    table = []
    for result in results:
        shares = thp_shares(
            {name: config["quantities"] for name, config in result["configs"].items()}, result["configs"]
        )
        by_name = {share["config"]: share for share in shares}
        for name, config in result["configs"].items():
            row = {"machine": result["machine"]["name"], "workload": result["workload"], "variant": result["variant"]}
            row |= {"config": name, "nr_runs": config["nr_runs"]}
            for key in QUANTITIES:
                quantity = config["quantities"].get(key, {"mean": None, "ci95": None})
                low, high = quantity["ci95"] or (None, None)
                row |= {key: quantity["mean"], f"{key}_low": low, f"{key}_high": high}
            share = by_name.get(name, {})
            row |= {key: share.get(key) for key in ("bloat_removed", "speedup_kept")}
            table.append(row | {"error": config["error"]})
    return table
