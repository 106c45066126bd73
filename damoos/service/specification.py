"""What is to be in service: one of a study's validated policies, the processes that it is put on, and its guard."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from damoos.damon.damo_json import context_from_json
from damoos.errors import ConfigError, NothingFeasible, nearest
from damoos.machines import catalog as machines
from damoos.policies import catalog
from damoos.policies.base import DamosPolicy, NonePolicy, limited
from damoos.scorers.terms import parse_limit
from damoos.service import guard
from damoos.service.guard import WATCHED_ONLY
from damoos.service.journal import KEEP, NAME_RULE, UNDO, is_name
from damoos.service.min_age import min_age_us
from damoos.statistics.limits import Standing
from damoos.store.studies import Store, slug
from damoos.study.run_config import RunConfig
from damoos.study.study import Study, tuning_study
from damoos.workloads import catalog as workloads

# Validated policies and where a result has them.
ARMS = {"tuned": "recommended", "manual": "manual"}
_KINDS = {
    "unit": "unit:NAME.service", "cgroup": "cgroup:/PATH", "pid": "pid:NUMBER", "pid-file": "pid-file:/PATH",
    "match": "match:exe=NAME", "machine": "machine",
}  # fmt: skip
ON_FORMS = tuple(_KINDS.values())
_MATCHES = ("exe", "name", "user")


def parse_on(text: str) -> dict[str, Any]:
    """Processes as `damoos.agent.process_sets.process_set` takes them.

    Parameters
    ----------
    text : str
        ``unit:redis.service``, ``cgroup:/system.slice``, ``pid:4711``, ``pid-file:/run/redis.pid``,
        ``match:exe=redis-server`` (or ``name=``, ``user=``), ``machine``.

    Raises
    ------
    ConfigError : none of these forms
    """
    kind, colon, value = text.partition(":")
    if kind not in _KINDS:
        raise ConfigError(f"--on '{text}': unknown kind '{kind}'{nearest(kind, _KINDS)}")
    if bool(colon and value) == (kind == "machine"):
        raise ConfigError(f"--on '{text}': write {_KINDS[kind]}")
    if kind == "machine":
        return {"kind": kind}
    if kind == "pid":
        if not re.fullmatch(r"[1-9]\d*", value):
            raise ConfigError(f"--on '{text}': '{value}' is not a process id")
        return {"kind": kind, "pid": int(value)}
    if kind == "unit":
        return {"kind": kind, "name": value if "." in value else f"{value}.service"}
    if kind == "match":
        what, equals, name = value.partition("=")
        if what not in _MATCHES or not equals or not name:
            forms = ", ".join(f"match:{one}=..." for one in _MATCHES)
            raise ConfigError(f"--on '{text}': write one of {forms}")
        return {"kind": kind, "what": what, "value": name}
    return {"kind": kind.replace("-", "_"), "path": value}


def name_of(on: str) -> str:
    """The name in service of what is put on some processes: ``redis`` on ``unit:redis.service``, ``pid-7``."""
    kind, _, value = on.partition(":")
    if kind in ("pid", "machine"):
        return slug(on)
    last = value.rstrip("/").rpartition("/")[2].rpartition("=")[2]
    return slug(last.removesuffix(".service").removesuffix(".pid")) or kind


def specification(
    name: str,
    results: Path,
    storage: str | None = None,
    *,
    arm: str = "tuned",
    machine: str | None = None,
    on: str | None = None,
    label: str | None = None,
    guards: Sequence[str] = (),
    window_s: float = guard.WINDOW_S,
    metrics: Sequence[str] = (),
    adapt: bool = False,
    on_exit: str = UNDO,
) -> dict[str, Any]:
    """What a keeper is told, for one of a study's policies: all that it needs, so that it never asks the store.

    Parameters
    ----------
    name : str
        The study.
    arm : {"tuned", "manual", "none"}
        Which of the validated policies; none only watches.
    machine : str or None
        None for the study's own; with ``on``, for this machine.
    on : str or None
        See `parse_on`. None starts the workload, or takes the process that the study was about.
    label : str or None
        Its name in service; None for one that is made of ``on``.
    guards : sequence of str
        Limits beside those of the study's score that can be watched in service; see `guard.parse`.
    window_s : float, seconds
        For how long something is measured before it is judged.
    metrics : sequence of str
        ``p99_ms=cmd:...`` and the like, beside those of the study.
    adapt : bool
        Have it follow a workload that changes: see `damoos.service.adaptation`.
    on_exit : {"undo", "keep"}
        What becomes of the policy if its keeper ends. A rule cannot stay in force without somebody who follows it.

    Raises
    ------
    ConfigError : nothing to apply, or words that cannot be
    NothingFeasible : the validation found that the policy breaks the scorer's limits
    """
    study = tuning_study(Store.existing(results, storage, name).load(name))
    if arm != WATCHED_ONLY:
        _check_validated(study, arm)
    if on is None and study.config.pid:
        on = f"pid:{study.config.pid}"
    where = machine
    if where is None:
        where = "local" if on is not None and not study.config.pid else study.config.machine
    machines.machine(where)
    if window_s <= 0:
        raise ConfigError(f"a window must be longer than 0 s, got {window_s:g} s (--window)")
    called = label if label is not None else study.name if on is None else name_of(on)
    if not is_name(called):
        raise ConfigError(f"--name '{called}': {NAME_RULE}")
    readings = [workloads.reading(text) for text in [*study.config.metrics, *metrics]]
    own = where == study.config.machine
    where = machines.located(where)
    run = {field.name: getattr(study.config, field.name) for field in fields(RunConfig)}
    spec = {
        "name": called,
        "study": study.name,
        "machine": where,
        "on": None if on is None else parse_on(on),
        "on_text": study.config.target if on is None else on,
        "guards": _guards(study, guards, [one.name for one in readings]),
        "window_s": window_s,
        "metrics": [[one.name, one.source, list(one.argv), one.key] for one in readings],
        "results": str(results.resolve()),
        "run": {**run, "machine": where, "kernel": study.config.kernel if own else None},
        "proven_us": 0,
        "on_exit": on_exit,
    }
    whole = watched_only(spec) if arm == WATCHED_ONLY else {**spec, **_policy(study, arm)}
    _check_stays(whole)
    return {**whole, "proven_us": min_age_us(whole["policy"])} if adapt else whole


def watched_only(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification without a policy: its processes are only watched."""
    nothing = {"arm": WATCHED_ONLY, "scheme": "no policy", "verdict": "", "policy": NonePolicy().spec()}
    return {**spec, **nothing}


def _policy(study: Study, arm: str) -> dict[str, Any]:
    """A validated policy as the agent takes it; a share of the peak is one of the study's peak."""
    result = study.record.result or {}
    chosen = result[ARMS[arm]]
    policy = DamosPolicy(context_from_json(chosen["damo"])) if chosen["damo"] else catalog.parse(chosen["scheme"])
    peak_bytes = study.record.get("peak_bytes") or 0.0
    spec = limited(policy, {}, peak_bytes, study.config.swap_write_bytes_per_s).spec()
    return {"arm": arm, "scheme": chosen["scheme"], "verdict": result["verdict"], "policy": spec}


def _check_stays(spec: Mapping[str, Any]) -> None:
    """Refuse to keep what cannot stay in force by itself."""
    if spec["on_exit"] not in (UNDO, KEEP):
        raise ConfigError(f"unknown word '{spec['on_exit']}'{nearest(spec['on_exit'], (UNDO, KEEP))} (--on-exit)")
    if spec["on_exit"] == UNDO:
        return
    policy = spec["policy"]
    if policy.get("controller") or policy.get("swap_write_bytes_per_s"):
        raise ConfigError(
            "--on-exit keep: the policy has a rule that somebody must follow, so it cannot stay by itself"
        )
    if not spec["on"]:
        raise ConfigError("--on-exit keep: the program is damoos's own, and ends with its keeper; give --on")


def _check_validated(study: Study, arm: str) -> None:
    result = study.record.result
    if arm not in ARMS:
        raise ConfigError(f"unknown arm '{arm}'{nearest(arm, [*ARMS, WATCHED_ONLY])}")
    if not result or not result.get(ARMS[arm]):
        raise ConfigError(f"study '{study.name}' has no {arm} scheme to apply")
    validated = (result["validation"] or {}).get(arm)
    if not validated or not validated["feasible"]:
        is_unclear = validated and validated["limits"] == Standing.NOT_SHOWN
        fate = "was not shown to keep" if is_unclear else "broke"
        raise NothingFeasible(
            f"study '{study.name}': in the validation the {arm} scheme {fate} the limits of the score, so it is not put"
            " into service; 'damoos show' has the other arms"
        )


def _guards(study: Study, given: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """All limits: those given, those of the score that can be watched, and one of memory pressure if there is none."""
    for text in given:
        guard.parse(text, metrics)
    of_score = [text for text in _limits(study) if _can_be_watched(text, metrics)]
    limits = {parse_limit(text).name: text for text in [guard.DEFAULT, *of_score, *given]}
    return list(limits.values())


def _limits(study: Study) -> list[str]:
    config = study.config
    return [*config.scorer_options.get("limits", ()), *config.limits]


def _can_be_watched(text: str, metrics: Sequence[str]) -> bool:
    try:
        guard.parse(text, metrics)
    except ConfigError:  # of a run against its baseline, which a service does not have
        return False
    return True


def would_be_here(spec: Mapping[str, Any]) -> str:
    """What damoos is about to do, for a policy whose user has named no machine and which would go on this host.

    Parameters
    ----------
    spec : mapping
        See `specification`. Its machine is asked which host it is, whatever its file calls it.

    Returns
    -------
    str
        The beginning of a sentence; empty for a policy that goes on another host or on a guest.

    Raises
    ------
    MachineError : the machine cannot be asked
    """
    name = spec["machine"]
    if not machines.machine(name).is_here():
        return ""
    where = "this host" if name == "local" else f"this host, which is machine '{name}'"
    return f"the policy of study '{spec['study']}' would go on {where}, on {spec['on_text']}"
