"""How words of QEMU's command line are written."""

from __future__ import annotations

from pathlib import Path


def value(path: Path) -> str:
    """A path as the value of one of several settings in a word, where a single comma would end it."""
    return str(path).replace(",", ",,")
