"""Paths in the folder of a run, as workload files have them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator


def _checked(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(f"'{path}' leads out of the folder in which the program runs; write a path below it")
    if not PurePosixPath(path).parts:
        raise ValueError(f"'{path}' names no file in the folder in which the program runs")
    return path


RunPath = Annotated[str, AfterValidator(_checked)]
"""A path, or a pattern of paths, that does not lead out of that folder."""
