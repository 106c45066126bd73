"""A finished study as one plain object, derived from its raw runs."""

from __future__ import annotations

from typing import Any

from damoos import __version__, verdict
from damoos.damon.damo_json import context_to_json
from damoos.model.space import Params
from damoos.model.trial import Measurement, Run, Trial
from damoos.policies.base import DamosPolicy
from damoos.study import Study
from damoos.verdict import mean_measurement


def result_of(study: Study, best: Params | None, elapsed_s: float) -> dict[str, Any]:
    """Everything that a finished study has to say; what ``--format json`` prints (docs/studies.md has the keys).

    Parameters
    ----------
    study : Study
    best : Params or None
        The recommended point; None if no trial was feasible.
    elapsed_s : float, seconds
        Wall time that the study took.
    """
    setting, config = study.setting, study.config
    validation = _validation(study, best) if best is not None else None
    facts = setting.facts
    return {
        "study": study.name,
        "workload": config.workload or config.command,
        "variant": setting.variant,
        "note": setting.note,
        "machine": {
            "name": config.machine,
            **{name: facts.get(name) for name in ("kernel", "accel", "clock", "vcpus", "mem_bytes", "swap", "thp")},
        },
        "searcher": config.searcher,
        "scorer": config.scorer,
        "seed": config.seed,
        "provenance": {
            **{name: facts.get(name) for name in ("emulation", "image", "cmdline")},
            "damoos": __version__,
            "commit": setting.commit,
        },
        "baselines": [
            {"number": run.number, "metrics": dict(run.measurement.metrics)}
            for run in study.runs()
            if run.kind == "baseline" and run.measurement
        ],
        "drift": _drift(study.runs()),
        "trials": [_trial_json(trial) for trial in study.trials()],
        "recommended": None if best is None else _scheme_json(best, study.policy(best)),
        "manual": _scheme_json(study.manual, study.manual_policy),
        **(
            validation
            or {"validation": None, "verdict": "baseline", "verdict_text": "no trial kept the score's limits"}
        ),
        "elapsed_s": elapsed_s,
    }


def _trial_json(trial: Trial) -> dict[str, Any]:
    total = [one.as_dict() for one in trial.measurement.damos] if trial.measurement else []
    return {
        "number": trial.number,
        "params": dict(trial.params),
        "state": trial.state,
        "feasible": trial.score.feasible,
        "score": trial.score.value,
        "metrics": dict(trial.measurement.metrics) if trial.measurement else {},
        "damos": {
            name: sum(one[name] for one in total)
            for name in ("nr_tried", "sz_tried_bytes", "nr_applied", "sz_applied_bytes")
        },
        "error": trial.error,
    }


def _drift(runs: list[Run]) -> dict[str, float]:
    """Spread of the interleaved baselines, (max - min) / mean, of what the score is made of."""
    found = [run.measurement for run in runs if run.kind == "baseline" and run.measurement]

    def spread(name: str) -> float:
        values = [one.metric(name) for one in found]
        return (max(values) - min(values)) / (sum(values) / len(values))

    return {name: spread(name) for name in ("runtime_s", "rss_avg_bytes")}


def _scheme_json(point: Params, policy: DamosPolicy) -> dict[str, Any]:
    return {
        "params": dict(point),
        "scheme": "\n".join(str(scheme) for scheme in policy.schemes),
        "damo": context_to_json(policy.context),
    }


def _validation(study: Study, best: Params) -> dict[str, Any]:
    rounds: list[dict[str, Measurement]] = [{} for _ in range(study.config.repeats)]
    for run in study.runs():
        if run.kind == "validation" and run.measurement:
            rounds[run.number][run.arm] = run.measurement
    previous = [t.score.value for t in study.trials() if t.score.feasible and t.score.value is not None]
    found = verdict.arms(rounds, study.scorer, previous)
    same_scheme = study.policy(best) == study.manual_policy
    said = verdict.judge(found, study.scorer.direction, same_scheme)
    table = {}
    for name, arm in found.items():
        mean = mean_measurement(arm.runs)
        table[name] = {
            "score": arm.score,
            "score_ci95": list(arm.interval),
            "scores": list(arm.scores),
            "feasible": arm.feasible,
            "runtime_s": mean.metric("runtime_s"),
            "rss_avg_bytes": mean.metric("rss_avg_bytes"),
            "net_avg_bytes": mean.metric("net_avg_bytes"),
            "repeats": len(arm.runs),
        }
    return {"validation": table, "verdict": said.best, "verdict_text": said.text}
