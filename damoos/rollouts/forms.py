"""What the files of a rollout hold: their keys and types."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from damoos.common.json_file import JsonForm


class _Plan(BaseModel):
    model_config = ConfigDict(extra="forbid")

    spec: dict[str, Any]
    machines: list[str]
    steps: list[int]
    bake_s: float
    tolerance: float
    least_saving: float
    seed: int
    ray: str | None
    insecure_cluster: bool = False


class _Rollout(BaseModel):
    model_config = ConfigDict(extra="allow")

    version: int | str = Field(alias="schema")
    plan: _Plan


class _Progress(BaseModel):
    model_config = ConfigDict(extra="forbid")

    state: Literal["running", "held", "undoing", "undone", "done"]
    step: int
    phase: Literal["before", "bake"]
    begun_s: float
    baking_s: float
    until_s: float
    left: dict[str, str]
    why: str
    findings: list[list[dict[str, Any]]]


# A rollout names each host; its progress has the findings of each step.
ROLLOUT, PROGRESS = JsonForm(_Rollout, 4 << 20), JsonForm(_Progress, 4 << 20)
