"""What people say to the functions of Python, checked, and as fields of studies."""

from __future__ import annotations

import functools
import inspect
import os
import re
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import pydantic

from damoos import scorers
from damoos.common.own_file import check_place
from damoos.errors import ConfigError, nearest
from damoos.policies.documents import scheme_text
from damoos.study.config import PRCL, StudyConfig
from damoos.units import format_us, of_option, parse_percent, parse_time
from damoos.words import EMPTY, Words, declared, shared
from damoos.words.studies import LEAST_TRIALS, TRIALS, RunWords, ScoreWords, SweepWords, TuneWords
from damoos.workloads import catalog

_P = ParamSpec("_P")
_R = TypeVar("_R")
_W = TypeVar("_W", bound=Words)
# Words that name something, as functions call them.
_NAMING = frozenset(
    ("study", "name", "machine", "machines", "guest", "on", "ray", "storage", "results", "workload", "kernel")
)
_ANY_TYPE = pydantic.ConfigDict(arbitrary_types_allowed=True)


def takes(kind: Callable[_P, _W]) -> Callable[[Callable[[_W], _R]], Callable[_P, _R]]:
    """Make a function of named parameters of one that is given its words as one object.

    Wrong words are refused as by `checked`. The signature and the docstring have the words' declarations.
    """

    def made(function: Callable[[_W], _R]) -> Callable[_P, _R]:
        name, signature = function.__name__, inspect.signature(kind)
        hints = typing.get_type_hints(kind)
        places = {field.name: field.default for field, one in declared(cast(type[Words], kind)) if one.is_place}

        @functools.cache
        def adapter() -> pydantic.TypeAdapter[_W]:
            return pydantic.TypeAdapter(cast("type[_W]", kind))

        @functools.wraps(function)
        def call(*words: _P.args, **named: _P.kwargs) -> _R:
            given = _bound(name, signature, words, named).arguments
            for place, default in places.items():
                if isinstance(folder := given.get(place, default), str | os.PathLike):
                    check_place(Path(folder))
            try:
                said = adapter().validate_python(given)
            except pydantic.ValidationError as error:
                raise _refused(name, error, list(signature.parameters)) from None
            return function(said)

        del call.__wrapped__  # type: ignore[attr-defined]
        order = [field.name for field, _ in declared(cast(type[Words], kind))]
        made_of = sorted(
            (one.replace(annotation=hints[one.name]) for one in signature.parameters.values()),
            key=lambda one: (one.kind, one.kind is one.KEYWORD_ONLY and order.index(one.name)),
        )
        returned = inspect.signature(function).return_annotation
        call.__signature__ = signature.replace(parameters=made_of, return_annotation=returned)  # type: ignore[attr-defined]
        call.__doc__ = _documented(inspect.getdoc(function) or "", kind, hints)
        return call

    return made


def _documented(text: str, kind: Any, hints: Mapping[str, Any]) -> str:
    """A docstring with the words among its parameters, before what the function returns."""
    options = {said.option: field.name for field, said in declared(kind)}
    lines = ["Parameters", "----------"]
    for field, said in declared(kind):
        help = re.sub(r"--[a-z-]+", lambda found: f"``{options.get(found[0], found[0])}``", said.help)
        lines += [f"{field.name} : {_type_name(hints[field.name])}", f"    {help}"]
    before, heading, after = text.partition("Returns\n-------")
    return "\n".join([before.rstrip(), "", *lines, "", heading + after])


def _type_name(kind: Any) -> str:
    """A type as the docstrings of the project have it."""
    name = kind.__name__ if isinstance(kind, type) else str(kind)
    for module in ("collections.abc.", "typing.", "pathlib."):
        name = name.replace(module, "")
    name = re.sub(r"Sequence\[(\w+)\]", r"sequence of \1", re.sub(r"damoos[\w.]*\.", "", name))
    name = re.sub(r"Callable\[.*\]", "callable", re.sub(r"Mapping\[.*\]", "mapping", name))
    return name.replace(" | ", " or ")


def _check_named(given: Mapping[str, object]) -> None:
    """Refuse an empty name: it would be taken for one that is not given, and damoos would choose itself.

    Raises
    ------
    ConfigError : a name is empty
    """
    for name, value in given.items():
        if name in _NAMING and isinstance(value, str) and not value.strip():
            raise ConfigError(EMPTY.format(name))


def _bound(
    name: str, signature: inspect.Signature, words: tuple[Any, ...], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The words of a call by their names.

    Raises
    ------
    ConfigError : the function has no such parameter, or lacks one
    """
    known = signature.parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for word in named:
        if word not in known and not takes_any:
            raise ConfigError(f"{name}() has no parameter '{word}'{nearest(word, known)}")
    try:
        return signature.bind(*words, **named)
    except TypeError as error:
        raise ConfigError(f"{name}(): {error}") from None


def _refused(name: str, error: pydantic.ValidationError, known: list[str]) -> ConfigError:
    """What is wrong with a value, in one line."""
    problem = error.errors()[0]
    at, *within = problem["loc"]
    where = ".".join(map(str, (known[at] if isinstance(at, int) else at, *within)))
    given = problem["input"]
    said = f"{problem['msg'].removeprefix('Input ')}, and is {given!r}"
    if problem["type"] == "sequence_str":
        said = f"is a list: [{given!r}]"
    return ConfigError(f"{name}(): {where} {said}")


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have wrong words refused in one line: a name that a function has no parameter of, a value of the wrong kind.

    Raises
    ------
    ConfigError : from the function that it makes; names the parameter, the nearest valid one, and the value; or a name
        is empty
    StoreError : from it, too: its results folder is another user's
    """
    name, signature = function.__name__, inspect.signature(function)
    validated = pydantic.validate_call(config=_ANY_TYPE)(function)

    @functools.wraps(function)
    def call(*words: _P.args, **named: _P.kwargs) -> _R:
        bound = _bound(name, signature, words, named)
        bound.apply_defaults()
        _check_named(bound.arguments)
        if isinstance(results := bound.arguments.get("results"), str | os.PathLike):
            check_place(Path(results))
        try:
            return validated(*words, **named)
        except pydantic.ValidationError as error:
            if error.title != name:  # of something else, within it
                raise
            raise _refused(name, error, list(signature.parameters)) from None

    return call


def study_fields(said: TuneWords | SweepWords) -> dict[str, Any]:
    """Fields of `StudyConfig`: the words that it has, too, and what it makes of the others.

    Raises
    ------
    ConfigError : a scheme's file or the file of prices cannot be read
    """
    pid = said.pid if isinstance(said, TuneWords) else None
    more = {"scheme": PRCL if said.scheme is None else scheme_text(said.scheme)}
    return {**shared(said, StudyConfig), **more, **scoring(said, pid), **run_fields(said)}


def scoring(said: ScoreWords, pid: int | None = None) -> dict[str, Any]:
    """Fields of the score: its name, and those of its options that are given."""
    given = {name: _plain(value) for name, value in shared(said, ScoreWords).items() if value and name != "score"}
    given |= getattr(said, "score_options", None) or {}
    score = said.score
    if score is None:
        score = "daos" if pid is None else "sla" if "limits" in given else "psi"
    return {"scorer": scorers.absolute(score), "scorer_options": scorers.resolved(score, given)}


def run_fields(said: RunWords) -> dict[str, Any]:
    """Fields of what a run may take."""
    return {} if said.run_limit is None else {"run_limit_s": positive_s(said.run_limit, "--run-limit")}


def timing(said: TuneWords) -> dict[str, Any]:
    """Fields of times, and the number of trials."""
    fields: dict[str, Any] = {"nr_samples": _nr_trials(said)}
    if said.settle is not None:
        fields["settle_s"] = _s(said.settle, "--settle")
    if said.pid is not None and said.unit_work is not None:
        fields["unit_work_s"] = _s(said.unit_work, "--unit-work")
    return fields


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


def _nr_trials(said: TuneWords) -> int:
    """``nr_samples``: given, or time limit / unit work time (DAOS paper, section 3.5)."""
    if said.time_limit is None:
        return TRIALS if said.trials is None else said.trials
    if said.trials is not None:
        raise ConfigError("give either --trials or --time-limit")
    unit_work = said.unit_work
    if unit_work is None:
        if said.workload is None:
            raise ConfigError("--time-limit with --command or --pid needs --unit-work")
        unit_work = catalog.find(said.workload)[1].tune.unit_work
    work_us = of_option(parse_time, unit_work, "--unit-work")
    if work_us == 0:
        raise ConfigError("--unit-work must be more than 0")
    count = of_option(parse_time, said.time_limit, "--time-limit") // work_us
    if count < LEAST_TRIALS:
        raise ConfigError(
            f"--time-limit {said.time_limit}: too short for {LEAST_TRIALS} trials of {format_us(work_us)}; give"
            f" {format_us(LEAST_TRIALS * work_us)} or more"
        )
    return count


def _plain(value: Any) -> Any:
    """The value in the form in which it is stored."""
    if isinstance(value, Mapping):
        return dict(value)
    return value if isinstance(value, str) else list(value)
