"""One run of a workload under a policy on a machine, from the call to a measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from damoos import __version__
from damoos.common.unpack import MOST_NUMBER
from damoos.damon.scheme import Context
from damoos.damon.settings import check
from damoos.damon.stats import DamosStats
from damoos.dispatch.modelled_time import of_tiers
from damoos.errors import MOST_CHARS, MeasurementError, UnsupportedError, WorkloadError, nearest
from damoos.machines.answers import computed_with
from damoos.machines.base import Machine, Session, Sink
from damoos.model.roles import ROLE_METRICS, of_role
from damoos.model.trial import Measurement, RawSamples
from damoos.policies.base import Policy
from damoos.policies.containers import steered
from damoos.units import show_bytes
from damoos.workloads.base import Workload
from damoos.workloads.tools import PROTECT, tool

SAMPLE_S = 0.5
_FACTS = (
    "kernel",
    "kernel_name",
    "kernel_id",
    "accel",
    "clock",
    "emulation",
    "image",
    "boot_id",
    "vcpus",
    "mem_bytes",
    "access_counter",
)


def check_schemes(call: Callable[..., Any], machine: str, contexts: Sequence[Context]) -> None:
    """Find out before the first run whether the machine can do what policies ask of it.

    The kernel accepts an action that its operations set cannot do, or pageout without a swap device, and then applies
    it to nothing; so each action is tried on a little memory of the agent's own.

    Parameters
    ----------
    call : callable
        Calls the machine's agent.
    contexts : sequence of Context
        Those of the policies.

    Raises
    ------
    UnsupportedError : with what the machine does have, or the kernel that has it
    """
    offered = call("probe")
    if not offered:
        raise UnsupportedError(f"machine '{machine}': its kernel has no DAMON; machine 'guest' does")
    actions: dict[str, set[str]] = {}
    for context in contexts:
        _check_operations(context.operations, offered["operations"])
        check(context, offered)
        for scheme in context.schemes:
            if scheme.action.startswith("migrate_") and scheme.target_nid is None and not scheme.dests:
                raise UnsupportedError(
                    f"action '{scheme.action}' moves nothing without a target: add target_nid=NODE to the scheme"
                )
        actions.setdefault(context.operations, set()).update(context.actions)
    for operations, words in actions.items():
        for action, sz_bytes in call("tryout", operations=operations, actions=sorted(words)).items():
            if sz_bytes == 0:
                hint = "; it has no swap, give its machine file a [swap]" if _lacks_swap(call, action) else ""
                raise UnsupportedError(
                    f"machine '{machine}' accepts action '{action}' on {operations} and applies it to nothing{hint}"
                )


def _check_operations(operations: str, offered: Sequence[str]) -> None:
    if operations not in offered:
        raise UnsupportedError(f"operations '{operations}'{nearest(operations, offered)}")
    if operations == "fvaddr":
        raise UnsupportedError("operations 'fvaddr' watch ranges of addresses that cannot be given; 'vaddr' finds them")


def _lacks_swap(call: Callable[..., Any], action: str) -> bool:
    return action == "pageout" and call("facts")["swap_bytes"] == 0


def run_once(
    session: Session,
    machine: Machine,
    workload: Workload,
    policy: Policy,
    limit_s: float,
    abort_s: float | None = None,
    sink: Sink | None = None,
) -> tuple[Measurement, RawSamples]:
    """Run a workload once; one that is still running after ``abort_s`` is stopped and its measurement censored.

    Parameters
    ----------
    sink : callable or None
        Given what a recording policy has sent, see `damoos.recordings.journal`.

    Raises
    ------
    WorkloadError : it could not start, ran past ``limit_s`` (machine's time) or exited non-zero
    MeasurementError : it ran, but something that every run reports is missing or no number
    MachineError : the machine failed, not the workload, or answers what no machine does
    """
    spec = {
        **workload.spec(session.copy, session.facts.get("vcpus", 1), session.facts.get("arch", "")),
        "cpus": list(machine.conditions.cpu_list()),
        "limit_s": limit_s,
        "warm_up_s": workload.tuning.limit_s,
        "abort_s": abort_s,
        "sample_s": SAMPLE_S,
        "drop_caches": machine.drop_caches,
        **policy.spec(),
    }
    if "containers" in spec:
        spec = steered(spec)
    if ranges := spec.pop("protect", None):
        library = session.copy(tool(PROTECT, session.facts.get("arch", "")))
        spec["program_env"] = _protecting(ranges, library)
        spec["brought"] = [*spec.get("brought", ()), library]
    spec["memory_limits"] = machine.conditions.memory_limits | spec.get("memory_limits", {})
    started = datetime.now(UTC)
    agent = session.agent
    raw = agent.stream(sink, workload.call, **spec) if sink else agent.call(workload.call, **spec)
    with computed_with(machine.name):
        if raw["exit_status"] != 0 and not raw["aborted"]:
            last = " | ".join(raw["stderr"].strip().splitlines()[-3:])[-MOST_CHARS:]
            who = f"{workload.name}: the load" if spec.get("load") else workload.name
            limit = _limit_bytes(spec)
            ending = (
                _out_of_memory(raw, session.facts, limit) if raw["oom_kills"] else f"with {_ending(raw['exit_status'])}"
            )
            raise WorkloadError(f"{who} ended {ending}{': ' + last if last else ''}")
        if ranges:
            _check_protected(raw, workload.name)
        samples = RawSamples(tuple(raw["sample_columns"]), tuple(map(tuple, raw["samples"])))
        modelled = of_tiers(raw["counters"], raw["runtime_s"], session.facts.get("access_counter", {}))
        measurement = Measurement(
            metrics=_censored(raw) if raw["aborted"] else _metrics(raw, samples) | modelled | workload.metrics(raw),
            damos=tuple(DamosStats(**fields) for fields in raw["damos"]),
            provenance={
                "started": started.isoformat(timespec="seconds"),
                "elapsed_s": (datetime.now(UTC) - started).total_seconds(),
                "damoos": __version__,
                "machine": machine.name,
                "host": session.facts.get("host") or session.facts.get("hostname"),
                "policy": policy.name,
                "aslr": spec.get("aslr", machine.conditions.aslr),
                "accepted": raw["accepted"],
                "swapped_to": raw["swapped_to"],
                "huge_pages": raw["huge_pages"],
                "kdamond_restarts": raw.get("kdamond_restarts", 0),
                **{name: raw[name] for name in ("controller", "swap_write_limit") if name in raw},
                **({"memory_nodes": raw["placement"]} if raw.get("placement") else {}),
                **({"tuned_intervals": raw["tuned_intervals"]} if raw.get("tuned_intervals") else {}),
                **({"left_on_swap_bytes": raw["left_on_swap_bytes"]} if raw.get("left_on_swap_bytes") else {}),
                **({"record": {**raw["record"], "began_s": raw["began_s"]}} if "record" in raw else {}),
                **{name: session.facts[name] for name in _FACTS if name in session.facts},
            },
            censored=raw["aborted"],
        )
        _check_numbers(measurement, workload.name)
    return measurement, samples


def _check_numbers(measurement: Measurement, name: str) -> None:
    """Refuse a run with a number that no study takes back from its store.

    Raises
    ------
    MeasurementError : its program has printed such a one, say
    """
    for metric, value in measurement.metrics.items():
        if abs(value) >= MOST_NUMBER:
            raise MeasurementError(f"{name}: metric '{metric}' is {value:.3g}, which cannot be computed with")


def _protecting(ranges: Sequence[Sequence[int]], library: str) -> dict[str, str]:
    """The environment of a program of which these address ranges are locked, by a library on the machine."""
    return {"LD_PRELOAD": library, "DAMOOS_PROTECT": ",".join(f"{start:x}-{end:x}" for start, end in ranges)}


def _check_protected(raw: Mapping[str, Any], name: str) -> None:
    """Refuse a run of which nothing was locked.

    Raises
    ------
    MeasurementError : the library was not loaded, or what was recorded lies elsewhere in this run
    """
    column = raw["sample_columns"].index("unevictable_bytes")
    if max((row[column] for row in raw["samples"]), default=0) == 0:
        raise MeasurementError(
            f"{name}: nothing of it was locked; it is linked statically, or its memory is at other addresses than in"
            " the recording"
        )


def _limit_bytes(spec: Mapping[str, Any]) -> int | None:
    """The memory.max of a run's program, its own or that of all containers; None where there is neither."""
    own = [container["memory_limits"] for container in spec.get("containers", ()) if container["argv"] is None]
    return min(
        (limits["memory.max"] for limits in [spec["memory_limits"], *own] if "memory.max" in limits), default=None
    )


def _ending(status: int) -> str:
    return f"exit status {status}" if status > 0 else f"signal {-status}"


def _out_of_memory(raw: dict[str, Any], facts: dict[str, Any], limit: int | None) -> str:
    if limit is not None and raw["counters"].get("limit_oom_kill"):
        return f"because it needs more than the {show_bytes(limit)} that it was limited to, and the kernel killed it"
    peak = max((row[raw["sample_columns"].index("rss_bytes")] for row in raw["samples"]), default=0)
    return (
        f"because memory ran out, and the kernel killed it: it had {show_bytes(peak)} on a machine of"
        f" {show_bytes(facts['mem_bytes'])}; give the machine more memory, or the workload a smaller input"
    )


def _censored(raw: dict[str, Any]) -> dict[str, float]:
    """What can be said of a run that was stopped; nothing that is meant for a whole one."""
    return {"elapsed_s": raw["runtime_s"], "elapsed_user_s": raw["user_s"], "elapsed_system_s": raw["system_s"]}


def _rates(counters: Mapping[str, int], runtime_s: float) -> dict[str, float]:
    """Counters per second of the run; one whose counters the machine does not have is absent."""
    sums = {
        "refaults_per_s": ("workingset_refault_anon", "workingset_refault_file"),
        "promotions_per_s": ("pswpin",),
        "swap_written_bytes_per_s": ("swap_written_bytes",),
    }
    return {
        rate: sum(counters[name] for name in names) / runtime_s
        for rate, names in sums.items()
        if set(names) <= set(counters) and runtime_s > 0
    }


def _metrics(raw: dict[str, Any], samples: RawSamples) -> dict[str, float]:
    metrics = {
        # First, since it has the kernel's counters: none of them takes the place of a metric.
        **_memory(raw, samples),
        **{name: raw[name] for name in ("runtime_s", "user_s", "system_s")},
        "kdamond_cpu_s": raw["kdamond_cpu_s"],
        "controller_cpu_s": raw["controller"]["cpu_s"] if "controller" in raw else 0.0,
        "sampling_cpu_s": raw["sampling_cpu_s"],
        **_of_roles(raw.get("roles", {})),
    }
    if not metrics["rss_avg_bytes"] >= 1:  # it ended before any sample; scores divide by it
        del metrics["rss_avg_bytes"]
    # What a machine does not have (memory.current without cgroup v2, the size of zswap before 5.19) is absent.
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _of_roles(roles: Mapping[str, Any]) -> dict[str, float]:
    """`ROLE_METRICS` of each role of a run with containers."""
    metrics: dict[str, float] = {}
    for role, raw in roles.items():
        samples = RawSamples(tuple(raw["sample_columns"]), tuple(map(tuple, raw["samples"])))
        own = {"user_s": raw["user_s"], "system_s": raw["system_s"], **_memory(raw, samples)}
        metrics |= {of_role(name, role): own[name] for name in ROLE_METRICS if name in own}
    return metrics


def _memory(raw: Mapping[str, Any], samples: RawSamples) -> dict[str, float]:
    """What is told of memory, of all or of one role."""
    if not samples.rows:
        raise MeasurementError("the run has no memory samples")
    table = dict(zip(samples.columns, np.array(samples.rows, dtype=float).T, strict=True))
    # Samples are half a second apart, at first less, later a fiftieth of the time so far. Each stands for the time
    # until the next, the last for the rest of the run.
    spans = np.diff(np.append(table["t_s"], max(raw["runtime_s"], table["t_s"][-1])))
    weights = spans / spans.sum() if spans.sum() > 0 else np.full_like(spans, 1 / len(spans))

    def mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
        return float(values @ weights)

    sampled = {
        **{
            f"{column.removesuffix('_bytes')}_avg_bytes": mean(values)
            for column, values in table.items()
            if column.endswith("_bytes")
        },
        "rss_max_bytes": float(table["rss_bytes"].max()),
        "anon_huge_max_bytes": float(table["anon_huge_bytes"].max()),
        "memory_avg_bytes": mean(table["cgroup_bytes"]),
        "memory_max_bytes": raw["peak_bytes"],
    }
    counted = {
        **{name: float(value) for name, value in raw["counters"].items()},
        **{f"psi_{name}_us": float(value) for name, value in raw["psi_us"].items()},
        **_rates(raw["counters"], raw["runtime_s"]),
    }
    return counted | sampled
