"""What the files of a sweep hold: their keys and types."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator

from damoos.common.json_file import JsonForm
from damoos.study.config import StudyConfig
from damoos.study.evaluation_config import EvaluationConfig

MOST_STUDIES = 10_000
"""The most that a sweep can have."""


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid")

    workloads: list[str]
    machines: list[str]
    settings: dict[str, Any]

    @model_validator(mode="after")
    def _is_of_studies(self) -> Self:
        for names in (self.workloads, self.machines):
            if len(set(names)) < len(names):
                raise ValueError("a workload or a machine is named twice")
        if len(self.workloads) * len(self.machines) > MOST_STUDIES:
            raise ValueError(f"more than {MOST_STUDIES} studies")
        return self

    @field_validator("settings")
    @classmethod
    def _is_of_a_study(cls, settings: dict[str, Any]) -> dict[str, Any]:
        kind = EvaluationConfig if "configs" in settings else StudyConfig
        target = {"workload": "any", "machine": "any"}
        if unknown := sorted(set(settings) - ({field.name for field in fields(kind)} - set(target))):
            raise ValueError(f"unknown key '{unknown[0]}'")
        # Settings are used as they stand in the file, so a text does not count as a number.
        TypeAdapter(kind).validate_json(json.dumps({**target, **settings}), strict=True)
        return settings


class _Sweep(BaseModel):
    version: int | str | None = Field(None, alias="schema")
    created: str
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
    runs: int
    best: float | None
    left_s: float | None
    verdict: str
    score: float | None
    slowdown: float | None
    saving: float | None
    error: str


class _Failure(BaseModel):
    of: str
    study: str
    machine: str
    error: str


class _Machine(BaseModel):
    fit: bool
    error: str = ""


class _Cost(BaseModel):
    machine: str
    hours: float
    usd_hour: float | None = None
    usd: float | None


class _Status(BaseModel):
    """Readers take the status for the result as long as there is none, so it has all keys of a result."""

    sweep: str
    studies: list[_Row]
    failures: list[_Failure]
    spent_s: dict[str, float] = {}
    retries: dict[str, int] = {}
    machines: dict[str, _Machine] = {}
    cost: list[_Cost] = []


class _Result(BaseModel):
    sweep: str
    studies: list[_Row]
    failures: list[_Failure]
    retries: dict[str, int] = {}
    machines: dict[str, _Machine]
    cost: list[_Cost]


# A row of a study has 300 bytes.
SWEEP, STATUS, RESULT = JsonForm(_Sweep, 4 << 20), JsonForm(_Status, 16 << 20), JsonForm(_Result, 16 << 20)
