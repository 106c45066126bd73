"""What a study that compares listed configurations is asked to do; it searches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from damoos.damon.scheme import Context
from damoos.errors import ConfigError
from damoos.policies import named
from damoos.policies.thp import ThpModePolicy
from damoos.study.run_config import RunConfig
from damoos.words import again
from damoos.words.studies import EvaluateWords, SeedWords
from damoos.workloads.base import Tuning

HARD_LIMIT = (
    "under a hard limit of memory a run that must not write to swap is killed; use --memory high:... with --write-limit"
)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(RunConfig, SeedWords):
    """A workload and a machine, and the configurations that are compared there.

    Parameters
    ----------
    configs : dict
        Plain forms by name, see `damoos.policies.named.resolve`; the baseline is one of them.
    repeats, seed
        As they are said; blocks are those of `damoos.study.configurations`.
    """

    configs: dict[str, dict[str, Any]]
    repeats: int = again(EvaluateWords, "repeats")

    def __post_init__(self) -> None:
        """Refuse what could only fail later, on a machine."""
        super().__post_init__()
        if self.pid is not None:
            raise ConfigError(
                f"pid {self.pid} runs until it is stopped: its runtime says nothing about a configuration"
            )
        for name, config in self.configs.items():
            limits = named.limits_of(config["memory"], 1.0) if "memory" in config else {}
            if "write_limit" in config and "memory.max" in limits:
                raise ConfigError(f"configuration '{name}': {HARD_LIMIT}")

    @property
    def nr_steps(self) -> int:
        """How many runs are counted as its progress: all of them."""
        return len(self.configs) * self.repeats

    @property
    def nr_runs(self) -> int:
        """Runs of all kinds."""
        return self.nr_steps

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """Optuna wants one of each study; nothing is scored here."""
        return "maximize"

    @property
    def needs_peak(self) -> bool:
        """Whether a limit of memory is a share of the baseline's peak."""
        return any(
            named.is_share(config.get("memory", "")) or named.policy(config).peak_shares
            for config in self.configs.values()
        )

    def contexts(self, tuning: Tuning) -> list[Context]:
        """The contexts of all configurations."""
        policies = [named.policy(config) for config in self.configs.values()]
        return [policy.damon_context for policy in policies if policy.damon_context is not None]

    @property
    def thp_configs(self) -> list[str]:
        """Names of the configurations that need transparent huge pages."""
        return [
            name
            for name, config in self.configs.items()
            if "thp" in config or isinstance(named.policy(config), ThpModePolicy)
        ]
