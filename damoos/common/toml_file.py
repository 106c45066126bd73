"""TOML files checked by a Pydantic model, with errors of one line that name file, key and nearest valid word."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from damoos.common import user_file
from damoos.errors import ConfigError, nearest


class Table(BaseModel):
    """A TOML table: frozen, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_T = TypeVar("_T", bound=Table)


def load(path: Path, model: type[_T]) -> _T:
    """Read a file into its model.

    Raises
    ------
    ConfigError : unreadable, not TOML, an unknown key, a value of the wrong kind
    """
    try:
        content = tomllib.loads(user_file.read_text(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first_problem(error, model)}") from None


def _first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    # A word that nobody knows is told before one that is missing: it is most often the same word.
    problem = min(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown key '{where}'{nearest(str(problem['loc'][-1]), _keys(model, problem['loc'][:-1]))}"
    if problem["type"] == "missing":
        return f"key '{where}' is missing"
    said, given = problem["msg"].removeprefix("Value error, "), problem["input"]
    if problem["type"] != "value_error" and isinstance(given, str | int | float):
        said = f"{said.removeprefix('Input ')}, and is {given!r}"
    return f"key '{where}': {said}" if where else said


def _keys(model: type[BaseModel], where: tuple[int | str, ...]) -> list[str]:
    """Valid keys of the table at a place, found by walking the models' annotations."""
    for part in where:
        if part not in model.model_fields:
            continue  # an entry of a list, or a key that the user has chosen
        annotation = model.model_fields[str(part)].annotation
        arguments = getattr(annotation, "__args__", (annotation,))
        tables = [argument for argument in arguments if isinstance(argument, type) and issubclass(argument, BaseModel)]
        if not tables:
            return []
        model = tables[0]
    return [field.alias or name for name, field in model.model_fields.items()]
