"""NumPy docstrings, as far as the reference needs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def markdown(docstring: str) -> Iterator[str]:
    """A docstring's paragraphs and sections; a section is a list."""
    head, *sections = re.split(r"\n\s*(\w+)\n\s*-{3,}\n", f"{docstring}\n")
    for paragraph in head.strip().split("\n\n"):
        yield from (line(paragraph), "")
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield from (f"{title}:", "")
        for entry in re.split(r"\n(?=\S)", body.strip("\n")):
            first, _, rest = entry.partition("\n")
            names, colon, kind = first.partition(" : ")
            about = line(rest)
            if title in ("Raises", "Returns", "References", "Yields"):
                yield f"- {line(first).replace(' : ', ': ')}" + (f": {about}" if about else "")
            else:
                yield f"- `{names}`" + (f" ({line(kind)})" if colon else "") + (f": {about}" if about else "")
        yield ""


def line(words: str) -> str:
    """Words of a docstring in one line of Markdown: code has one backtick, and a star is a star."""
    text = " ".join(words.split("\n\n")[0].split()) if "\n\n" in words else " ".join(words.split())
    return text.replace("``", "`").replace("**", "\\*\\*").replace("|", "\\|")


def _dedented(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[margin:] for line in lines)
