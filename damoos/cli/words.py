"""Options and arguments of commands, made of the declarations of their words (`damoos.words`)."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from typing import Annotated, Any, TypeVar

import typer

from damoos.cli import complete
from damoos.cli.common import comma_separated, own_results
from damoos.errors import ConfigError
from damoos.words import Word, Words, declared

_W = TypeVar("_W", bound=Words)
# The argument that can stand in the place of an option.
NAMED = "named"


def takes(kind: type[_W]) -> Callable[[Callable[[_W], None]], Callable[..., None]]:
    """Make a command of a function that is given its words as one object."""

    def made(function: Callable[[_W], None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(context: typer.Context, **given: Any) -> None:
            function(_read(kind, given, context))

        params = [_context(), *_params(kind)]
        # Typer looks at both.
        command.__signature__ = inspect.Signature(params)  # type: ignore[attr-defined]
        command.__annotations__ = {param.name: param.annotation for param in params}
        del command.__wrapped__  # type: ignore[attr-defined]
        return command

    return made


def _params(kind: type[Words]) -> list[inspect.Parameter]:
    types = typing.get_type_hints(kind)
    params = []
    for field, said in declared(kind):
        if said.section:
            if said.argument:
                params.append(_param(NAMED, str | None, None, _argument(said)))
            params.append(_param(field.name, *_told(types[field.name], field.default, said), _option(said)))
    return params


def _context() -> inspect.Parameter:
    """What Typer gives the context of a command."""
    return inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)


def _param(name: str, kind: Any, default: Any, about: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about])


def _is_sequence(kind: Any) -> bool:
    return any(typing.get_origin(one) is Sequence for one in (kind, *typing.get_args(kind)))


def _told(kind: Any, default: Any, said: Word) -> tuple[Any, Any]:
    """The type and the default that Typer is told."""
    if default is MISSING:
        return str if said.separated else kind, inspect.Parameter.empty
    if not _is_sequence(kind):
        return kind, default
    if said.separated:
        return str | None, ",".join(default or ()) or None
    return list[str] | None, None


def _option(said: Word) -> Any:
    return typer.Option(
        said.option, help=said.help, rich_help_panel=said.section, autocompletion=_completion(said),
        callback=own_results if said.is_place else None,
    )  # fmt: skip


def _argument(said: Word) -> Any:
    return typer.Argument(metavar=said.argument, help=said.help, autocompletion=_completion(said), show_default=False)


def _completion(said: Word) -> complete.Names | None:
    if said.choices:
        return complete.choices(*said.choices)
    if not said.completion:
        return None
    names: complete.Names = getattr(complete, said.completion)
    return complete.several(names) if said.separated else names


def _read(kind: type[_W], given: Mapping[str, Any], context: typer.Context) -> _W:
    """The words that a command line has; what it does not have is as it was declared."""
    values: dict[str, Any] = {}
    for field, said in declared(kind):
        value = given.get(field.name)
        if said.argument and (named := given[NAMED]) is not None:
            if value is not None:
                raise ConfigError(f"two {field.name}s: '{named}' and {said.option} '{value}'; give one of them")
            value = named
        if said.yields_to and given.get(said.yields_to) is not None and not _is_typed(context, field.name):
            value = None
        if said.separated and value is not None:
            value = comma_separated(value, said.option)
        if value is not None:
            values[field.name] = value
    return kind(**values)


def _is_typed(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line itself."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
