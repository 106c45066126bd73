"""A machine explained to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from damoos.doctor import Finding
from damoos.units import format_bytes


def explanation(about: dict[str, Any]) -> Iterator[str]:
    """Lines about one machine, of what `damoos.machines.explain` says."""
    yield f"{about['name']}: {about['description']}"
    for key, value in about.items():
        if key not in ("name", "description"):
            yield f"  {key.removesuffix('_bytes'):<11} {_words(key, value)}"


def _words(key: str, value: Any) -> str:
    if isinstance(value, dict):
        there = {name: _words(name, part) for name, part in value.items() if part is not None}
        return ", ".join(f"{name.removesuffix('_bytes')} {words}" for name, words in there.items()) or "-"
    if isinstance(value, list):
        return " ".join(value) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "as it is"
    return format_bytes(value) if key.endswith("_bytes") else str(value) or "-"


def findings(found: Sequence[Finding]) -> Iterator[str]:
    """One line for each finding; what there is to do comes after an arrow."""
    for finding in found:
        yield f"{finding.state:<5}  {finding.name:<12} {finding.found}{f' -> {finding.todo}' if finding.todo else ''}"
