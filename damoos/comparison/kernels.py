"""A listed scheme on several kernels: runs in turn, and how the kernels differ, with intervals.

Nothing is searched here. Each round runs every kernel without and under the scheme, and the order turns from round to
round, so that what drifts on the host falls on all alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from damoos import __version__
from damoos.common import paths
from damoos.damon.damo_json import context_from_json, context_to_json
from damoos.damon.scheme import parse_schemes
from damoos.dispatch.lease import Lease
from damoos.dispatch.run import check_schemes
from damoos.errors import ConfigError
from damoos.model.trial import Measurement
from damoos.policies.base import DamosPolicy, NonePolicy
from damoos.statistics.verdict import ALPHA, interval
from damoos.store.artifacts import Artifacts
from damoos.study.config import StudyConfig, manual_policy
from damoos.study.study import Study
from damoos.workloads.base import Tuning, Workload

WITHOUT, UNDER = "without", "under"
MIN_REPEATS = 3
Say = Callable[[str], None]


@dataclass(frozen=True)
class Quantity:
    """Something that is compared: its value in one round of one kernel; kernels differ by a ratio or by points."""

    name: str
    value: Callable[[Measurement, Measurement], float]
    relative: bool


QUANTITIES = (
    Quantity("runtime without, s", lambda base, under: base.metric("runtime_s"), relative=True),
    Quantity("runtime under the scheme, s", lambda base, under: under.metric("runtime_s"), relative=True),
    Quantity("slowdown", lambda base, under: under.metric("runtime_s") / base.metric("runtime_s") - 1, relative=False),
    Quantity(
        "RSS saving",
        lambda base, under: 1 - under.metric("rss_avg_bytes") / base.metric("rss_avg_bytes"),
        relative=False,
    ),
    Quantity(
        "kdamond CPU", lambda base, under: under.metric("kdamond_cpu_s") / under.metric("runtime_s"), relative=False
    ),
)
_RUNTIME_UNDER = QUANTITIES[1].name


@dataclass(frozen=True)
class Evaluation:
    """What is run.

    Parameters
    ----------
    config : StudyConfig
        Workload or command, machine (a guest, which is given each of the kernels) and operations set; what it says of a
        search is not used.
    kernels : sequence of str
    scheme : str or None
        Scheme text; None for the workload's hand-made prcl.
    policies : mapping of str to DamosPolicy
        A kernel's own schemes, for those that have some.
    repeats : int
        Rounds.
    """

    config: StudyConfig
    kernels: Sequence[str]
    scheme: str | None = None
    policies: Mapping[str, DamosPolicy] = field(default_factory=dict)
    repeats: int = 5

    def __post_init__(self) -> None:
        """Refuse what could only fail later, on a machine."""
        if self.repeats < MIN_REPEATS:
            raise ConfigError(f"--repeats {self.repeats} give no interval to speak of; give {MIN_REPEATS} or more")
        for name in self.kernels:
            replace(self.config, kernel=name).check()
        if self.scheme is not None:
            parse_schemes(self.scheme)

    def run(self, results: Path, say: Say) -> dict[str, Any]:
        """Do all rounds; each finished run is kept as it ends, in the folder that is named in what is returned.

        Raises
        ------
        DamoosError : as the machine or the workload has it; what had finished stays
        """
        started = datetime.now(UTC)
        place = results / f"evaluate-{self.config.label.replace('/', '-')}-{started:%Y%m%d-%H%M%S}"
        artifacts = Artifacts(place)
        with ExitStack() as stack:
            leases = {
                name: stack.enter_context(Lease(replace(self.config, kernel=name).machine_for(), say))
                for name in self.kernels
            }
            on = {name: self._workload(lease) for name, lease in leases.items()}
            policies = {name: self._policy(name, on[name].tuning) for name in self.kernels}
            for name, lease in leases.items():
                check_schemes(lease.call, lease.machine.name, policies[name])
            runs = self._rounds(leases, on, policies, artifacts, say)
            facts = {name: lease.facts for name, lease in leases.items()}
        found = {
            "evaluation": place.name,
            "workload": self.config.target,
            "variant": next(iter(on.values())).variant,
            "note": next(iter(on.values())).note,
            "machine": self.config.machine,
            "rounds": self.repeats,
            "started": started.isoformat(timespec="seconds"),
            "provenance": {"damoos": __version__, "commit": paths.commit()},
            "kernels": [_kernel_json(name, facts[name], policies[name], runs[name]) for name in self.kernels],
            "differences": _differences(self.kernels, runs),
        }
        artifacts.write_json("result.json", found)
        return found

    def _workload(self, lease: Lease) -> Workload:
        return self.config.workload_on(lease.which)

    def _policy(self, kernel: str, tuning: Tuning) -> DamosPolicy:
        if kernel in self.policies:
            return self.policies[kernel]
        if self.scheme is not None:
            return DamosPolicy(parse_schemes(self.scheme), self.config.operations)
        return manual_policy(tuning.manual_us, self.config.operations)

    def _rounds(
        self,
        leases: Mapping[str, Lease],
        on: Mapping[str, Workload],
        policies: Mapping[str, DamosPolicy],
        artifacts: Artifacts,
        say: Say,
    ) -> dict[str, list[dict[str, Measurement]]]:
        """Measurements by kernel, then by round, then by what was in force."""
        runs: dict[str, list[dict[str, Measurement]]] = {name: [] for name in self.kernels}
        slots = [(name, arm) for name in self.kernels for arm in (WITHOUT, UNDER)]
        kept: list[str] = []
        for number in range(self.repeats):
            turn = number % len(slots)
            for name in self.kernels:
                runs[name].append({})
            for name, arm in [*slots[turn:], *slots[:turn]]:
                policy = NonePolicy() if arm == WITHOUT else policies[name]
                measured, samples = leases[name].run(on[name], policy, on[name].tuning.limit_s)
                artifacts.write_samples(f"{name}-{arm}-{number}", samples)
                kept.append(json.dumps({"round": number, "kernel": name, "arm": arm, **_run_json(measured)}))
                artifacts.write_text("runs.jsonl", "\n".join(kept) + "\n")
                runs[name][number][arm] = measured
            said = (f"{name} {_shown(runs[name][number])}" for name in self.kernels)
            say(f"round {number + 1} of {self.repeats}: {'; '.join(said)}")
        return runs


def evaluation_of(studies: Mapping[str, Study]) -> Evaluation:
    """What compares finished studies of one workload that differ in their kernel, each under its own tuned scheme.

    Raises
    ------
    ConfigError : a study is not finished, or recommends nothing
    """
    policies = {}
    for name, study in studies.items():
        best = (study.record.result or {}).get("recommended")
        if best is None:
            raise ConfigError(f"study '{study.name}' has no recommended scheme")
        context = context_from_json(best["damo"])  # the scheme's text would lack a tuned quota
        policies[name] = DamosPolicy(context.schemes, context.operations)
    config = next(iter(studies.values())).config
    return Evaluation(config, list(studies), policies=policies, repeats=max(MIN_REPEATS, config.repeats))


def slower_by(found: Mapping[str, Any]) -> float:
    """By how much the last kernel is surely slower than the first under the scheme: the interval's lower end."""
    last = found["kernels"][-1]["name"]
    (one,) = (d for d in found["differences"] if d["kernel"] == last and d["quantity"] == _RUNTIME_UNDER)
    return float(one["interval"][0])


def text(found: Mapping[str, Any]) -> str:
    """An evaluation for a terminal."""
    lines = [f"{found['workload']} ({found['variant']}) on {found['machine']}, {found['rounds']} rounds"]
    if found["note"]:
        lines.append(found["note"])
    for one in found["kernels"]:
        lines.append(f"{one['name']}: Linux {one['release']}, {one['emulation']}; {one['scheme']}")
        for name, value in one["quantities"].items():
            low, high = value["ci95"]
            lines.append(
                f"  {name:<30} {_number(name, value['mean']):>9} [{_number(name, low)}, {_number(name, high)}]"
            )
    for one in found["differences"]:
        low, high = one["interval"]
        unit = "" if one["relative"] else " points"
        said = f"{one['difference']:+.2%}{unit} [{low:+.2%}, {high:+.2%}]"
        verdict = "differs" if one["differs"] else "cannot be told apart"
        lines.append(f"{one['kernel']} against {one['than']}: {one['quantity']:<30} {said}  {verdict}")
    return "\n".join(lines)


def _number(name: str, value: float) -> str:
    return f"{value:.3f}" if name.endswith(", s") else f"{value:.2%}"


def _shown(pair: Mapping[str, Measurement]) -> str:
    return f"{pair[WITHOUT].metric('runtime_s'):.2f} s without, {pair[UNDER].metric('runtime_s'):.2f} s under"


def _run_json(measured: Measurement) -> dict[str, Any]:
    return {
        "metrics": dict(measured.metrics),
        "damos": [one.as_dict() for one in measured.damos],
        "provenance": dict(measured.provenance),
    }


def _values(quantity: Quantity, rounds: Sequence[Mapping[str, Measurement]]) -> list[float]:
    return [quantity.value(one[WITHOUT], one[UNDER]) for one in rounds]


def _kernel_json(
    name: str, facts: Mapping[str, Any], policy: DamosPolicy, rounds: Sequence[Mapping[str, Measurement]]
) -> dict[str, Any]:
    quantities = {}
    for quantity in QUANTITIES:
        values = _values(quantity, rounds)
        quantities[quantity.name] = {"mean": float(np.mean(values)), "ci95": list(interval(values)), "values": values}
    return {
        "name": name,
        "release": facts["kernel"],
        **{
            key: facts.get(key) for key in ("kernel_id", "accel", "clock", "emulation", "vcpus", "mem_bytes", "cmdline")
        },
        "scheme": "; ".join(str(scheme) for scheme in policy.schemes),
        "damo": context_to_json(policy.context),
        "quantities": quantities,
    }


def _differences(names: Sequence[str], runs: Mapping[str, Sequence[Mapping[str, Measurement]]]) -> list[dict[str, Any]]:
    """Each kernel against the first, by rounds. All intervals together hold with 95 % (Bonferroni)."""
    first, *others = names
    level = 1 - ALPHA / max(1, len(QUANTITIES) * len(others))
    found = []
    for name in others:
        for quantity in QUANTITIES:
            pairs = zip(_values(quantity, runs[first]), _values(quantity, runs[name]), strict=True)
            gaps = [b / a - 1 if quantity.relative else b - a for a, b in pairs]
            low, high = interval(gaps, level)
            found.append(
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
    return found
