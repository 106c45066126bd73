"""A listed study: nothing is searched, some configurations run in blocks, each in every block, in a shuffled order.

Each block holds a baseline of its own, and a run is set against that one, so that what drifts falls on both alike. The
order of a block depends on the study's seed and on the block's number only, so a resumed study goes on in the same one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from damoos.comparison.configurations import config_json
from damoos.errors import ConfigError
from damoos.model.trial import Run
from damoos.policies import named
from damoos.study.config import Study, StudyConfig
from damoos.study.result import about
from damoos.study.steps import Execution, Part, Watcher


def plan(config: StudyConfig) -> list[Run]:
    """Every run of a listed study, in order."""
    runs: list[Run] = []
    for block in range(config.repeats):
        order = list(config.configs)
        random.Random(f"{config.seed} {block}").shuffle(order)
        runs += [Run(len(runs) + nth, "config", block, name) for nth, name in enumerate(order)]
    return runs


class Listing(Execution):
    """One go at a listed study.

    A configuration that has failed in one block is not run in later ones: its reason is what is reported of it, and no
    number. A baseline that fails ends the study, which then goes on with it.
    """

    def __init__(self, study: Study, watcher: Watcher) -> None:
        self._plan = plan(study.config)
        super().__init__(study, watcher, study.config.nr_runs)

    def _work(self) -> Part:
        scale = self._found.workload.tuning.time_scale
        policies = {name: named.policy(form, scale) for name, form in self._config.configs.items()}
        for step in self._left(self._plan):
            if step.arm not in self._failed():
                yield from self._execute(step, policies[step.arm], must_succeed=self._is_baseline(step))

    def _check_metrics(self) -> None:
        workload = self._found.workload
        if not workload.has_runtime:
            raise ConfigError(
                f"'{workload.name}' runs for as long as it is told to: its runtime says nothing of a scheme"
            )

    def _failed(self) -> set[str]:
        return {run.arm for run in self._done.values() if run.error}

    def _needs(self) -> tuple[str, ...]:
        return ("runtime_s", "rss_avg_bytes", "kdamond_cpu_s", "anon_huge_avg_bytes")

    def _is_baseline(self, run: Run) -> bool:
        return run.arm == named.BASELINE

    def _result(self, elapsed_s: float) -> dict[str, Any]:
        return result_of(self._study, self._found.workload.tuning.time_scale, elapsed_s)


def result_of(study: Study, time_scale: int, elapsed_s: float) -> dict[str, Any]:
    """Everything that a finished listed study has to say (docs/evaluate.md has the keys).

    Parameters
    ----------
    study : Study
    time_scale : int
        By how much ages of schemes were divided.
    elapsed_s : float, seconds
        Wall time that the study took.
    """
    blocks: list[Mapping[str, Run]] = [{} for _ in range(study.config.repeats)]
    for run in study.runs():
        blocks[run.number] = {**blocks[run.number], run.arm: run}
    forms = study.config.configs
    return {
        **about(study),
        "repeats": study.config.repeats,
        "time_scale": time_scale,
        "configs": {name: config_json(name, form, time_scale, blocks) for name, form in forms.items()},
        "recommended": None,
        "elapsed_s": elapsed_s,
    }
