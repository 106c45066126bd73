"""A listed study: nothing is searched, some configurations run in blocks, each in every block, in a shuffled order.

Each block holds a baseline of its own, and a run is set against that one, so that what drifts falls on both alike. The
order of a block depends on the study's seed and on the block's number only, so a resumed study goes on in the same one.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from damoos.errors import ConfigError, MeasurementError
from damoos.model.metrics import TIER_METRICS
from damoos.model.roles import ROLES, of_role, part
from damoos.model.trial import Measurement, Run, mean_measurement
from damoos.policies import named
from damoos.policies.base import DamosPolicy, Policy, limited
from damoos.policies.containers import NONE
from damoos.scorers.terms import TERMS, policy_cpu_share, spare_core_slowdown
from damoos.statistics.summary import Quantity, told
from damoos.study.evaluation_config import EvaluationConfig
from damoos.study.result import about
from damoos.study.steps import Execution, Part, Watcher, peak_of
from damoos.study.study import EvaluationStudy


def plan(config: EvaluationConfig) -> list[Run]:
    """Every run of a listed study, in order."""
    runs: list[Run] = []
    for block in range(config.repeats):
        order = list(config.configs)
        random.Random(f"{config.seed} {block}").shuffle(order)
        if block == 0 and config.needs_peak:  # which this first run tells
            order.sort(key=lambda name: name != named.BASELINE)
        runs += [Run(len(runs) + nth, "config", block, name) for nth, name in enumerate(order)]
    return runs


class Listing(Execution):
    """One go at a listed study.

    A configuration that has failed in one block is not run in later ones: its reason is what is reported of it, and no
    number. A baseline that fails ends the study, which then goes on with it.
    """

    _study: EvaluationStudy
    _config: EvaluationConfig

    def __init__(self, study: EvaluationStudy, watcher: Watcher) -> None:
        self._plan = plan(study.config)
        super().__init__(study, watcher, study.config.nr_runs)

    def _work(self) -> Part:
        for step in self._left(self._plan):
            if step.arm not in self._failed():
                policy = self._policy(self._config.configs[step.arm])
                yield from self._execute(step, policy, must_succeed=self._is_baseline(step))

    def _policy(self, form: Mapping[str, Any]) -> Policy:
        peak_bytes = peak(self._done.values()) if self._config.needs_peak and form else 0.0
        limits = named.limits_of(form["memory"], peak_bytes) if "memory" in form else {}
        return limited(named.policy(form), limits, peak_bytes, form.get("write_limit", 0))

    def _check_metrics(self) -> None:
        workload = self._found.workload
        if not workload.has_runtime:
            raise ConfigError(f"'{workload.name}' always runs for a set time: its runtime says nothing about a scheme")
        has_own = any(container.policy not in (None, NONE) for container in workload.containers)
        if named.CONTAINERS in self._config.configs and not has_own:
            raise ConfigError(
                f"configuration '{named.CONTAINERS}': no [[container]] of workload '{workload.name}' has a 'policy'"
            )

    def _failed(self) -> set[str]:
        return {run.arm for run in self._done.values() if run.error}

    def _needs(self) -> tuple[str, ...]:
        return ("runtime_s", "rss_avg_bytes", "kdamond_cpu_s", "anon_huge_avg_bytes")

    def _is_baseline(self, run: Run) -> bool:
        return run.arm == named.BASELINE

    def _result(self, elapsed_s: float) -> dict[str, Any]:
        return result_of(self._study, elapsed_s)


def peak(runs: Iterable[Run]) -> float:
    """The most memory that the first baseline had charged at a time, in bytes; errors as `peak_of` has them."""
    base = next(run.measurement for run in runs if run.arm == named.BASELINE and run.number == 0)
    assert base is not None  # nothing goes on without it
    return peak_of(base)


def result_of(study: EvaluationStudy, elapsed_s: float) -> dict[str, Any]:
    """Everything that a finished listed study has to say (docs/evaluate.md has the keys).

    Parameters
    ----------
    study : EvaluationStudy
    elapsed_s : float, seconds
        Wall time that the study took.
    """
    blocks: list[Mapping[str, Run]] = [{} for _ in range(study.config.repeats)]
    for run in study.runs():
        blocks[run.number] = {**blocks[run.number], run.arm: run}
    forms = study.config.configs
    peak_bytes = peak(study.runs()) if study.config.needs_peak else 0.0
    return {
        **about(study),
        "repeats": study.config.repeats,
        "configs": {
            name: config_json(name, config, blocks, study.setting.reports)
            | {"memory_limits": named.limits_of(config["memory"], peak_bytes) if "memory" in config else {}}
            for name, config in forms.items()
        },
        "recommended": None,
        "elapsed_s": elapsed_s,
    }


Block = Mapping[str, Run]
Pair = tuple[Measurement, Measurement]
Of = Callable[[Measurement, Measurement], float]


def _ratio(metric: str) -> Of:
    return lambda base, run: base.metric(metric) / run.metric(metric)


def _change(metric: str) -> Of:
    return lambda base, run: run.metric(metric) / base.metric(metric) - 1


def _own(metric: str) -> Of:
    return lambda base, run: run.metric(metric)


# What is told of a configuration, from a block's baseline and its own run. Normalised as the paper's Figure 7 is: the
# baseline is 1, more is better. Changes are as its Listing 2 and the v8 patch set count them.
QUANTITIES: dict[str, Of] = {
    "performance": _ratio("runtime_s"),
    "memory_efficiency": _ratio("rss_avg_bytes"),
    "slowdown": _change("runtime_s"),
    "spare_core_slowdown": lambda base, run: spare_core_slowdown(run, base),
    "bloat": _change("rss_avg_bytes"),
    "kdamond_cpu": lambda base, run: run.metric("kdamond_cpu_s") / run.metric("runtime_s"),
    "policy_cpu_share": lambda base, run: policy_cpu_share(run),
    "runtime_s": _own("runtime_s"),
    "rss_avg_bytes": _own("rss_avg_bytes"),
    "anon_huge_avg_bytes": _own("anon_huge_avg_bytes"),
    "system_efficiency": _ratio("system_used_avg_bytes"),
    "system_used_avg_bytes": _own("system_used_avg_bytes"),
    "memory_avg_bytes": _own("memory_avg_bytes"),
    "net_avg_bytes": _own("net_avg_bytes"),
    "refaults_per_s": _own("refaults_per_s"),
    **{name: _own(name) for name in TIER_METRICS},
    "modelled_speedup": _ratio("modelled_s"),
    "pages_promoted": _own("pgpromote_success"),
    "pages_demoted": lambda base, run: run.metric("pgdemote_kswapd") + run.metric("pgdemote_direct"),
    "pages_migrated": _own("pgmigrate_success"),
}


# What is told of each role of a workload that has containers, and of all of them together.
ROLE_QUANTITIES: dict[str, Of] = {
    "memory_avg_bytes": _own("memory_avg_bytes"),
    "net_avg_bytes": _own("net_avg_bytes"),
    "net_saving": lambda base, run: TERMS["net_saving"].of(run, base),
    "rss_avg_bytes": _own("rss_avg_bytes"),
    "swap_avg_bytes": _own("swap_avg_bytes"),
    "refaults_per_s": _own("refaults_per_s"),
    "memory_pressure": lambda base, run: TERMS["memory_pressure"].of(run, base),
    "cpu": lambda base, run: (run.metric("user_s") + run.metric("system_s")) / run.metric("runtime_s"),
}


def _by_role(pairs: Sequence[Pair]) -> dict[str, dict[str, Quantity]]:
    """`ROLE_QUANTITIES` of each role, and of ``all``; empty where there are no containers."""
    if not pairs:
        return {}
    roles = [role for role in ROLES if of_role("memory_avg_bytes", role) in pairs[0][1].metrics]
    parts = {role: [(part(base, role), part(run, role)) for base, run in pairs] for role in roles}
    return {role: _told(ROLE_QUANTITIES, of_it) for role, of_it in ({"all": pairs, **parts} if roles else {}).items()}


def config_json(
    name: str, form: Mapping[str, str], blocks: Sequence[Block], reports: Sequence[str] = ()
) -> dict[str, Any]:
    """One configuration of a listed study: what was in force, and its quantities; or why there are none.

    Parameters
    ----------
    form : mapping
        As `damoos.policies.named.resolve` gives it.
    blocks : sequence of mapping of str to Run
        Runs by configuration, one mapping per block.
    reports : sequence of str
        Metrics that the workload itself reports.

    Returns
    -------
    dict
        ``scheme, operations, thp, record, protect, policy, nr_runs, error, quantities, reports, roles, damos``
    """
    policy = named.policy(form)
    runs = [block[name] for block in blocks if name in block]
    pairs, error = _pairs(name, blocks), next((run.error for run in runs if run.error), "")
    if not pairs and not error:
        error = "none of its runs was on the machine of its block's baseline"
    total = [stats.as_dict() for _, measured in pairs for stats in measured.damos]
    return {
        "scheme": "\n".join(map(str, policy.schemes)) if isinstance(policy, DamosPolicy) else None,
        **{key: form.get(key) for key in ("operations", "thp", "record", "protect", "policy")},
        "nr_runs": len(runs),
        "error": error,
        "quantities": {} if error else _told(_quantities(form), pairs),
        "reports": {} if error else _told({metric: _own(metric) for metric in reports}, pairs),
        "roles": {} if error else _by_role(pairs),
        "damos": {
            key: sum(stats[key] for stats in total)
            for key in ("nr_tried", "sz_tried_bytes", "nr_applied", "sz_applied_bytes")
        },
    }


def _quantities(form: Mapping[str, str]) -> Mapping[str, Of]:
    """The quantities of a configuration; where DAMON watches the whole machine, memory efficiency is the machine's.

    References
    ----------
    The DAOS paper's slides, "Evaluation Methodology"
    """
    if form.get("record") == "paddr":
        return {**QUANTITIES, "memory_efficiency": QUANTITIES["system_efficiency"]}
    return QUANTITIES


def _told(quantities: Mapping[str, Of], pairs: Sequence[Pair]) -> dict[str, Quantity]:
    """Each quantity over all pairs; one that a machine does not have, such as what a cgroup holds, is absent."""
    found = {}
    for key, of in quantities.items():
        with contextlib.suppress(MeasurementError):
            found[key] = told([of(*pair) for pair in pairs])
    return found


def _pairs(name: str, blocks: Sequence[Block]) -> list[Pair]:
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
            others = [
                other.measurement
                for other in bases
                if other is not base and other.host == base.host and other.measurement
            ]
            against = mean_measurement(others) if others else against
        pairs.append((against, run.measurement))
    return pairs
