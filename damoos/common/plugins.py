"""Code of others: by its short name from installed packages, or a function of a Python file."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from damoos.errors import ConfigError, nearest

SINGULAR = {"policies": "policy"}


def find(group: str, name: str, own: Mapping[str, Any]) -> Any:
    """The implementation of a name.

    Parameters
    ----------
    group : str
        ``searchers``, ``scorers``, ``policies`` or ``machines``: plugins register under ``damoos.<group>``.
    own : mapping
        What damoos itself has.

    Raises
    ------
    ConfigError : no such name; the nearest valid one is named
    """
    if name in own:
        return own[name]
    offered = {point.name: point for point in entry_points(group=f"damoos.{group}")}
    if name not in offered:
        raise ConfigError(
            f"unknown {SINGULAR.get(group, group.removesuffix('s'))} '{name}'{nearest(name, [*own, *offered])}"
        )
    return offered[name].load()


def python_file(file: Path, what: str) -> ModuleType:
    """The module that a file of the user's is.

    Parameters
    ----------
    what : str
        What the messages begin with, such as ``score mine.py``.

    Raises
    ------
    ConfigError : there is no such file, or it fails
    """
    if not file.is_file():
        raise ConfigError(f"{what}: there is no such file")
    spec = importlib.util.spec_from_file_location(f"damoos_user_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's code raises
        raise ConfigError(f"{what}: {type(error).__name__}: {error}") from None
    return module


def function_of(module: ModuleType, name: str, what: str) -> Callable[..., Any]:
    """A function of a module, by its name.

    Raises
    ------
    ConfigError : there is none of that name; the nearest one is named
    """
    function = getattr(module, name, None)
    if not callable(function):
        known = [word for word, value in vars(module).items() if callable(value) and not word.startswith("_")]
        raise ConfigError(f"{what}: there is no function '{name}'{nearest(name, known)}")
    return function  # type: ignore[no-any-return]
