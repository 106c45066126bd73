"""NumPy docstrings, as far as the reference of files needs them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Described:
    """A parameter: its type with its unit, and what it means."""

    kind: str
    means: str


def head(docstring: str) -> str:
    """What stands before the first section."""
    return re.split(r"\n\s*\w+\n\s*-+\n", docstring)[0].strip()


def parameters(docstring: str) -> dict[str, Described]:
    """The section ``Parameters``, by name; those that share a line share what it says."""
    section = re.search(r"\n *Parameters\n *-+\n(.*?)(?=\n *\w+\n *-+\n|\Z)", docstring, re.DOTALL)
    found: dict[str, Described] = {}
    for entry in re.split(r"\n(?=\S)", _dedented(section[1])) if section else ():
        line, _, rest = entry.partition("\n")
        names, _, kind = line.partition(" : ")
        for name in names.split(", "):
            found[name] = Described(kind, " ".join(rest.split()))
    return found


def _dedented(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[margin:] for line in lines)
