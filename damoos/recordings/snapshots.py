"""From the snapshots that a file has to a `Recording`: order, targets, what is missing, what cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from damoos.damon.attrs import Attrs
from damoos.recordings.recording import Floats, Ints, Recording
from damoos.recordings.targets import MOST_TARGETS

# Virtual addresses of 64-bit programs (stack, mmap) lie above; no machine has as much physical memory.
_VIRTUAL = 1 << 46
NS = 10**9


@dataclass
class Shot:
    """One snapshot, with the words of its file for its target; times in nanoseconds."""

    target: Any
    start_ns: int | None
    end_ns: int
    start: Ints
    end: Ints
    nr_accesses: Ints
    age: Ints


def assemble(shots: Sequence[Shot], attrs: Attrs, about: Mapping[str, Any], operations: str | None) -> Recording:
    """The recording of some snapshots.

    Parameters
    ----------
    shots : sequence of Shot
        Each target's in their order; a start that is None is the end of the target's snapshot before.
    operations : str or None
        None, if the file does not say, for what the addresses look like.

    Raises
    ------
    ValueError : there is none, or a time or a region that cannot be
    """
    if not shots:
        raise ValueError("it holds no snapshot")
    _add_starts(shots, attrs)
    numbers: dict[Any, int] = {}
    for shot in shots:
        numbers.setdefault(shot.target, len(numbers))
    ordered = sorted(shots, key=lambda shot: (shot.end_ns, numbers[shot.target]))
    for number, shot in enumerate(ordered):
        _check(number, shot)
    start, end = _joined([shot.start for shot in ordered]), _joined([shot.end for shot in ordered])
    if operations is None:
        virtual = len(numbers) > 1 or (len(end) > 0 and int(end.max()) > _VIRTUAL)
        operations = "vaddr" if virtual else "paddr"
    recording = Recording(
        operations=operations,
        attrs=attrs,
        target=np.array([numbers[shot.target] for shot in ordered], dtype=np.int64),
        start_s=_seconds([shot.start_ns for shot in ordered if shot.start_ns is not None]),
        end_s=_seconds([shot.end_ns for shot in ordered]),
        first=np.concatenate([[0], np.cumsum([len(shot.start) for shot in ordered])]).astype(np.int64),
        start=start,
        end=end,
        nr_accesses=_joined([shot.nr_accesses for shot in ordered]),
        age=_joined([shot.age for shot in ordered]),
        about=about,
    )
    check(recording)
    return recording


def _seconds(times_ns: Sequence[int]) -> Floats:
    # Integers are divided exactly, which floats of nanoseconds since 1970 would not be.
    return np.array([time / NS for time in times_ns])


def _joined(columns: Sequence[Ints]) -> Ints:
    return np.concatenate(columns).astype(np.int64)


def _add_starts(shots: Sequence[Shot], attrs: Attrs) -> None:
    ends: dict[Any, int] = {}
    for shot in shots:
        if shot.start_ns is None:
            shot.start_ns = ends.get(shot.target, shot.end_ns - attrs.aggr_us * 1000)
        ends[shot.target] = shot.end_ns


def _check(number: int, shot: Shot) -> None:
    if shot.start_ns is None or shot.end_ns <= shot.start_ns:
        raise ValueError(f"snapshot {number} ends at {shot.end_ns} ns, not after its start at {shot.start_ns} ns")
    if np.any(shot.end <= shot.start) or np.any(shot.start[1:] < shot.end[:-1]):
        raise ValueError(f"the regions of snapshot {number} do not follow one another")
    if np.any(shot.nr_accesses < 0) or np.any(shot.age < 0) or np.any(shot.start < 0):
        raise ValueError(f"snapshot {number} has a number below 0")


def check(recording: Recording) -> None:
    """Refuse a recording whose numbers cannot be those of any machine.

    Raises
    ------
    ValueError
    """
    times = np.concatenate([recording.start_s, recording.end_s])
    # What is a nanosecond in a file may be nothing as a float.
    if not np.isfinite(times).all() or np.any(recording.end_s <= recording.start_s):
        raise ValueError("a snapshot has a time that cannot be")
    if (nr_targets := len(np.unique(recording.target))) > MOST_TARGETS:
        raise ValueError(f"it has {nr_targets} targets, and at most {MOST_TARGETS} are read")
    columns = (recording.start, recording.nr_accesses, recording.age)
    if np.any(recording.end <= recording.start) or any(np.any(column < 0) for column in columns):
        raise ValueError("a region has a number that cannot be")
