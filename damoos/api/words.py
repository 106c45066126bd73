"""What people say to damoos, the same words in Python as on the command line, as fields of studies."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pydantic

from damoos import scorers
from damoos.common.named import check_named
from damoos.common.own_file import check_place
from damoos.errors import ConfigError, nearest
from damoos.policies.documents import scheme_text
from damoos.study.config import PRCL
from damoos.units import of_option, parse_percent, parse_time
from damoos.workloads import catalog

_P = ParamSpec("_P")
_R = TypeVar("_R")
TRIALS = 10
_OPTIONS = ("maximize", "minimize", "limits", "weights", "prices")


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have wrong words refused in one line: a name that a function has no parameter of, a value of the wrong kind.

    Raises
    ------
    ConfigError : from the function that it makes; names the parameter, the nearest valid one, and the value; or a name
        is empty
    StoreError : from it, too: its results folder is another user's
    """
    signature = inspect.signature(function)
    known = signature.parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    validated = pydantic.validate_call(config=pydantic.ConfigDict(arbitrary_types_allowed=True))(function)

    @functools.wraps(function)
    def call(*words: _P.args, **named: _P.kwargs) -> _R:
        for name in named:
            if name not in known and not takes_any:
                raise ConfigError(f"{function.__name__}() has no parameter '{name}'{nearest(name, known)}")
        try:
            bound = signature.bind(*words, **named)
        except TypeError as error:
            raise ConfigError(f"{function.__name__}(): {error}") from None
        bound.apply_defaults()
        check_named(bound.arguments)
        if isinstance(results := bound.arguments.get("results"), str | os.PathLike):
            check_place(Path(results))
        try:
            return validated(*words, **named)
        except pydantic.ValidationError as error:
            if error.title != function.__name__:  # of something else, within it
                raise
            problem = error.errors()[0]
            at, *within = problem["loc"]
            where = ".".join(map(str, (list(known)[at] if isinstance(at, int) else at, *within)))
            given = problem["input"]
            said = f"{problem['msg'].removeprefix('Input ')}, and is {given!r}"
            if problem["type"] == "sequence_str":
                said = f"is a list: [{given!r}]"
            raise ConfigError(f"{function.__name__}(): {where} {said}") from None

    return call


def scoring(
    score: str | None = None, pid: int | None = None, more: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Fields of the score: its name, and those of its options that are given.

    Parameters
    ----------
    score : str or None
        Name, ``FILE.py:FUNCTION`` or program; None for ``daos``, and for a running process for ``sla`` where there are
        limits, else ``psi``.
    more : mapping or None
        Further options, of a plugin.
    **options
        ``maximize``, ``minimize``, ``limits``, ``weights``, ``prices``.

    Raises
    ------
    ConfigError : the file of prices cannot be read
    """
    assert set(options) <= set(_OPTIONS), options
    given = {name: _plain(value) for name, value in options.items() if value} | dict(more or {})
    if score is None:
        score = "daos" if pid is None else "sla" if "limits" in given else "psi"
    return {"scorer": scorers.absolute(score), "scorer_options": scorers.resolved(score, given)}


def timing(
    *,
    workload: str | None = None,
    pid: int | None = None,
    trials: int | None = None,
    time_limit: str | None = None,
    unit_work: str | None = None,
    run_limit: str | None = None,
    settle: str | None = None,
) -> dict[str, Any]:
    """Fields of times and of the number of trials; times are text with a unit, such as ``5m``."""
    fields: dict[str, Any] = {"nr_samples": _nr_trials(workload, trials, time_limit, unit_work)}
    if run_limit is not None:
        fields["run_limit_s"] = positive_s(run_limit, "--run-limit")
    if settle is not None:
        fields["settle_s"] = _s(settle, "--settle")
    if pid is not None and unit_work is not None:
        fields["unit_work_s"] = _s(unit_work, "--unit-work")
    return fields


def scheme(words: str | None) -> str:
    """Scheme text, the content of a scheme file, or ``prcl`` where nothing is given."""
    return PRCL if words is None else scheme_text(words)


def _s(words: str, option: str) -> float:
    return of_option(parse_time, words, option) / 1e6


def positive_s(words: str, option: str) -> float:
    """A time of an option, in seconds; not 0."""
    if not (found_s := _s(words, option)):
        raise ConfigError(f"{option}: '{words}' is not above 0")
    return found_s


def share(words: str, option: str) -> float:
    """A share of an option that is written as a percentage."""
    return float(of_option(parse_percent, words, option) / 100)


def _nr_trials(workload: str | None, trials: int | None, time_limit: str | None, unit_work: str | None) -> int:
    """``nr_samples``: given, or time limit / unit work time (DAOS paper, section 3.5)."""
    if time_limit is None:
        return TRIALS if trials is None else trials
    if trials is not None:
        raise ConfigError("give either --trials or --time-limit")
    if unit_work is None:
        if workload is None:
            raise ConfigError("--time-limit with --command or --pid needs --unit-work")
        unit_work = catalog.find(workload)[1].tune.unit_work
    work_us = of_option(parse_time, unit_work, "--unit-work")
    if work_us == 0:
        raise ConfigError("--unit-work must be more than 0")
    return of_option(parse_time, time_limit, "--time-limit") // work_us


def _plain(value: Any) -> Any:
    """The value in the form in which it is stored."""
    if isinstance(value, Mapping):
        return dict(value)
    return value if isinstance(value, str) else list(value)
