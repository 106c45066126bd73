"""The reference of the Python interface, from `damoos.__all__`: what is public is in it, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import damoos


def page() -> str:
    """Functions, the classes that they return, the classes to build schemes and spaces of, pictures."""
    public = {name: getattr(damoos, name) for name in sorted(damoos.__all__) if not name.startswith("__")}
    functions = [name for name, one in public.items() if inspect.isfunction(one)]
    plots = [name for name in functions if name.startswith("plot_")]
    returned = {f"{one.__module__}.{one.__qualname__}": one for name in functions for one in _returned(public[name])}
    classes = [f"damoos.{name}" for name, one in public.items() if inspect.isclass(one)]
    own = {public[name.removeprefix("damoos.")] for name in classes}
    lines = ["## Functions", "", *_all("autofunction", (f"damoos.{name}" for name in functions if name not in plots))]
    lines += [
        "## What they return",
        "",
        *_all("autoclass", (where for where, one in returned.items() if one not in own)),
    ]
    lines += ["## Classes", "", *_all("autoclass", classes)]
    if plots:
        lines += ["## Pictures", "", *_all("autofunction", (f"damoos.{name}" for name in plots))]
    return "\n".join(lines)


def _all(directive: str, names: Any) -> Iterator[str]:
    """A section for each, so that it has a place in the contents."""
    for name in names:
        short = name.rpartition(".")[2]
        yield from (f"### {short}", "", "```{eval-rst}", f".. {directive}:: {name}")
        yield from (["   :members:", "   :member-order: bysource"] if directive == "autoclass" else [])
        yield from ("```", "")


def _returned(function: Any) -> Iterator[Any]:
    """The classes of damoos's own in a function's return annotation, which may be imported for checking only."""
    module = sys.modules[function.__module__]
    for word in re.findall(r"\w+", str(inspect.signature(function).return_annotation)):
        home = re.search(rf"from (damoos[\w.]*) import [^\n]*\b{word}\b", inspect.getsource(module))
        one = getattr(module, word, None) or (getattr(importlib.import_module(home[1]), word) if home else None)
        if inspect.isclass(one) and one.__module__.startswith("damoos."):
            yield one
