"""TOML files checked by a Pydantic model, with errors of one line that name file, key and nearest valid word."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from damoos.common import user_file
from damoos.errors import ConfigError, nearest

# Parsing takes the square of them, which are few in every file of damoos's.
_MOST_PARTS = 20
_MOST_CHARS = 200
_LONG_KEY = re.compile(rf"""(?<![\w"'.-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}""")


class Table(BaseModel):
    """A TOML table: frozen; a key that it does not know is an error, and so is a number that is not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number_where_one_is_wanted(cls, value: object, info: ValidationInfo) -> object:
        """Pydantic takes ``"2"`` and ``true`` for numbers; nobody means that."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        kinds = {annotation, *getattr(annotation, "__args__", ())}
        if kinds & {int, float} and isinstance(value, bool | str) and type(value) not in kinds:
            raise ValueError(f"should be a number, and is {value!r}"[:_MOST_CHARS])
        return value


_T = TypeVar("_T", bound=Table)


def load(path: Path, model: type[_T], opener: user_file.Opener | None = None) -> _T:
    """Read a file into its model.

    Parameters
    ----------
    opener : callable or None
        Returns the descriptor that is read; None opens the path.

    Raises
    ------
    ConfigError : unreadable, not TOML, an unknown key, a value of the wrong kind
    """
    try:
        content = _parsed(user_file.read_text(path, opener=opener))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{path}: {problem(error, model, content)}") from None


def _parsed(text: str) -> dict[str, object]:
    """Content of a TOML file whose values can be used.

    Raises
    ------
    ValueError, RecursionError : it is not TOML, or has a value that no key takes
    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"a key of more than {_MOST_PARTS} parts (at line {line})")
    content = tomllib.loads(text)
    _check(content)
    return content


def _check(value: object) -> None:
    """Refuse what no path and no number of a kernel can be."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check(key)
            _check(inner)
    elif isinstance(value, list):
        for inner in value:
            _check(inner)
    elif isinstance(value, str) and "\0" in value:
        raise ValueError("a string with a NUL character")
    elif isinstance(value, int) and value.bit_length() > 64:
        raise ValueError("an integer of more than 64 bits")


def problem(error: ValidationError, model: type[BaseModel] | None = None, content: object = None) -> str:
    """The first problem that Pydantic has found, in one line: the key, and what is wrong with it.

    Parameters
    ----------
    model : type or None
        Knows the valid words that may be near an unknown one.
    content : object
        What the file has, by which keys are told as they are written there; None for as Pydantic tells them.
    """
    # A word that nobody knows is told before one that is missing: it is most often the same word.
    first = min(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    where = ".".join(map(str, first["loc"] if content is None else _as_written(first["loc"], content)))
    if first["type"] == "extra_forbidden":
        known = _keys(model, first["loc"][:-1]) if model else []
        return f"unknown key '{where}'{nearest(str(first['loc'][-1]), known)}"
    if first["type"] in ("missing", "missing_argument"):
        return f"key '{where}' is missing"
    said, given = first["msg"].removeprefix("Value error, "), first["input"]
    if first["type"] != "value_error" and isinstance(given, str | int | float):
        said = f"{said.removeprefix('Input ')}, and is {repr(given)[:200]}"
    return f"key '{where}': {said}" if where else said


def _as_written(where: tuple[int | str, ...], content: object) -> list[int | str]:
    """The parts of a key that a file has: ``real.load`` of ``[real.load]``, ``real.1.load`` of the second ``[[real]]``.

    A model may put a table that stands alone into a list, or words into a table; nobody has written those parts.
    """
    written: list[int | str] = []
    for nth, part in enumerate(where):
        if isinstance(content, dict) and part in content:
            written.append(part)
            content = content[part]
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            if len(content) > 1 or not isinstance(content[part], dict):  # the only one of [[real]] needs no number
                written.append(part)
            content = content[part]
        elif isinstance(content, dict) and isinstance(part, str) and nth == len(where) - 1:
            written.append(part)  # it is missing
    return written


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
