"""What the files of a journal hold: the keys that every reader relies on, and their types."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from damoos.common.json_file import JsonForm
from damoos.study.run_config import RunConfig

# Seconds since 1970, or for how long: three thousand years. What is beyond is no time of any clock.
MOST_S = 1e11
Time = Annotated[float, Field(ge=0, le=MOST_S)]
# The kernel counts to less.
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_OF_RUN = {field.name for field in fields(RunConfig)}


class Specification(BaseModel):
    """A policy and what it is put on; see `damoos.service.specification.specification`."""

    model_config = ConfigDict(extra="allow")

    study: str
    machine: str
    scheme: str
    arm: str
    verdict: str
    guards: list[str]
    on: dict[str, Any] | None
    on_text: str
    window_s: Time
    metrics: list[list[Any]]
    run: RunConfig
    policy: dict[str, Any]
    on_exit: str = ""
    proven_us: Count = 0

    @field_validator("run", mode="before")
    @classmethod
    def _has_known_keys(cls, run: dict[str, Any]) -> dict[str, Any]:
        if isinstance(run, dict) and (unknown := sorted(set(run) - _OF_RUN)):
            raise ValueError(f"unknown key '{unknown[0]}'")
        return run


class Host(BaseModel):
    """What a machine calls itself; see `damoos.service.in_force.host_of`."""

    model_config = ConfigDict(extra="forbid")

    hostname: str = ""
    boot_id: str = ""


class Wanted(Specification):
    """``NAME.json``: what is to be in service; ``NAME.stopping``: what is to be taken off."""

    wanted_s: Time
    begun: bool = False
    host: Host = Host()
    confirmed: bool = False


class Scheme(BaseModel):
    """DAMON's numbers of one scheme in force."""

    model_config = ConfigDict(extra="allow")

    sz_applied_bytes: float | None = None


class Reading(BaseModel):
    """Numbers of the processes, None where the kernel does not tell them."""

    model_config = ConfigDict(extra="allow")

    memory_bytes: Count | None = None
    swap_bytes: Count | None = None
    compressed_bytes: Count | None = None


class Rule(BaseModel):
    """Numbers of a policy's rule."""

    model_config = ConfigDict(extra="allow")

    cpu_s: Time = 0.0


class State(BaseModel):
    """``NAME.state``: how something in service is, as its keeper has last seen it.

    With ``unconfirmed`` it is to be off, and may be in force all the same: the text says why nobody knows.
    """

    model_config = ConfigDict(extra="allow")

    study: str = ""
    machine: str = ""
    scheme: str = ""
    arm: str = ""
    verdict: str = ""
    guards: list[str] = []
    on: str = ""
    in_force: bool = False
    paused: bool = False
    beginning: bool = False
    for_s: Time = 0.0
    since: str = ""
    nr_processes: Count = 0
    restarts: Count = 0
    rss_bytes: Count = 0
    kdamond_cpu_s: Time = 0.0
    reading: Reading = Reading()
    rule: Rule | None = None
    damos: list[Scheme] = []
    watched: dict[str, float] = {}
    failed: str = ""
    error: dict[str, str] = {}
    out_of_reach: str = ""
    stood_down: bool = False
    on_exit: str = ""
    unconfirmed: str = ""


# What `damoos.service.listing` computes beside a state. Nobody writes it down, so what a file says of it counts for
# nothing; older versions have written `keeper_pid`.
COMPUTED = frozenset({"keeper_pid", "late", "lost", "stopping", "unwritten"})


class Window(BaseModel):
    """A line of ``NAME.windows``."""

    model_config = ConfigDict(extra="allow")

    at_s: Time
    watched: dict[str, float] = {}
    net_bytes: float | None = None
    paused: bool = False


# A state of a thousand processes has some KB; a window has a number for each metric.
WANTED, STATE, WINDOW = JsonForm(Wanted, 1 << 20), JsonForm(State, 1 << 20), JsonForm(Window, 64 << 10)
