"""What a sweep is: every workload on every machine, a study each; its plan, its folder, its result."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from damoos.errors import ConfigError, nearest
from damoos.machines import catalog as machines
from damoos.study.config import StudyConfig
from damoos.study.evaluation_config import EvaluationConfig


@dataclass(frozen=True)
class SweepConfig:
    """Everything that makes two sweeps the same sweep. Plain values: it is stored as JSON.

    Parameters
    ----------
    workloads, machines : sequence of str
        Names or files; no patterns any more.
    settings : dict
        Further fields of `damoos.study.config.StudyConfig`, for all studies alike; with ``configs`` those of
        `damoos.study.evaluation_config.EvaluationConfig`.
    """

    workloads: Sequence[str]
    machines: Sequence[str]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def is_evaluation(self) -> bool:
        """Whether its studies compare listed configurations."""
        return "configs" in self.settings

    @property
    def is_league(self) -> bool:
        """Whether its studies set several policies beside one another."""
        return bool(self.settings.get("league"))

    def configs(self) -> list[StudyConfig] | list[EvaluationConfig]:
        """A study of each workload on each machine."""
        pairs = [(workload, machine) for workload in self.workloads for machine in self.machines]
        if self.is_evaluation:
            return [EvaluationConfig(workload=name, machine=where, **self.settings) for name, where in pairs]
        return [StudyConfig(workload=name, machine=where, **self.settings) for name, where in pairs]

    def check(self) -> None:
        """Find every wrong word before a machine is started."""
        for name in self.machines:
            machines.machine(name)
        for config in self.configs()[:: len(self.machines)]:
            config.check()


def expand(patterns: Sequence[str], known: Sequence[str], option: str) -> list[str]:
    """Names that fit patterns such as ``splash2x/*``, each once, in order; files and inputs are taken as they are.

    Raises
    ------
    ConfigError : nothing fits
    """
    names: list[str] = []
    for pattern in patterns:
        fitting = fnmatch.filter(known, pattern) if any(sign in pattern for sign in "*?[") else [pattern]
        if not fitting:
            raise ConfigError(f"{option}: nothing matches '{pattern}'{nearest(pattern, known)}")
        names += fitting
    if not names:
        raise ConfigError(f"{option} is empty")
    return list(dict.fromkeys(names))
