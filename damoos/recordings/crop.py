"""Parts of a recording: one target, some of its time, some of its addresses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from damoos.errors import ConfigError
from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Ints, Recording


def targets(recording: Recording) -> list[int]:
    """Numbers of the targets that were seen."""
    numbers: list[int] = np.unique(recording.target).tolist()
    return numbers


@names_damage
def of_target(recording: Recording, target: int) -> Recording:
    """The snapshots of one target.

    Raises
    ------
    ConfigError : there is none of it
    """
    known = targets(recording)
    if target not in known:
        raise ConfigError(f"no target {target} in the recording; it has {', '.join(map(str, known))}")
    return chosen(recording, np.flatnonzero(recording.target == target))


@names_damage
def by_time(recording: Recording, from_s: float, to_s: float) -> Recording:
    """What was seen between two times; a snapshot across one of them stands for the part inside.

    Parameters
    ----------
    from_s, to_s : float, seconds since the recording's start

    Raises
    ------
    ConfigError : nothing was seen between them
    """
    begin, end = recording.span_s
    low, high = begin + from_s, begin + to_s
    inside = (recording.end_s > low) & (recording.start_s < high)
    if not low < high or not inside.any():
        raise ConfigError(f"no snapshot between {from_s:g} s and {to_s:g} s: the recording lasts {end - begin:g} s")
    part = chosen(recording, np.flatnonzero(inside))
    return replace(part, start_s=np.maximum(part.start_s, low), end_s=np.minimum(part.end_s, high))


@names_damage
def by_address(recording: Recording, low: int, high: int) -> Recording:
    """What was seen of the addresses from ``low`` to ``high`` (excluded); regions across one of them are cut.

    Snapshots stay, if need be without a region.

    Raises
    ------
    ConfigError : no region has such an address
    """
    inside = (recording.end > low) & (recording.start < high)
    if not low < high or not inside.any():
        seen = "" if not len(recording.start) else f": they are from {recording.start.min():#x} to {_end(recording)}"
        raise ConfigError(f"no region between the addresses {low:#x} and {high:#x}{seen}")
    return replace(
        recording,
        first=np.concatenate(
            [[0], np.cumsum(np.bincount(recording.snapshot[inside], minlength=recording.nr_snapshots))]
        ),
        start=np.maximum(recording.start[inside], low),
        end=np.minimum(recording.end[inside], high),
        nr_accesses=recording.nr_accesses[inside],
        age=recording.age[inside],
    )


def _end(recording: Recording) -> str:
    return f"{recording.end.max():#x}"


def chosen(recording: Recording, snapshots: Ints) -> Recording:
    """The snapshots that have these indices."""
    counts = recording.nr_regions[snapshots]
    first = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(recording.first[snapshots] - first[:-1], counts) + np.arange(first[-1])
    return replace(
        recording,
        target=recording.target[snapshots],
        start_s=recording.start_s[snapshots],
        end_s=recording.end_s[snapshots],
        first=first,
        start=recording.start[rows],
        end=recording.end[rows],
        nr_accesses=recording.nr_accesses[rows],
        age=recording.age[rows],
    )
