"""The part of a target's addresses that is worth a picture.

A process has gaps of terabytes between heap, mapped files and stack; drawn to scale, the rest would be invisible. The
DAOS paper drew "the biggest subspace of each workload that shows active access patterns" (section 4.1); here it is
found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from damoos.errors import MeasurementError
from damoos.recordings.crop import chosen, of_target
from damoos.recordings.recording import Floats, Ints, Recording
from damoos.recordings.targets import snapshots_by_target


@dataclass(frozen=True)
class Subspace:
    """Addresses of one target from ``low`` to ``high`` (excluded), and how much of them was accessed for how long."""

    target: int
    low: int
    high: int
    accessed_byte_s: float

    @property
    def sz_bytes(self) -> int:
        """Its length, gaps included."""
        return self.high - self.low


def accessed_byte_s(recording: Recording) -> Floats:
    """Each region's size, times its access frequency, times the time that its snapshot stands for."""
    return np.asarray(recording.sz_bytes * recording.frequency * recording.weight_s[recording.snapshot])


def subspaces(recording: Recording, target: int, gap_bytes: int | None = None) -> list[Subspace]:
    """The contiguous parts of a target's addresses, in their order.

    Parameters
    ----------
    gap_bytes : int or None
        A wider gap parts two of them. None for the size of all regions together, so that a picture of one part is
        never mostly gap.

    Raises
    ------
    ConfigError : no such target
    """
    return _of_one(of_target(recording, target), target, gap_bytes)


def _of_one(mine: Recording, target: int, gap_bytes: int | None) -> list[Subspace]:
    """`subspaces` of a recording that has no other target."""
    if not len(mine.start):
        return []
    low, high = _covered(mine.start, mine.end)
    if gap_bytes is None:
        gap_bytes = int((high - low).sum())
    cuts = np.flatnonzero(low[1:] - high[:-1] > gap_bytes)
    lows, highs = low[np.concatenate([[0], cuts + 1])], high[np.concatenate([cuts, [-1]])]
    part = np.searchsorted(lows, mine.start, side="right") - 1
    accessed = np.bincount(part, weights=accessed_byte_s(mine), minlength=len(lows))
    return [Subspace(target, *edges) for edges in zip(lows.tolist(), highs.tolist(), accessed.tolist(), strict=True)]


def most_active(recording: Recording, target: int | None = None, gap_bytes: int | None = None) -> Subspace:
    """The subspace that was accessed most, without the far idle ends that programs reserve and never touch.

    Parameters
    ----------
    target : int or None
        None for the best of all targets.

    Raises
    ------
    ConfigError : no such target
    MeasurementError : no snapshot has a region
    """
    if target is None:
        parts = ((number, chosen(recording, own)) for number, own in snapshots_by_target(recording.target))
        all_subspaces = [subspace for number, part in parts for subspace in _of_one(part, number, gap_bytes)]
    else:
        all_subspaces = subspaces(recording, target, gap_bytes)
    if not all_subspaces:
        raise MeasurementError("no snapshot of the recording has a region")
    best = max(all_subspaces, key=lambda subspace: (subspace.accessed_byte_s, subspace.sz_bytes))
    return _without_far_ends(recording, best)


def _without_far_ends(recording: Recording, whole: Subspace) -> Subspace:
    """Keep beside what was ever accessed at most as much again on either side."""
    touched = (recording.target[recording.snapshot] == whole.target) & (recording.nr_accesses > 0)
    touched &= (recording.start >= whole.low) & (recording.end <= whole.high)
    if not touched.any():
        return whole
    low, high = int(recording.start[touched].min()), int(recording.end[touched].max())
    margin = high - low
    return Subspace(whole.target, max(whole.low, low - margin), min(whole.high, high + margin), whole.accessed_byte_s)


def _covered(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of intervals: lows and highs of its parts."""
    order = np.argsort(start, kind="stable")
    start, highest = start[order], np.maximum.accumulate(end[order])
    begins = np.concatenate([[True], start[1:] > highest[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    return start[begins], highest[ends]
