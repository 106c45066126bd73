"""What became of tiers of memory in an evaluation: where accesses fell, what moved, and the modelled time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from damoos.report.tables import ratio
from damoos.units import show_bytes

_PAGE = 4096
COLUMNS = (
    "fast hits",
    "promoted",
    "demoted",
    "moved in all",
    "modelled time",
    "modelled speedup",
    "all fast",
    "all slow",
)
"""Of `cells`. Fast hits are of accesses that the modelled cache did not hold; what moved is of a run."""
NOTE = (
    "memory tiers (modelled: the guest's time, and its node's latency for each access that a modelled cache does not"
    " hold; all fast and all slow: the same run with the latency of one node for all)"
)


def _moved(quantity: Mapping[str, Any]) -> str:
    return show_bytes(quantity["mean"] * _PAGE)


def _seconds(quantity: Mapping[str, Any]) -> str:
    return f"{quantity['mean']:.2f} s"


_OF: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("fast_hits", lambda quantity: f"{quantity['mean']:.1%}"),
    ("pages_promoted", _moved),
    ("pages_demoted", _moved),
    ("pages_migrated", _moved),
    ("modelled_s", _seconds),
    ("modelled_speedup", ratio),
    ("modelled_all_fast_s", _seconds),
    ("modelled_all_slow_s", _seconds),
)


def cells(results: Sequence[Mapping[str, Any]], name: Callable[[Mapping[str, Any]], str]) -> list[tuple[str, ...]]:
    """Workload, configuration and `COLUMNS` of each configuration whose time is modelled; a dash is not known.

    Parameters
    ----------
    name : callable
        What a result's workload is called.
    """
    return [
        (name(result), config, *(show(told[key]) if key in told else "-" for key, show in _OF))
        for result in results
        for config, about in result["configs"].items()
        if "modelled_s" in (told := about["quantities"])
    ]
