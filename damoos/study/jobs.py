"""What a study has done on a machine: find out what is there, then run. Each is a function of a lease.

They are called where the machine is, in this process or by a worker of a cluster; what goes in and out can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from damoos import __version__, doctor
from damoos.dispatch import run
from damoos.dispatch.lease import Lease
from damoos.errors import ConfigError, MeasurementError, UnsupportedError
from damoos.model.trial import Measurement, RawSamples
from damoos.policies.base import LimitedPolicy, Policy, RecordPolicy
from damoos.prediction.reclaim import Cost
from damoos.recordings.journal import Journal
from damoos.recordings.recording import Recording
from damoos.study.run_config import RunConfig
from damoos.workloads.base import LiveWorkload, Tuning, Workload

# With fewer samples of its memory, a run says too little. How often a running process is looked at in a window depends
# on what the user's own metrics take.
LEAST_SAMPLES = 10


@dataclass(frozen=True)
class Survey:
    """What a study found on its machine.

    Parameters
    ----------
    workload : Workload
        The one that this machine can run.
    facts : dict
        What the machine says of itself, its conditions included.
    machine : str
    damoos : str
        Version of damoos that found it.
    """

    workload: Workload
    facts: dict[str, Any]
    machine: str
    damoos: str = __version__


def survey(lease: Lease, config: RunConfig) -> Survey:
    """Find out before the first run what will run, and whether the machine can do what the study will ask of it.

    Raises
    ------
    UnsupportedError : it cannot, or it is unfit for measuring
    """
    check_fit(lease, _actions(config))
    workload = config.workload_on(lease.place)
    _check_thp(lease, config)
    if contexts := config.contexts(workload.tuning):
        run.check_schemes(lease.call, lease.machine.name, contexts)
    return Survey(workload, {**lease.facts, **lease.machine.conditions.model_dump()}, lease.machine.name)


def check_fit(lease: Lease, actions: Sequence[tuple[str, str]] = ()) -> None:
    """Have the doctor examine a machine that asks for it (``doctor_first``).

    Parameters
    ----------
    actions : sequence of (str, str)
        Operations sets and actions of the schemes that will run; none for a recording.

    Raises
    ------
    UnsupportedError : the machine is unfit for measuring
    """
    if lease.machine.doctor_first:
        findings = _findings(lease, doctor.STEADY_S, actions)
        if not doctor.fit(findings):
            raise UnsupportedError(f"machine '{lease.machine.name}' is unfit: {doctor.why_unfit(findings)}")


def examine(lease: Lease, config: RunConfig, steady_s: float) -> list[doctor.Finding]:
    """What the doctor finds of the machine, for schemes such as a study's."""
    return _findings(lease, steady_s, _actions(config))


def _findings(lease: Lease, steady_s: float, actions: Sequence[tuple[str, str]]) -> list[doctor.Finding]:
    return doctor.examine(lease.call, lease.machine.name, lease.machine.conditions, steady_s, actions)


def _actions(config: RunConfig) -> list[tuple[str, str]]:
    contexts = config.contexts(Tuning())
    return sorted({(context.operations, action) for context in contexts for action in context.actions})


def _check_thp(lease: Lease, config: RunConfig) -> None:
    if config.thp_configs and not lease.facts.get("has_thp"):
        raise UnsupportedError(
            f"machine '{lease.machine.name}': its kernel has no transparent huge pages, which"
            f" {' and '.join(config.thp_configs)} need; leave them out of --configs"
        )


def execute(
    lease: Lease, workload: Workload, policy: Policy, limit_s: float, abort_s: float | None
) -> tuple[Measurement, RawSamples]:
    """One run that is to be scored.

    Raises
    ------
    MeasurementError : it has fewer samples than `LEAST_SAMPLES`; and what `damoos.dispatch.run.run_once` raises
    """
    measurement, samples = lease.run(workload, policy, limit_s, abort_s)
    is_short = len(samples.rows) < LEAST_SAMPLES and not measurement.censored
    if is_short and not isinstance(workload, LiveWorkload):
        looks = f"{len(samples.rows)} times in {measurement.metric('runtime_s'):.2g} s"
        raise MeasurementError(
            f"{workload.name}: its memory was looked at {looks}, and {LEAST_SAMPLES} are the least that is scored;"
            " give it more to do"
        )
    return measurement, samples


def record(
    lease: Lease,
    workload: Workload,
    policy: RecordPolicy,
    limit_s: float,
    journal: Journal | None = None,
    memory_limits: Mapping[str, int] | None = None,
) -> tuple[Measurement, RawSamples, Recording, Cost | None]:
    """One run that is recorded, and what paging costs on this machine; None where nothing can be paged out.

    Parameters
    ----------
    journal : Journal or None
        Keeps the recording as it comes; None for one in memory.
    memory_limits : mapping of str to int, bytes, or None
        Of the run, see `damoos.policies.base.LimitedPolicy`.
    """
    cost = _paging_cost(lease, workload)
    if journal is None:
        about: dict[str, Any] = {"workload": workload.name, "variant": workload.variant}
        about |= {"low_us": workload.tuning.low_us, "high_us": workload.tuning.high_us}
        journal = Journal(policy.operations, policy.attrs, about)
    under = LimitedPolicy(policy, memory_limits) if memory_limits else policy
    measurement, samples = lease.run(workload, under, limit_s, sink=journal)
    journal.close()
    more = {**measurement.provenance, "metrics": dict(measurement.metrics), "cost": cost and vars(cost)}
    return measurement, samples, journal.recording(more), cost


def _paging_cost(lease: Lease, workload: Workload) -> Cost | None:
    try:
        cost = lease.call("swap_cost")
    except UnsupportedError:
        return None
    fault_us = cost["fault_us"] * workload.memory_scale
    return Cost(cost["pageout_us"], fault_us, shared=1.0 if lease.facts["vcpus"] == 1 else 0.0)


def same_version(found: Survey) -> None:
    """Refuse a worker whose damoos is another one than the driver's.

    Raises
    ------
    ConfigError
    """
    if found.damoos != __version__:
        raise ConfigError(
            f"machine '{found.machine}' runs damoos {found.damoos}, and this is damoos {__version__};"
            " install the same version on both"
        )
