"""DAMON's trace events as text (damo's ``perf_script`` form): no intervals, and only the end of each snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from damoos.damon.attrs import Attrs
from damoos.recordings.recording import Recording
from damoos.recordings.snapshots import NS, Shot, assemble

# kdamond.0  4452 [000] 82877.315633: damon:damon_aggregated: target_id=1 nr_regions=17 4096-8192: 0 3
EVENT = "damon_aggregated:"
_LINE = re.compile(
    rf"(?<!\d)(\d{{1,12}})\.(\d{{1,9}}): (?:damon:)?{EVENT} +target_id=(\d+) nr_regions=(\d+)"
    r" (\d+)-(\d+): (-?\d+)(?: (-?\d+))?$",
    re.M,
)


def parse(text: str, attrs: Attrs | None) -> Recording:
    """The recording of a trace.

    Parameters
    ----------
    text : str
        As ``perf script`` and damo write it.
    attrs : Attrs
        What the monitoring was asked to do, which a trace does not say.

    Raises
    ------
    ValueError : no attrs, no event, or no ages (which kernels before 5.16 do not trace)
    """
    if attrs is None:
        raise ValueError("a trace has no monitoring intervals: give them, e.g. --intervals 5ms,100ms")
    events = _LINE.findall(text)
    if any(not event[7] for event in events):
        raise ValueError("it has no ages, which the reports need: record on Linux 5.16 or newer")
    shots, broken = _shots(events)
    about: dict[str, Any] = {"assumed": ["operations", "intervals", "nr_regions"]}
    if broken:
        about["nr_broken_snapshots"] = broken
    return assemble(shots, attrs, about, None)


def _shots(events: list[tuple[str, ...]]) -> tuple[list[Shot], int]:
    """Snapshots, and the number of those that were left out since some of their events were lost."""
    shots: list[Shot] = []
    ends: dict[str, list[int]] = {}
    broken = 0
    for rows in _together(events):
        target, count = rows[0][2:4]
        if len(rows) < int(count):
            broken += 1
            continue
        end_ns = int(rows[0][0]) * NS + int(rows[0][1].ljust(9, "0")[:9])
        ends.setdefault(target, []).append(end_ns)
        numbers = np.array([[int(word) for word in row[4:]] for row in rows], dtype=np.int64)
        # damo ends a lone snapshot by one that is none, from which only the duration is to be read.
        if len(numbers) > 1 or tuple(numbers[0]) != (0, 0, -1, -1):
            shots.append(Shot(target, None, end_ns, *numbers.T))
    _begin(shots, ends)
    return shots, broken


def _together(events: list[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    """The events of one snapshot after the other: of one target, as many as they say, addresses going up."""
    rows: list[tuple[str, ...]] = []
    for event in events:
        if rows and (len(rows) == int(event[3]) or event[2:4] != rows[-1][2:4] or int(event[4]) < int(rows[-1][5])):
            yield rows
            rows = []
        rows.append(event)
    if rows:
        yield rows


def _begin(shots: list[Shot], ends: dict[str, list[int]]) -> None:
    """Give each target's first snapshot a start: as long before its end as the others take on average."""
    begun = set()
    for shot in shots:
        times = ends[shot.target]
        if shot.target not in begun and len(times) > 1:
            shot.start_ns = times[0] - (times[-1] - times[0]) // (len(times) - 1)
        begun.add(shot.target)
