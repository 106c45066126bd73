"""What the files of a rollout hold: their keys and types."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from damoos.common.json_file import JsonForm
from damoos.service.forms import MOST_S, Specification, Time


class _Spec(Specification):
    name: str
    results: str
    # Effects are computed by windows.
    window_s: float = Field(gt=0, le=MOST_S)

    @field_validator("metrics")
    @classmethod
    def _are_readings(cls, metrics: list[list[Any]]) -> list[list[Any]]:
        if any([type(word) for word in metric] != [str, str, list, str] for metric in metrics):
            raise ValueError("a metric has a name, a source, a command and a key")
        return metrics


class _Plan(BaseModel):
    model_config = ConfigDict(extra="forbid")

    spec: _Spec
    machines: list[str] = Field(min_length=1)
    steps: list[int] = Field(min_length=1)
    bake_s: float = Field(ge=0, le=MOST_S)
    tolerance: float
    least_saving: float
    seed: int
    ray: str | None
    insecure_cluster: bool = False

    @field_validator("steps")
    @classmethod
    def _rise(cls, steps: list[int]) -> list[int]:
        if steps[0] < 1 or sorted(set(steps)) != steps:
            raise ValueError("each step has more machines than the one before")
        return steps


class _Rollout(BaseModel):
    model_config = ConfigDict(extra="allow")

    version: int | str = Field(alias="schema")
    plan: _Plan


class _Finding(BaseModel):
    model_config = ConfigDict(extra="forbid")

    metric: str
    standing: Literal["shown", "unclear", "broken"]
    nr_windows: int
    mean: float | None
    lower: float | None
    upper: float | None
    bound: float | None


class _Progress(BaseModel):
    model_config = ConfigDict(extra="forbid")

    state: Literal["running", "held", "undoing", "undone", "done"]
    step: int = Field(ge=0)
    phase: Literal["before", "bake"]
    begun_s: Time
    baking_s: Time
    until_s: Time
    left: dict[str, str]
    why: str
    not_off: dict[str, str] = {}
    findings: list[list[_Finding]]


# A rollout names each host; its progress has the findings of each step.
ROLLOUT, PROGRESS = JsonForm(_Rollout, 4 << 20), JsonForm(_Progress, 4 << 20)
