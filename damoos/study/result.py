"""A finished study as one plain object, derived from its raw runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from damoos import __version__
from damoos.errors import MeasurementError
from damoos.machines.base import Conditions
from damoos.model.conditional import ConditionalSpace
from damoos.model.space import Params
from damoos.model.trial import History, Measurement, Run, Trial, mean_measurement, orientation
from damoos.policies.base import Policy
from damoos.scorers.terms import policy_cpu_share, slowdown, spare_core_slowdown, term
from damoos.statistics.arms import BASELINE, CANDIDATE, MANUAL, TUNED, Arm
from damoos.store.artifacts import Artifacts
from damoos.study.course import DEFAULTS, candidates, outcome
from damoos.study.outliers import OUTLIER
from damoos.study.scoring import feasible_scores
from damoos.study.study import EvaluationStudy, Study

_PROVENANCE = ("emulation", "image", "packages", "overlays", "kernel_id", "cmdline")


def result_of(study: Study, elapsed_s: float) -> dict[str, Any]:
    """Everything that a finished study has to say; what ``--format json`` prints (docs/studies.md has the keys).

    Parameters
    ----------
    study : Study
    elapsed_s : float, seconds
        Wall time that the study took.
    """
    config, trials = study.config, study.trials()
    best, validation = None, _NOT_VALIDATED
    if points := candidates(study.runs()):
        best, validation = _validation(study, trials, points)
    return {
        **about(study),
        "of": config.of,
        "policy": config.policy,
        "searcher": config.searcher,
        "scorer": config.scorer,
        "score": {
            "direction": study.scorer.direction,
            "unit": study.scorer.unit,
            "shown_in": study.scorer.shown_in,
            "options": config.scorer_options,
            "limits": list(config.limits),
        },
        "memory_limits": study.memory_limits,
        "swap_write_bytes_per_s": config.swap_write_bytes_per_s,
        "baselines": [
            {"number": run.number, "metrics": dict(run.measurement.metrics)}
            for run in study.runs()
            if run.kind == "baseline" and run.measurement
        ],
        "drift": _drift(study.runs()),
        "trials": [_trial_json(study, trial) for trial in trials],
        "early_abort": _early_abort(study.runs()),
        "outliers": [
            {"run": run.arm, "metrics": dict(run.measurement.metrics)}
            for run in study.runs()
            if run.kind == OUTLIER and run.measurement
        ],
        "failures": _failures(study),
        "prediction": _prediction(study, trials),
        "transfer": _transfer(study, trials),
        "recommended": None if best is None else _scheme_json(study.space.readable(best), study.policy(best)),
        "manual": _scheme_json(study.manual, study.manual_policy),
        **validation,
        "elapsed_s": elapsed_s,
    }


def about(study: Study | EvaluationStudy) -> dict[str, Any]:
    """What ran where, of a study of any kind: the keys that all results begin with."""
    setting, config = study.setting, study.config
    facts = setting.facts
    return {
        "study": study.name,
        "workload": config.target,
        "variant": setting.variant,
        "note": setting.note,
        "machine": {
            "name": config.machine,
            **{
                name: facts.get(name)
                for name in ("kernel", "kernel_name", "accel", "clock", "vcpus", "mem_bytes", *Conditions.model_fields)
            },
        },
        "seed": config.seed,
        "provenance": {
            **{name: facts.get(name) for name in _PROVENANCE},
            "damoos": __version__,
            "commit": setting.commit,
        },
    }


def write(study: Study | EvaluationStudy, result: Mapping[str, Any]) -> None:
    """The result, the recommended scheme and the winner as files in the study's folder."""
    artifacts = study.record.artifacts
    artifacts.write_json("result.json", result)
    if isinstance(study, EvaluationStudy):
        return  # it recommends nothing
    best = result["recommended"]
    if best:
        _write_scheme(artifacts, "recommended", best)
    winner = {"tuned": best, "manual": result["manual"]}.get(result["verdict"])
    if winner:
        _write_scheme(artifacts, "winner", winner)


def _write_scheme(artifacts: Artifacts, name: str, chosen: Mapping[str, Any]) -> None:
    """A scheme as text and for damo; of another policy only the text."""
    artifacts.write_text(f"{name}.{'damos' if chosen['damo'] else 'txt'}", chosen["scheme"] + "\n")
    if chosen["damo"]:
        artifacts.write_json(f"{name}.json", chosen["damo"])


_NOT_VALIDATED = {
    "validation": None,
    "shrinkage": None,
    "verdict": BASELINE,
    "verdict_text": "nothing beats leaving it alone: no trial kept the score's limits",
}


def _trial_json(study: Study, trial: Trial) -> dict[str, Any]:
    total = [stats.as_dict() for stats in trial.measurement.damos] if trial.measurement else []
    return {
        "number": trial.number,
        "params": study.space.readable(trial.params),
        "state": trial.state,
        "feasible": trial.score.feasible,
        "score": trial.score.value,
        "score_ci95": None if trial.interval is None else list(trial.interval),
        "margins": dict(trial.score.margins),
        "metrics": dict(trial.measurement.metrics) if trial.measurement else {},
        "damos": {
            name: sum(stats[name] for stats in total)
            for name in ("nr_tried", "sz_tried_bytes", "nr_applied", "sz_applied_bytes")
        },
        "error": trial.error,
    }


def _drift(runs: list[Run]) -> dict[str, float]:
    """Spread of the interleaved baselines, (max - min) / mean, of what the score is made of."""
    baselines = [run.measurement for run in runs if run.kind == "baseline" and run.measurement]

    def spread(name: str) -> float:
        values = [measurement.metric(name) for measurement in baselines]
        return (max(values) - min(values)) / (sum(values) / len(values))

    return {name: spread(name) for name in ("runtime_s", "rss_avg_bytes")}


def _early_abort(runs: list[Run]) -> dict[str, float]:
    """What stopping hopeless runs saved.

    How long a stopped run would have gone on is estimated from its share of the user CPU time that a baseline takes:
    the work is the same, and a scheme costs time elsewhere, in faults and waiting.
    """
    baselines = [run.measurement for run in runs if run.kind == "baseline" and run.measurement]
    whole_user_s = mean_measurement(baselines).metric("user_s")
    stopped = [run.measurement for run in runs if run.measurement and run.measurement.censored]
    saved_s = 0.0
    for measurement in stopped:
        share = measurement.metric("elapsed_user_s") / whole_user_s if whole_user_s else 1.0
        saved_s += measurement.metric("elapsed_s") * max(0.0, 1 / max(share, 0.01) - 1)
    ran_s = sum(measurement.metric("elapsed_s") for measurement in stopped)
    return {"runs": len(stopped), "ran_s": ran_s, "saved_s": saved_s}


def _prediction(study: Study, trials: History) -> dict[str, Any] | None:
    """What a recording let one expect of each trial before it ran, beside what was measured; None without one."""
    prior = study.recorded_prior
    if prior is None:
        return None
    known = study.known(trials)
    rows = []
    for nth, trial in enumerate(trials):
        run, base = trial.measurement, prior.baseline
        complete = run is not None and not run.censored
        rows.append(
            {
                "number": trial.number,
                "predicted": prior.predicted(known[:nth], trial.params),
                "measured": {
                    "slowdown": term("slowdown").of(run, base) if run and complete else None,
                    "memory_saving": term("memory_saving").of(run, base) if run and complete else None,
                    "score": trial.score.value,
                    "feasible": trial.score.feasible,
                },
            }
        )
    return {"kept": prior.expected(known, [study.manual]) is not None, "trials": rows}


def _transfer(study: Study, trials: History) -> dict[str, Any] | None:
    """Which finished studies told what to expect, and how much each is believed after all trials; None without any."""
    prior = study.transfer_prior
    if prior is None:
        return None
    shares = prior.shares(study.known(trials))
    studies: list[dict[str, Any]] = [{"study": known.study, "where": known.where} for known in study.experiences]
    if shares:
        studies = [{**one, "believed": share} for one, share in zip(studies, shares, strict=True)]
    return {"kept": shares is not None, "studies": studies}


def _scheme_json(point: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    return {
        "params": dict(point),
        "scheme": policy.text,
        "damo": policy.damo,
    }


def _validation(study: Study, trials: History, points: Mapping[str, Params]) -> tuple[Params, dict[str, Any]]:
    """The point that is recommended after the validation, and the keys that the validation adds to the result."""
    stand = outcome(study, study.runs())
    best, verdict = stand.points.get(TUNED, next(iter(points.values()))), stand.verdict()
    failed = "".join(f"; {name} failed in its first run" for name in points if name not in stand.names)
    means = {name: mean_measurement(list(arm.runs.values())) for name, arm in stand.arms.items()}
    table = {name: _arm_json(arm, means[name], study.setting.reports) for name, arm in stand.arms.items()}
    if study.setting.has_runtime and BASELINE in means:
        for name in table.keys() - {BASELINE}:
            table[name] |= _lost(means[name], means[BASELINE])
    for failure in _failures(study):
        if failure["arm"] in table:
            table[failure["arm"]]["failures"] += 1
    for name, point in stand.points.items():
        table[name]["params"] = study.space.readable(point)
    if isinstance(study.space, ConditionalSpace):
        raw_of = {name: raw for raw, name in stand.names.items()}
        for name, arm in table.items():
            arm |= which_policy(study, raw_of.get(name, name), stand.points.get(name))
    searched = feasible_scores(tuple(trial for trial in trials if trial.params == best))
    shrinkage = None
    if searched and table.get(TUNED, {}).get("score") is not None:
        in_search, validated = sum(searched) / len(searched), stand.arms[TUNED].score
        lost = orientation(study.scorer.direction) * (in_search - validated)
        shrinkage = {"searched": in_search, "validated": validated, "shrinkage": lost}
    return best, {
        "validation": table, "shrinkage": shrinkage, "verdict": verdict.best, "verdict_text": f"{verdict.text}{failed}",
    }  # fmt: skip


def _failures(study: Study) -> list[dict[str, Any]]:
    """The runs of the validation that failed, and why. A candidate of which each run failed has no arm."""
    _, names = study.arms()
    return [
        {
            "run": run.key,
            "arm": names.get(run.arm, run.arm),
            "params": None if run.params is None else study.space.readable(run.params),
            "error": run.error,
        }
        for run in study.runs()
        if run.kind == "validation" and run.error
    ]


def which_policy(study: Study, raw: str, point: Params | None) -> dict[str, Any]:
    """The policy of an arm of several: its name, the words that people write, and whether it is at its defaults."""
    if raw == BASELINE:
        return {"policy": None, "defaults": False, "scheme": None}
    defaults = raw == MANUAL or raw.endswith(DEFAULTS)
    name = study.config.policies[0] if raw == MANUAL else raw.removeprefix(CANDIDATE).removesuffix(DEFAULTS)
    policy = study.default_policy(name) if defaults or point is None else study.policy(point)
    return {"policy": name, "defaults": defaults, "scheme": policy.text}


def _lost(mean: Measurement, base: Measurement) -> dict[str, float | None]:
    """By how much an arm is slower than the baseline; null what a kernel without PSI does not tell."""
    lost: dict[str, float | None] = {"slowdown": slowdown(mean, base), "spare_core_slowdown": None}
    with contextlib.suppress(MeasurementError):
        lost["spare_core_slowdown"] = spare_core_slowdown(mean, base)
    return lost


def _arm_json(arm: Arm, mean: Measurement, reports: Sequence[str]) -> dict[str, Any]:
    damos = [stats.sz_applied_bytes for run in arm.runs.values() for stats in run.damos]
    return {
        "score": arm.score if arm.scores else None,
        "score_ci95": list(arm.interval) if len(arm.scores) > 1 else None,
        "scores": list(arm.scores.values()),
        "feasible": arm.feasible,
        "limits": arm.standing.value,
        **{name: mean.metric(name) for name in ("runtime_s", "rss_avg_bytes", "net_avg_bytes")},
        "kdamond_cpu": mean.metric("kdamond_cpu_s") / mean.metric("runtime_s"),
        "policy_cpu_share": policy_cpu_share(mean),
        "sz_applied_bytes": sum(damos) if damos else None,
        "reports": {name: mean.metric(name) for name in reports},
        "repeats": len(arm.runs),
        "failures": 0,
    }
