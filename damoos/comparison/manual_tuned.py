"""The manual scheme and the tuned one side by side, from studies that have finished (Figure 8)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from damoos.errors import ConfigError
from damoos.model.trial import orientation
from damoos.statistics.arms import BASELINE, MANUAL, TUNED, beside, rounds_of
from damoos.statistics.intervals import interval_of_average
from damoos.statistics.limits import Standing
from damoos.statistics.summary import Quantity, told
from damoos.store.studies import Store
from damoos.study.damage import names_damage
from damoos.study.study import Study, tuning_study
from damoos.sweeps.sweep import Sweep

# What the paper reports of its three machines (section 4.3), as fractions: averages over 24 workloads, scores / 100.
PAPER: dict[str, dict[str, Any]] = {
    "i3.metal": {
        "manual": {"slowdown": 0.1365, "saving": 0.3710, "score": 0.0999},
        "tuned": {"slowdown": 0.0091, "saving": 0.2497, "score": 0.1208},
        "slowdown_removed": 0.9333,
        "score_gain": 0.2002,
    },
    "m5d.metal": {
        "manual": {"slowdown": 0.1345, "saving": 0.3521, "score": 0.1009},
        "tuned": {"slowdown": 0.0204, "saving": 0.2473, "score": 0.1101},
        "slowdown_removed": 0.8483,
        "score_gain": 0.0616,
    },
    "z1d.metal": {
        "manual": {"slowdown": 0.0954, "saving": 0.3322, "score": 0.1135},
        "tuned": {"slowdown": 0.0059, "saving": 0.2510, "score": 0.1206},
        "slowdown_removed": 0.9381,
        "score_gain": 0.0625,
    },
}
_OF_A_ROUND = {"slowdown": ("runtime_s", 1.0), "saving": ("rss_avg_bytes", -1.0)}
KEYS = ("slowdown", "saving", "score")


def studies_of(sweep: Sweep) -> list[Study]:
    """Studies of a sweep that have begun, in its order."""
    looked = (sweep.look(sweep.study_name(config)) for config in sweep.config.configs())
    return [tuning_study(record) for record in looked if record]


def load(store: Store, name: str) -> Study:
    """A study by its name."""
    return tuning_study(store.load(name))


def compare(studies: Sequence[Study]) -> list[dict[str, Any]]:
    """Manual and tuned side by side, by machine.

    Parameters
    ----------
    studies : sequence of Study
        Those that have no validated tuned scheme are named, with the reason, and count nowhere.

    Returns
    -------
    list of dict
        By machine, and by score where there are several: ``machine``, ``studies`` (each with ``study, workload,
        variant, verdict, error``, and ``manual`` and ``tuned``: `KEYS` as quantities, ``feasible``, ``limits``,
        ``scheme``), ``average`` (`summary` of those without an error), and ``paper``: what the paper reports of a
        machine of this kind, or null.

    Raises
    ------
    ConfigError : no studies
    """
    if not studies:
        raise ConfigError("nothing to compare: no study of it has begun")
    kinds = {_kind(study) for study in studies}
    groups: dict[str, list[Study]] = {}
    for study in studies:
        group = study.config.machine if len(kinds) == 1 else f"{study.config.machine}, score {_kind(study)}"
        groups.setdefault(group, []).append(study)
    return [_compared(group, alike) for group, alike in groups.items()]


@names_damage
def _kind(study: Study) -> str:
    """The score of a study, with its options: scores of different kinds have no average."""
    options = study.config.scorer_options
    said = ", ".join(f"{name} {_words(value)}" for name, value in options.items())
    return f"{study.config.scorer} ({said})" if said else study.config.scorer


def _words(value: Any) -> str:
    """The value of an option as a few words: a list, or a table such as one of prices, in a row."""
    if isinstance(value, Mapping):
        return " and ".join(f"{name}={inner}" for name, inner in value.items())
    return " and ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _compared(group: str, studies: Sequence[Study]) -> dict[str, Any]:
    """Studies of one machine and one score."""
    pairs, machine = [_pair(study) for study in studies], studies[0].config.machine
    return {
        "machine": group,
        "studies": pairs,
        "average": summary([pair for pair in pairs if not pair["error"]], studies[0].scorer.direction),
        "paper": PAPER.get(machine, PAPER.get(f"{machine}.metal")),
    }


@names_damage
def _pair(study: Study) -> dict[str, Any]:
    """One study's two arms, each run against the baseline of its own round, or of those beside it."""
    pair: dict[str, Any] = {"study": study.name, "workload": study.config.target, "variant": None, "error": ""}
    result = study.record.result
    if result is None:
        return {**pair, "error": f"it is not finished; damoos resume {study.name}"}
    pair |= {"variant": result["variant"], "verdict": result["verdict"]}
    if result["recommended"] is None:
        return {**pair, "error": "no trial kept the limits of its score"}
    arms, _ = study.arms()
    for name in (BASELINE, MANUAL, TUNED):
        if name not in arms:
            return {**pair, "error": f"{name} has no valid runs"}
    base = beside(rounds_of(study.runs()))
    for name, key in ((MANUAL, "manual"), (TUNED, "recommended")):
        arm = arms[name]
        pair[name] = {
            "scheme": result[key]["scheme"],
            "feasible": arm.feasible,
            "limits": arm.standing.value,
            "score": told(list(arm.scores.values())) if arm.scores else None,
        }
        for quantity, (metric, sign) in _OF_A_ROUND.items():
            values = [sign * (run.metric(metric) / base[n].metric(metric) - 1) for n, run in arm.runs.items()]
            pair[name][quantity] = told(values)
    return pair


def summary(pairs: Sequence[Mapping[str, Any]], direction: str = "maximize") -> dict[str, Any] | None:
    """Averages over workloads, and what tuning has won; None where there is nothing to average.

    Nothing is divided by noise: a share is null where what it is a share of does not lie above 0 with 95 %.

    Returns
    -------
    dict
        ``workloads`` (a number); ``manual`` and ``tuned`` (`KEYS` as quantities; ``broken``: studies whose arm broke
        the limits); ``slowdown_removed``, ``saving_kept``, ``score_gain`` (fractions or null), ``score_difference``;
        both of these are positive where tuning is better. Scores are of the studies in which both arms have one
        (``scored``, a number).
    """
    if not pairs:
        return None
    scored = [pair for pair in pairs if pair[MANUAL]["score"] and pair[TUNED]["score"]]
    table: dict[str, Any] = {"workloads": len(pairs), "scored": len(scored)}
    for arm in (MANUAL, TUNED):
        table[arm] = {key: _average([pair[arm][key] for pair in pairs]) for key in ("slowdown", "saving")}
        table[arm]["score"] = _average([pair[arm]["score"] for pair in scored]) if scored else None
        table[arm]["broken"] = [pair["study"] for pair in pairs if pair[arm]["limits"] == Standing.BROKEN]
    manual, tuned = table[MANUAL], table[TUNED]
    sign = orientation(direction)
    kept = _share(tuned["saving"], manual["saving"])
    slower = _share(tuned["slowdown"], manual["slowdown"])
    gain = _share(tuned["score"], manual["score"]) if scored else None
    return {
        **table,
        "slowdown_removed": None if slower is None else 1 - slower,
        "saving_kept": kept,
        "score_gain": None if gain is None else sign * (gain - 1),
        "score_difference": sign * (tuned["score"]["mean"] - manual["score"]["mean"]) if scored else None,
    }


def _average(quantities: Sequence[Quantity]) -> Quantity:
    means = [quantity["mean"] for quantity in quantities]
    return told(means, interval_of_average([quantity["values"] for quantity in quantities]))


def _share(part: Quantity, whole: Quantity) -> float | None:
    """A share of something that is surely more than nothing."""
    if whole["ci95"] is None or whole["ci95"][0] <= 0 or not math.isfinite(whole["mean"]):
        return None
    return float(np.divide(part["mean"], whole["mean"]))


def rows(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A tidy table: one row per study and arm, and one per machine and arm for the averages (workload ``average``)."""
    table = []
    for machine in found:
        entries = [(pair, pair) for pair in machine["studies"] if not pair["error"]]
        if machine["average"]:
            entries.append(({"study": None, "workload": "average", "variant": None}, machine["average"]))
        for about, arms in entries:
            for arm in (MANUAL, TUNED):
                row = {"machine": machine["machine"], **{key: about[key] for key in ("study", "workload", "variant")}}
                row |= {"arm": arm, "scheme": arms[arm].get("scheme")}
                row["kept_limits"] = not arms[arm].get("broken", arms[arm].get("limits") == Standing.BROKEN)
                for key in KEYS:
                    quantity = arms[arm][key] or {"mean": None, "ci95": None}
                    low, high = quantity["ci95"] or (None, None)
                    row |= {key: quantity["mean"], f"{key}_low": low, f"{key}_high": high}
                table.append(row)
    return table
