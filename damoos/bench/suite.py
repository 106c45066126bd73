"""A suite that has just been installed, tried: each of its programs runs once in a guest, with its smallest input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from damoos.common import paths
from damoos.dispatch.lease import Lease
from damoos.errors import MeasurementError, UnsupportedError, WorkloadError
from damoos.machines import catalog as machines
from damoos.policies.base import NonePolicy
from damoos.workloads import catalog
from damoos.workloads.base import Workload

LIMIT_S = 600.0
"""A program that runs longer at its smallest input hangs; of the machine's time."""
LEAST_SHARE = 1e-4
"""A time that a program reports is at least this share of its run; less is another unit."""
MOST_SHARE = 1.02
"""A program's clock need not agree with ours to more than this."""


@dataclass(frozen=True)
class TryOut:
    """What came of trying a suite's programs.

    Parameters
    ----------
    works : list of str
        Names of workloads, each with its input.
    fails : dict of str to str
        By the name of the workload, why it does not work.
    waits : dict of str to list of str
        By the name of the workload, suites that it takes and that are not installed.
    """

    works: list[str] = field(default_factory=list)
    fails: dict[str, str] = field(default_factory=dict)
    waits: dict[str, list[str]] = field(default_factory=dict)


def try_out(suite: str, machine_name: str, say: Callable[[str], None]) -> TryOut:
    """Run what a suite has brought; programs that were not built are left out.

    Raises
    ------
    UnsupportedError : the machine cannot be had here
    """
    result = TryOut()
    takers = {name: one for name in catalog.names() if suite in (one := catalog.wanted(name)).trees}
    for name, one in takers.items():
        # A program that several suites bring has a form for each; another takes all that it names.
        missing = [] if catalog.has_form(name, suite) else [tree for tree in one.trees if paths.tree(tree) is None]
        if missing:
            result.waits[name] = missing
    names = [name for name in takers if name not in result.waits]
    if not names:
        return result
    machine = machines.machine(machine_name)
    machine.provide(
        sorted({package for name in names for package in takers[name].packages}),
        sorted({tree for name in names for tree in takers[name].trees}),
    )
    with Lease(machine, say) as lease:
        for name in names:
            try:
                workload = catalog.smallest(name, suite, lease.place)
                if workload is None:
                    continue
                say(f"trying {workload.name}")
                if why := _problem(lease, workload):
                    result.fails[name] = why
                else:
                    result.works.append(workload.name)
            except (UnsupportedError, WorkloadError, MeasurementError) as error:
                result.fails[name] = str(error)
    return result


def _problem(lease: Lease, workload: Workload) -> str:
    measurement, _ = lease.run(workload, NonePolicy(), LIMIT_S)
    return implausible({name: measurement.metric(name) for name in workload.reports}, measurement.metric("runtime_s"))


def implausible(reported: Mapping[str, float], runtime_s: float) -> str:
    """Which of a program's own metrics cannot be, and why; empty where all can."""
    for name, value in reported.items():
        if name.endswith("_s") and not name.endswith("_per_s"):
            if value > MOST_SHARE * runtime_s:
                return f"it reports {name} = {value:g}, and the whole run took {runtime_s:g} s: is the unit right?"
            if value < LEAST_SHARE * runtime_s:
                return f"it reports {name} = {value:g} of a run of {runtime_s:g} s: is the unit right?"
        elif value <= 0:
            return f"it reports {name} = {value:g}"
    return ""
