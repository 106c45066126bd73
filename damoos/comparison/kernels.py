"""One workload on several kernels, without and under a scheme: how the kernels differ, with intervals.

Nothing is searched here. Each kernel has a study of two configurations, the baseline and the scheme, and the studies
take turns, so that what drifts on the host falls on all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from damoos import __version__
from damoos.common import paths
from damoos.damon.damo_json import context_from_json, context_to_json
from damoos.damon.scheme import Context
from damoos.damon.text import fill_template
from damoos.errors import ConfigError, WorkloadError
from damoos.model.trial import Measurement
from damoos.policies import named
from damoos.policies.base import DamosPolicy
from damoos.scorers.terms import memory_saving, slowdown
from damoos.statistics.intervals import ALPHA, interval
from damoos.store.artifacts import Artifacts
from damoos.store.studies import Store, slug
from damoos.study.conduct import conduct_in_turn
from damoos.study.config import PRCL
from damoos.study.evaluation_config import EvaluationConfig
from damoos.study.run_config import RunConfig, plain
from damoos.study.steps import Watcher
from damoos.study.study import EvaluationStudy, Study
from damoos.words.studies import LEAST_BLOCKS
from damoos.workloads import catalog as workloads

PREFIX, FILE, RESULT = "kernels-", "comparison.json", "result.json"
SCHEME = "scheme"
# A round of a kernel: the run without the scheme and the run under it.
Pair = tuple[Measurement, Measurement]


@dataclass(frozen=True)
class Quantity:
    """Something that is compared: its value in one round of one kernel; kernels differ by a ratio or by points.

    ``value`` is a function of the measurements without and under the scheme.
    """

    name: str
    value: Callable[[Measurement, Measurement], float]
    relative: bool


QUANTITIES = (
    Quantity("runtime without, s", lambda base, under: base.metric("runtime_s"), relative=True),
    Quantity("runtime under the scheme, s", lambda base, under: under.metric("runtime_s"), relative=True),
    Quantity("slowdown", lambda base, under: slowdown(under, base), relative=False),
    Quantity("RSS saving", lambda base, under: memory_saving(under, base), relative=False),
    Quantity(
        "kdamond CPU", lambda base, under: under.metric("kdamond_cpu_s") / under.metric("runtime_s"), relative=False
    ),
)
_RUNTIME_UNDER = QUANTITIES[1].name


@dataclass(frozen=True)
class KernelComparison:
    """What is compared. Plain values: it is stored as JSON.

    Parameters
    ----------
    run : RunConfig
        Workload or command, and the machine: a guest, which is given each of the kernels.
    forms : dict
        Plain form (`damoos.policies.named.policy`) of the policy under which each kernel is compared, by kernel; the
        first is the one that the others are compared with.
    repeats : int
        Rounds.
    seed : int
        Of the order in rounds.
    """

    run: RunConfig
    forms: dict[str, dict[str, Any]]
    repeats: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what could only fail later, on a machine."""
        for config in self.configs():
            config.check()

    def configs(self) -> list[EvaluationConfig]:
        """A study of each kernel."""
        common = {**asdict(self.run), "repeats": self.repeats, "seed": self.seed}
        return [
            EvaluationConfig(**{**common, "kernel": kernel}, configs={named.BASELINE: {}, SCHEME: config})
            for kernel, config in self.forms.items()
        ]

    def conduct(self, results: Path, storage: str | None = None, watcher: Watcher | None = None) -> dict[str, Any]:
        """Do all that is left; an unfinished comparison of the same words goes on where it stopped.

        Returns
        -------
        dict
            Also ``result.json`` in the folder of the comparison, which has its name (docs/kernel.md has the keys).

        Raises
        ------
        DamoosError : as a machine or the workload has it; what had finished stays
        """
        folder = self._unfinished(results) or self._create(results)
        store = Store(results, storage)
        now = datetime.now(UTC).isoformat()
        studies = [
            EvaluationStudy(store.ensure(f"{folder.name}-{config.kernel}", plain(config), config.direction, now))
            for config in self.configs()
        ]
        conduct_in_turn(studies, watcher)
        result = self._result(folder.name, studies)
        Artifacts(folder).write_json(RESULT, result)
        return result

    def _unfinished(self, results: Path) -> Path | None:
        """The folder of the newest comparison of the same words, if it has no result."""
        for folder in sorted(results.glob(f"{PREFIX}*"), key=_number, reverse=True):
            artifacts = Artifacts(folder)
            if artifacts.read_json(FILE) == plain(self):
                return folder if artifacts.read_json(RESULT) is None else None
        return None

    def _create(self, results: Path) -> Path:
        stem = f"{PREFIX}{slug(self.run.label)}"
        number = 1 + max((_number(folder) for folder in results.glob(f"{stem}-*")), default=0)
        folder = results / f"{stem}-{number}"
        Artifacts(folder).write_json(FILE, plain(self))
        return folder

    def _result(self, name: str, studies: Sequence[EvaluationStudy]) -> dict[str, Any]:
        by_kernel = [(kernel, study, _pairs(study)) for kernel, study in zip(self.forms, studies, strict=True)]
        kernels = [_kernel_json(*entry) for entry in by_kernel]
        complete = not any(kernel["error"] for kernel in kernels)
        setting = studies[0].setting
        return {
            "comparison": name,
            "workload": self.run.target,
            "variant": setting.variant,
            "note": setting.note,
            "machine": self.run.machine,
            "rounds": self.repeats,
            "started": studies[0].record.get("created"),
            "provenance": {"damoos": __version__, "commit": paths.commit()},
            "kernels": kernels,
            "differences": _differences([(kernel, pairs) for kernel, _, pairs in by_kernel]) if complete else [],
        }


def scheme_form(run: RunConfig, scheme: str | None, operations: str) -> dict[str, Any]:
    """The plain form of one scheme for all kernels.

    Parameters
    ----------
    scheme : str or None
        Scheme text; None for the workload's manual prcl, whose age is that of the workload's file.
    """
    if scheme is None:
        tune = workloads.find(run.workload)[1].tune if run.workload else workloads.Tune()
        return {"scheme": fill_template(PRCL, {"MIN_AGE": tune.manual_min_age}), "operations": operations}
    return {"damo": context_to_json(DamosPolicy(Context.parse(scheme, operations)).context)}


def comparison_of(studies: Mapping[str, Study]) -> KernelComparison:
    """What compares finished studies of one workload that differ in their kernel, each under its own tuned scheme.

    Raises
    ------
    ConfigError : a study is not finished, or recommends nothing
    """
    forms = {}
    for name, study in studies.items():
        best = (study.record.result or {}).get("recommended")
        if best is None:
            raise ConfigError(f"study '{study.name}' has no recommended scheme")
        forms[name] = {"damo": context_to_json(context_from_json(best["damo"]))}
    config = next(iter(studies.values())).config
    common = {field.name: getattr(config, field.name) for field in fields(RunConfig)}
    return KernelComparison(
        RunConfig(**{**common, "kernel": None}), forms, max(LEAST_BLOCKS, config.repeats), config.seed
    )


def _pairs(study: EvaluationStudy) -> dict[int, Pair]:
    """Measurements without and under the scheme, by the round in which both runs succeeded."""
    by_round: dict[int, dict[str, Measurement]] = {}
    for run in study.runs():
        if run.measurement:
            by_round.setdefault(run.number, {})[run.arm] = run.measurement
    return {
        number: (of_round[named.BASELINE], of_round[SCHEME])
        for number, of_round in sorted(by_round.items())
        if len(of_round) == 2
    }


def _number(folder: Path) -> int:
    digits = folder.name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def slower_by(result: Mapping[str, Any]) -> float:
    """By how much the last kernel is surely slower than the first under the scheme: the interval's lower end.

    Raises
    ------
    WorkloadError : the scheme's runs failed on one of the two
    """
    check_complete(result)
    last = result["kernels"][-1]["name"]
    (difference,) = (
        entry for entry in result["differences"] if entry["kernel"] == last and entry["quantity"] == _RUNTIME_UNDER
    )
    return float(difference["interval"][0])


def check_complete(result: Mapping[str, Any]) -> None:
    """Refuse a comparison in which a kernel has no numbers.

    Raises
    ------
    WorkloadError : with the kernel, and why its runs under the scheme failed
    """
    for kernel in result["kernels"]:
        if kernel["error"]:
            raise WorkloadError(f"kernel '{kernel['name']}' under the scheme: {kernel['error']}")


def _kernel_json(name: str, study: EvaluationStudy, pairs: Mapping[int, Pair]) -> dict[str, Any]:
    facts, result = study.setting.facts, study.record.result or {}
    policy = named.policy(study.config.configs[SCHEME])
    assert isinstance(policy, DamosPolicy)
    error = result["configs"][SCHEME]["error"]
    quantities = {}
    for quantity in () if error else QUANTITIES:
        values = [quantity.value(*pair) for pair in pairs.values()]
        quantities[quantity.name] = {"mean": float(np.mean(values)), "ci95": list(interval(values)), "values": values}
    return {
        "name": name,
        "study": study.name,
        "release": facts["kernel"],
        **{
            key: facts.get(key) for key in ("kernel_id", "accel", "clock", "emulation", "vcpus", "mem_bytes", "cmdline")
        },
        "scheme": "; ".join(map(str, policy.schemes)),
        "damo": context_to_json(policy.context),
        "error": error,
        "quantities": quantities,
    }


def _differences(kernels: Sequence[tuple[str, Mapping[int, Pair]]]) -> list[dict[str, Any]]:
    """Each kernel against the first, by rounds. All intervals together hold with 95 % (Bonferroni)."""
    (first, of_first), *others = kernels
    level = 1 - ALPHA / max(1, len(QUANTITIES) * len(others))
    differences = []
    for name, pairs in others:
        for quantity in QUANTITIES:
            both = [(quantity.value(*of_first[n]), quantity.value(*pairs[n])) for n in pairs if n in of_first]
            gaps = [b / a - 1 if quantity.relative else b - a for a, b in both]
            low, high = interval(gaps, level)
            differences.append(
                {
                    "kernel": name,
                    "than": first,
                    "quantity": quantity.name,
                    "relative": quantity.relative,
                    "difference": float(np.mean(gaps)),
                    "interval": [low, high],
                    "level": level,
                    "differs": not low <= 0 <= high,
                }
            )
    return differences
