"""What runs, and where: the part that studies, evaluations and recordings have in common."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from damoos.damon.scheme import Context
from damoos.errors import ConfigError
from damoos.machines import catalog as machines
from damoos.machines.base import Machine
from damoos.policies import containers
from damoos.words.studies import KernelWords, RealWords, TargetWords
from damoos.workloads import catalog as workloads
from damoos.workloads.base import LiveWorkload, Tuning, Workload


@dataclass(frozen=True, kw_only=True)
class RunConfig(KernelWords, RealWords, TargetWords):
    """A workload and a machine. Plain values: they are stored as JSON.

    Parameters
    ----------
    workload, command, pid, metrics, kernel, require_real
        As they are said; exactly one of the first three is given.
    unit_work_s, settle_s : float
        With ``pid``: length of a window, and what is discarded before each.
    machine : str
        Name or file.
    run_limit_s : float or None
        A run that takes longer hangs; None for the workload's own limit.
    """

    unit_work_s: float = 10.0
    settle_s: float = 2.0
    machine: str
    run_limit_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what could only fail later, on a machine."""
        super().__post_init__()
        if [self.workload, self.command, self.pid].count(None) != 2:
            raise ConfigError("give either a workload, a command or a pid")
        if self.metrics and self.pid is None:
            raise ConfigError(
                "--metric is for a running process (--pid); other workloads declare their metrics in their file"
            )
        if self.unit_work_s <= 0:
            raise ConfigError(f"a window must be longer than 0 s, got {self.unit_work_s:g} s (--unit-work)")
        if self.settle_s < 0:
            raise ConfigError(f"the time before a window must be 0 s or more, got {self.settle_s:g} s (--settle)")

    @property
    def target(self) -> str:
        """What is tuned, in the user's own words."""
        return self.workload or self.command or f"pid {self.pid}"

    @property
    def label(self) -> str:
        """What the study's name starts with."""
        if self.workload:
            stem, chosen = workloads.split(self.workload)
            what = (Path(stem).stem if stem.endswith(".toml") else stem) + (f"-{chosen}" if chosen else "")
        else:
            what = self._own().name
        where = Path(self.machine).stem
        return f"{what}-{where}" + (f"-{self.kernel}" if self.kernel else "")

    def workload_on(self, machine: workloads.Place) -> Workload:
        """The workload as a machine can run it."""
        if self.workload:
            return workloads.workload(self.workload, machine, self.require_real)
        return self._own()

    def machine_for(self, *, from_beginning_to_end: bool = True) -> Machine:
        """The machine, with what the workload needs on it if it is one of our own.

        Parameters
        ----------
        from_beginning_to_end : bool
            Whether all that it does is asked for by runs, and nobody acts on it by this host's clock.
        """
        machine = machines.machine(self.machine, self.kernel)
        if self.workload:
            needs = workloads.wanted(self.workload)
            machine.provide(needs.packages, needs.trees)
            if from_beginning_to_end:
                machine.suit(paced=needs.paced)
        return machine

    def _own(self) -> Workload:
        """The user's own command or process."""
        if self.pid is None:
            return workloads.command(self.command or "", Tuning())
        readings = [workloads.reading(text) for text in self.metrics]
        return LiveWorkload(self.pid, readings, self.settle_s, Tuning(unit_work_s=self.unit_work_s))

    def check(self) -> None:
        """Find every wrong name and option before a machine is started."""
        machines.machine(self.machine, self.kernel)
        if self.workload:
            for container in workloads.find(self.workload)[1].container:
                if container.policy is not None:
                    containers.rule(container.name, container.policy)
        else:
            self._own()

    def contexts(self, tuning: Tuning) -> list[Context]:
        """The contexts that its runs can have; one that only records has no schemes."""
        return []

    @property
    def thp_configs(self) -> list[str]:
        """Names of the configurations that need transparent huge pages."""
        return []


def plain(config: Any) -> dict[str, Any]:
    """A configuration as it comes back from the store, with lists for tuples, so that the two can be compared."""
    fields: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return fields
