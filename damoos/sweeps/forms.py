"""What the files of a sweep hold: their keys and types."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from damoos.common.json_file import JsonForm
from damoos.study.config import StudyConfig
from damoos.study.evaluation_config import EvaluationConfig


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid")

    workloads: list[str]
    machines: list[str]
    settings: dict[str, Any]

    @field_validator("settings")
    @classmethod
    def _is_of_a_study(cls, settings: dict[str, Any]) -> dict[str, Any]:
        kind = EvaluationConfig if "configs" in settings else StudyConfig
        if unknown := sorted(set(settings) - {field.name for field in fields(kind)}):
            raise ValueError(f"unknown key '{unknown[0]}'")
        TypeAdapter(kind).validate_python({"workload": "any", "machine": "any", **settings})
        return settings


class _Sweep(BaseModel):
    version: int | str | None = Field(None, alias="schema")
    created: str = ""
    storage: str | None = None
    config: _Config


class _Row(BaseModel):
    study: str
    workload: str
    machine: str
    nr_samples: int
    state: str
    on: str
    trials: int
    best: float | None
    left_s: float | None
    verdict: str
    score: float | None
    slowdown: float | None
    saving: float | None
    error: str


class _Status(BaseModel):
    sweep: str
    studies: list[_Row]
    spent_s: dict[str, float] = {}
    retries: dict[str, int] = {}


class _Failure(BaseModel):
    of: str
    study: str
    error: str


class _Machine(BaseModel):
    fit: bool
    error: str = ""


class _Cost(BaseModel):
    machine: str
    hours: float
    usd: float | None


class _Result(BaseModel):
    sweep: str
    studies: list[_Row]
    failures: list[_Failure]
    machines: dict[str, _Machine]
    cost: list[_Cost]


# A row of a study has 300 bytes, and a sweep may have ten thousand studies.
SWEEP, STATUS, RESULT = JsonForm(_Sweep, 4 << 20), JsonForm(_Status, 16 << 20), JsonForm(_Result, 16 << 20)
