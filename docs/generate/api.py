"""The reference of the Python interface, from `damoos.__all__`, with what those functions return and raise."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import damoos
from damoos import errors
from generate import docstrings


def page() -> str:
    """The directives by which Sphinx documents everything, for the site."""
    return "\n".join(
        line for title, (directive, names) in _sections().items() for line in _section(title, directive, names)
    )


def markdown() -> str:
    """The same as plain Markdown, for the repository."""
    lines: list[str] = []
    for title, (_, names) in _sections().items():
        lines += [f"## {title}", ""] if names else []
        for name in names:
            lines += _markdown(name, with_members=title != "Errors")
    return "\n".join(lines)


def _markdown(name: str, with_members: bool) -> Iterator[str]:
    home, _, own = name.rpartition(".")
    thing = getattr(importlib.import_module(home), own)
    yield from (f"### {own}", "")
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        call = _call(own, thing)
        if len(call) > 100:
            call = "\n    ".join([f"{own}(", *(f"{word}," for word in _words(thing))]) + "\n)"
        yield from ("```python", call, "```", "")
    yield from docstrings.markdown(inspect.getdoc(thing) or "")
    if inspect.isclass(thing) and with_members:
        members = [*_members(thing)]
        yield from ["It has:", "", *members, ""] if members else []


def _members(kind: type) -> Iterator[str]:
    """A line for each public property and method of a class."""
    for name, member in vars(kind).items():
        said = docstrings.line(inspect.getdoc(getattr(member, "__func__", member)) or "")
        if name.startswith("_") or not said:
            continue
        if isinstance(member, property | cached_property):
            yield f"- `{name}`: {said}"
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            yield f"- `{_call(name, getattr(kind, name))}`: {said}"


def _call(name: str, thing: Any) -> str:
    """What a call may have, without the kinds, which the docstring says."""
    return f"{name}({', '.join(_words(thing))})"


def _words(thing: Any) -> Iterator[str]:
    is_named = False
    for one in inspect.signature(thing).parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        default = "" if one.default is one.empty else f"={_default(one.default)}"
        stars = "**" if one.kind is one.VAR_KEYWORD else "*" if one.kind is one.VAR_POSITIONAL else ""
        yield f"{stars}{one.name}{default}"


def _default(value: Any) -> str:
    """A default as the project's formatter has it; an object of damoos's own is only told to be there."""
    if isinstance(value, Path):
        value = str(value)
    return repr(value).replace("'", '"') if type(value).__module__ == "builtins" else "..."


def _sections() -> dict[str, tuple[str, list[str]]]:
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
    return {
        "Functions": ("autofunction", [f"damoos.{name}" for name in functions if not name.startswith("plot_")]),
        "Pictures": ("autofunction", plots),
        "What they return": ("autoclass", [name for name, one in returned.items() if one not in own]),
        "Classes": ("autoclass", [*classes]),
        "Their parts": ("autoclass", [name for name, one in parts.items() if one not in own]),
        "Errors": ("autoexception", [f"damoos.errors.{name}" for name in _errors()]),
    }


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
        yield from (["   :members:", "   :member-order: bysource"] if directive == "autoclass" else [])
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
