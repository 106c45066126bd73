"""What a study cost, and all that is needed to have it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from damoos.machines import prices
from damoos.model.trial import Run
from damoos.report.html import shown
from damoos.study.config import StudyConfig
from damoos.study.study import EvaluationStudy, Study
from damoos.units import show_count

Result = Mapping[str, Any]


def cost(study: Study, result: Result, runs: Sequence[Run]) -> dict[str, str]:
    """Runs, time and money."""
    kinds: dict[str, int] = {}
    for run in runs:
        kinds[run.kind] = kinds.get(run.kind, 0) + 1
    names = {"baseline": "baselines", "record": "recording", "trial": "trials", "validation": "of the validation"}
    of = ", ".join(f"{number} {names.get(kind, kind)}" for kind, number in kinds.items())
    entries = {
        "Runs": f"{len(runs)} ({of})",
        "Workload time": f"{shown.duration(sum(map(_ran_s, runs)))}, by the machine's clock",
    }
    if not result:
        return entries
    entries["Wall time"] = shown.duration(result["elapsed_s"])
    stopped = result["early_abort"]
    if stopped["runs"]:
        entries["Saved by stopping early"] = (
            f"about {shown.duration(stopped['saved_s'])} of workload time, by {show_count(stopped['runs'], 'trial')}"
        )
    usd_hour = prices.price_hour(study.config.machine)
    price = "nobody has said one"
    if usd_hour is not None:
        price = f"{usd_hour * result['elapsed_s'] / 3600:.2f} USD at {usd_hour:g} USD an hour"
    return {**entries, "Price of the machine": price}


def _ran_s(run: Run) -> float:
    metrics = run.measurement.metrics if run.measurement else {}
    return metrics.get("runtime_s", metrics.get("elapsed_s", 0.0))


def provenance(study: Study | EvaluationStudy) -> dict[str, str]:
    """What ran where, under which kernel, from which commit."""
    setting, facts = study.setting, study.setting.facts
    entries = {
        "Study": study.name,
        "Workload": f"{study.config.target} ({setting.variant})",
        "Workload hash": workload_hash(study),
        "Machine": study.config.machine,
        "Kernel": " ".join(filter(None, [facts["kernel"], facts.get("kernel_version")])),
        "Kernel build": facts.get("kernel_id"),
        "Kernel command line": facts.get("cmdline"),
        "Accelerator": facts.get("accel"),
        "Emulation": facts.get("emulation"),
        "Clock": facts.get("clock"),
        "Image": facts.get("image"),
        "Packages": facts.get("packages"),
        "Swap": facts.get("swap"),
        "Huge pages": facts.get("thp"),
        "Seed": study.config.seed,
        "damoos": (study.record.result or {}).get("provenance", {}).get("damoos"),
        "Commit": setting.commit,
        "Begun": study.record.get("created"),
    }
    return {key: shown.said_of(value) for key, value in entries.items() if value not in (None, "", [], {})}


def workload_hash(study: Study | EvaluationStudy) -> str:
    """A short hash of all that made the workload what it was: the same hash, the same workload."""
    return hashlib.sha256(study.setting.workload_identity.encode()).hexdigest()[:16]


def configuration(config: StudyConfig) -> dict[str, str]:
    """All that was asked for, field by field."""
    entries = {field.name: getattr(config, field.name) for field in fields(config)}
    return {name: shown.said_of(value) for name, value in entries.items() if value not in (None, "", (), [], {})}
