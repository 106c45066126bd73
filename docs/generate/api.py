"""The reference of the Python interface, from `damoos.__all__`, with what those functions return and raise."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import damoos
from damoos import errors

# What the functions mean by "further fields": its parameters are of interest, its methods are not.
SETTINGS = "damoos.study.config.StudyConfig"


def page() -> str:
    """Functions, what they return, the classes that people build, what these are made of, pictures."""
    public: dict[str, Any] = {
        name: getattr(damoos, name) for name in sorted(damoos.__all__) if not name.startswith("__")
    }
    functions = {name: one for name, one in public.items() if inspect.isfunction(one)}
    classes = {f"damoos.{name}": one for name, one in public.items() if inspect.isclass(one)}
    plots = [f"damoos.{name}" for name in functions if name.startswith("plot_")]
    returned = _classes((one, inspect.signature(one).return_annotation) for one in functions.values())
    parts = _classes((one, field.type) for one in classes.values() for field in _fields(one))
    own = {*classes.values()}
    sections = {
        "Functions": ("autofunction", [f"damoos.{name}" for name in functions if not name.startswith("plot_")]),
        "Pictures": ("autofunction", plots),
        "What they return": ("autoclass", [name for name, one in returned.items() if one not in own]),
        "Classes": ("autoclass", [*classes]),
        "Their parts": ("autoclass", [name for name, one in parts.items() if one not in own]),
        "Settings": ("autoclass", [SETTINGS]),
        "Errors": ("autoexception", [f"damoos.errors.{name}" for name in _errors()]),
    }
    return "\n".join(
        line for title, (directive, names) in sections.items() for line in _section(title, directive, names)
    )


def _errors() -> list[str]:
    """The names of all errors of damoos, in the order of their file."""
    return [name for name, one in vars(errors).items() if inspect.isclass(one) and issubclass(one, errors.DamoosError)]


def _fields(one: Any) -> tuple[Any, ...]:
    return dataclasses.fields(one) if dataclasses.is_dataclass(one) else ()


def _section(title: str, directive: str, names: list[str]) -> Iterator[str]:
    """A heading for each name, so that it has a place in the contents."""
    yield from (f"## {title}", "") if names else ()
    for name in names:
        yield from (f"### {name.rpartition('.')[2]}", "", "```{eval-rst}", f".. {directive}:: {name}")
        yield from (
            ["   :members:", "   :member-order: bysource"] if directive == "autoclass" and name != SETTINGS else []
        )
        yield from ("```", "")


def _classes(annotated: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """The classes of damoos's own in annotations, by their full names; some are imported for the type checker only."""
    found = {}
    for owner, annotation in annotated:
        module = sys.modules[owner.__module__]
        for word in re.findall(r"\w+", str(annotation)):
            home = re.search(rf"from (damoos[\w.]*) import [^\n]*\b{word}\b", inspect.getsource(module))
            one = getattr(module, word, None) or (getattr(importlib.import_module(home[1]), word) if home else None)
            if inspect.isclass(one) and one.__module__.startswith("damoos."):
                found[f"{one.__module__}.{one.__qualname__}"] = one
    return found
