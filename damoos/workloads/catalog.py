"""Workload files: ``workloads/<suite>/<name>.toml``, or any file of the user's own."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from pydantic import model_validator

from damoos import places, tomlfile
from damoos.errors import ConfigError, UnsupportedError, nearest
from damoos.tomlfile import Table
from damoos.units import parse_us
from damoos.workloads.base import CommandWorkload, PatternWorkload, Tuning, Workload

Which = Callable[[str], str | None]


class Tune(Table):
    """``[tune]``: where to look, in the workload's own (unscaled) time."""

    min_age: str = "0s:60s"
    manual_min_age: str = "5s"
    unit_work: str = "60s"
    limit: str = "1h"

    def tuning(self, time_scale: int = 1) -> Tuning:
        """As values, divided by a model's time scale."""
        low, _, high = self.min_age.partition(":")
        return Tuning(
            low_us=parse_us(low) // time_scale,
            high_us=parse_us(high) // time_scale,
            manual_us=parse_us(self.manual_min_age) // time_scale,
            unit_work_s=float(Fraction(parse_us(self.unit_work), 1_000_000 * time_scale)),
            limit_s=float(Fraction(parse_us(self.limit), 1_000_000)),
        )


class Real(Table):
    """``[real]``: the program itself, used on machines that have it."""

    command: list[str]
    needs: str


class Pattern(Table):
    """``[pattern]`` or ``[model]``: accesses made by mempat."""

    file: str
    rate: int
    repeats: int = 1
    once: int = 0


class Model(Pattern):
    """``[model]``: a pattern that stands for the real program, smaller and shorter."""

    time_scale: int
    memory_scale: int


class WorkloadFile(Table):
    """A whole workload file."""

    description: str
    tune: Tune = Tune()
    real: Real | None = None
    pattern: Pattern | None = None
    model: Model | None = None

    @model_validator(mode="after")
    def _something_runs(self) -> WorkloadFile:
        if (self.pattern is None) == (self.real is None):
            raise ValueError(
                "a workload file has either [pattern] or [real] (with a [model] beside it, if there is one)"
            )
        return self


def names() -> list[str]:
    """Workloads that come with damoos."""
    base = places.data("workloads")
    return sorted(str(path.relative_to(base).with_suffix("")) for path in base.glob("*/*.toml"))


def find(name: str) -> tuple[Path, WorkloadFile]:
    """A workload file by its short name or path.

    Raises
    ------
    ConfigError : no such workload, or its file is wrong
    """
    path = Path(name) if name.endswith(".toml") else places.data("workloads") / f"{name}.toml"
    if not path.is_file():
        raise ConfigError(f"unknown workload '{name}'{nearest(name, names())}")
    return path, tomlfile.load(path, WorkloadFile)


def workload(name: str, which: Which, require_real: bool = False) -> Workload:
    """The variant of a workload that a machine can run.

    Parameters
    ----------
    name : str
        Short name or path of a file.
    which : callable
        Finds a program on the machine.
    require_real : bool
        Refuse a model.

    Raises
    ------
    UnsupportedError : the machine lacks the real program and there is no model, or it is refused
    """
    path, file = find(name)
    short = name if not name.endswith(".toml") else path.stem
    if file.pattern:
        return _pattern(short, path, file.pattern, file.tune.tuning())
    assert file.real is not None
    if which(file.real.needs):
        return CommandWorkload(short, file.real.command, file.tune.tuning())
    lacks = f"'{file.real.needs}' of {short} is not installed on the machine"
    if require_real or file.model is None:
        raise UnsupportedError(f"{lacks}, and {'a model was refused' if file.model else 'there is no model of it'}")
    model = file.model
    note = (
        f"{lacks}: an access-pattern MODEL of it runs, time scaled 1/{model.time_scale}, memory 1/{model.memory_scale}"
    )
    runs = _pattern(short, path, model, file.tune.tuning(model.time_scale))
    runs.variant, runs.note = "model", note
    return runs


def _pattern(name: str, path: Path, table: Pattern, tuning: Tuning) -> PatternWorkload:
    pattern = path.parent / table.file
    if not pattern.is_file():
        raise ConfigError(f"{path}: pattern file {pattern} does not exist")
    return PatternWorkload(name, mempat(), pattern, table.rate, table.repeats, table.once, tuning)


def mempat() -> Path:
    """The access program, built by ``make build``."""
    path = places.data("build") / "mempat"
    if not path.is_file():
        raise ConfigError(f"{path} is not built; run 'make build'")
    return path


def command(text: str, tuning: Tuning) -> Workload:
    """A workload from the words of ``--command``; they never reach a shell."""
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--command '{text}': {error}") from None
    if not argv:
        raise ConfigError("--command is empty")
    return CommandWorkload(Path(argv[0]).name, argv, replace(tuning))
