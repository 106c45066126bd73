"""Implementations by their short names: damoos's own and those that installed packages offer as entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from damoos.errors import ConfigError, nearest


def find(group: str, name: str, own: Mapping[str, Any]) -> Any:
    """The implementation of a name.

    Parameters
    ----------
    group : str
        ``searchers``, ``scorers`` or ``machines``: plugins register under ``damoos.<group>``.
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
        raise ConfigError(f"unknown {group.removesuffix('s')} '{name}'{nearest(name, [*own, *offered])}")
    return offered[name].load()
