"""What a sweep is: every workload on every machine, a study each; its plan, its folder, its result."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from damoos.errors import ConfigError, nearest
from damoos.machines import catalog as machines
from damoos.study.config import StudyConfig


@dataclass(frozen=True)
class SweepConfig:
    """Everything that makes two sweeps the same sweep. Plain values: it is stored as JSON.

    Parameters
    ----------
    workloads, machines : sequence of str
        Names or files; no patterns any more.
    nr_samples : int
        Trials of each study; 0 where the studies are listed ones.
    settings : dict
        Further fields of `damoos.study.config.StudyConfig`, for all studies alike.
    """

    workloads: Sequence[str]
    machines: Sequence[str]
    nr_samples: int
    settings: dict[str, Any] = field(default_factory=dict)

    def configs(self) -> list[StudyConfig]:
        """A study of each workload on each machine."""
        return [
            StudyConfig(workload=one, command=None, machine=where, nr_samples=self.nr_samples, **self.settings)
            for one in self.workloads
            for where in self.machines
        ]

    def check(self) -> None:
        """Find every wrong word before a machine is started."""
        for name in self.machines:
            machines.machine(name)
        for name in self.workloads:
            StudyConfig(name, None, self.machines[0], self.nr_samples, **self.settings).check()


def expand(patterns: Sequence[str], known: Sequence[str], option: str) -> list[str]:
    """Names that fit patterns such as ``splash2x/*``, each once, in order; files and inputs are taken as they are.

    Raises
    ------
    ConfigError : nothing fits
    """
    found: list[str] = []
    for pattern in patterns:
        fitting = fnmatch.filter(known, pattern) if any(sign in pattern for sign in "*?[") else [pattern]
        if not fitting:
            raise ConfigError(f"{option}: nothing fits '{pattern}'{nearest(pattern, known)}")
        found += fitting
    if not found:
        raise ConfigError(f"{option} is empty")
    return list(dict.fromkeys(found))
