"""What proactive reclaim would bring, from a recording in which nothing was reclaimed.

A scheme that pages out what has not been accessed for ``min_age`` is played on the recorded regions, for a whole range
of ``min_age`` at once: what it would have paged out, for how long it would have been out, and how much of it would have
been asked for again. DAMON's own age decides, as it does in the kernel, and an action begins the age anew.

Memory that a program has mapped and never touched is cold, too, and saves nothing, so a recording of damoos's counts
what is resident; in another all that is mapped is taken for it. A workload that is slowed down asks for its memory
later, which is allowed for by stretching the recorded time. A server is recorded from its start on, as a scheme would
be in force, and what happens before the measurement begins counts for nothing but the ages that come of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damoos.errors import MeasurementError
from damoos.recordings.aggregations import moments, percentiles
from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Recording
from damoos.recordings.targets import snapshots_by_target

BLOCK_PAGES = 256  # of a block in which the agent counts what is resident
# More cells than this say nothing that DAMON would not have merged.
MAX_CELLS = 1024
# Of a grid, each of whose six tables has so many values at most: 64 MiB. Longer recordings have fewer cells.
MOST_VALUES, LEAST_CELLS = 8 << 20, 64
# How often the slowdown that was predicted is put into the next prediction.
ROUNDS = 3
ENOUGH = 95  # percent of the time

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reclaim:
    """What a scheme with each ``min_age`` would have done during the recording.

    Parameters
    ----------
    min_age_us : ndarray of shape (n,), microseconds
    saving : ndarray of shape (n,)
        Share of the memory that is out, on average over time.
    peak : ndarray of shape (n,)
        What is enough for what is resident for 95 % of the time, as a share of the most that was.
    out_pages, in_pages : ndarray of shape (n,)
        Pages that are paged out, and faulted back.
    span_s : float, seconds
        Length of the recording.
    """

    min_age_us: Floats
    saving: Floats
    peak: Floats
    out_pages: Floats
    in_pages: Floats
    span_s: float

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {name: value if name == "span_s" else list(value) for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Reclaim:
        """Read what `to_json` wrote."""
        return cls(**{name: value if name == "span_s" else np.array(value) for name, value in form.items()})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Cost:
    """What paging costs on a machine, as its agent has measured it (`damoos.agent.paging_cost`).

    Parameters
    ----------
    pageout_us, fault_us : float, microseconds per page
    shared : float
        Share of the kdamond's work that is taken from the workload: 1 with a single CPU.
    """

    pageout_us: float
    fault_us: float
    shared: float = 1.0

    def seconds(self, found: Reclaim) -> Floats:
        """By how much a run gets longer."""
        return np.asarray((found.in_pages * self.fault_us + self.shared * found.out_pages * self.pageout_us) / 1e6)


@dataclass(frozen=True)
class Bounds:
    """What a scheme bounds beside the age.

    Parameters
    ----------
    max_freq : float
        Share of the samples of an aggregation in which a region may be seen accessed, 0 to 1.
    min_bytes : int
        Smallest region.
    quota_bytes_s : float, bytes per second
        What may be paged out. Where more is wanted, each region gets its share. (The kernel's order, the coldest
        first, is not modelled.)
    """

    max_freq: float = 0.0
    min_bytes: int = 0
    quota_bytes_s: float = math.inf


@names_damage
def reclaim(
    recording: Recording, min_age_us: Sequence[float] | Floats, cost: Cost, bounds: Bounds | None = None
) -> Reclaim:
    """Play the scheme with every ``min_age`` on a recording.

    Parameters
    ----------
    min_age_us : array-like of float, microseconds
    cost : Cost
        For the slowdown, which stretches the time in which memory is not asked for.
    bounds : Bounds or None
        None for a scheme that pages out all that is not accessed.
    """
    bounds = bounds or Bounds()
    ages_us = np.asarray(min_age_us, dtype=np.float64)
    stretch = np.ones(len(ages_us))
    grids = list(grids_of(recording))
    for _ in range(ROUNDS):
        estimate = _played(recording, grids, ages_us, stretch, bounds)
        stretch = 0.5 * stretch + 0.5 * (1 + cost.seconds(estimate) / estimate.span_s)
    return _played(recording, grids, ages_us, stretch, bounds)


@dataclass(frozen=True)
class Grid:
    """A target's snapshots on cells of fixed addresses: (snapshots, cells)."""

    snapshots: NDArray[np.int64]
    resident_bytes: Floats
    mapped: NDArray[np.bool_]
    frequency: Floats
    age_us: Floats
    region_bytes: Floats


def grids_of(recording: Recording) -> Iterator[Grid]:
    """A grid for each target."""
    counted_s = np.array([at_s for at_s, _ in recording.about.get("resident") or ()], dtype=np.float64)
    for _, snapshots in snapshots_by_target(recording.target):
        yield _grid(recording, snapshots, counted_s)


def _grid(recording: Recording, snapshots: NDArray[np.int64], counted_s: Floats) -> Grid:
    """Cells between the ends of regions.

    Raises
    ------
    MeasurementError : there are too many snapshots
    """
    rows = np.concatenate([np.arange(recording.first[n], recording.first[n + 1]) for n in snapshots])
    edges = np.unique(np.concatenate([recording.start[rows], recording.end[rows]]))
    most = min(MAX_CELLS, MOST_VALUES // len(snapshots))
    if most < LEAST_CELLS:
        raise MeasurementError(
            f"the recording has {len(snapshots)} snapshots, too many to predict from: record for a shorter time"
        )
    if len(edges) > most:
        edges = edges[np.unique(np.linspace(0, len(edges) - 1, most).astype(int))]
    middles = (edges[1:] + edges[:-1]) // 2
    shape = len(snapshots), len(middles)
    mapped = np.zeros(shape, dtype=bool)
    frequency, age_us, region_bytes = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for nth, snapshot in enumerate(snapshots):
        own = slice(recording.first[snapshot], recording.first[snapshot + 1])
        at = np.minimum(np.searchsorted(recording.end[own], middles, side="right"), own.stop - own.start - 1)
        mapped[nth] = (recording.start[own][at] <= middles) & (middles < recording.end[own][at])
        frequency[nth] = recording.frequency[own][at]
        age_us[nth] = recording.age[own][at] * float(recording.attrs.aggr_us)
        region_bytes[nth] = (recording.end[own] - recording.start[own])[at]
    resident = _resident(recording, snapshots, edges, counted_s) * mapped
    occupied = resident.any(axis=0)  # between heap and stack there is nothing
    return Grid(
        snapshots, resident[:, occupied], mapped[:, occupied], frequency[:, occupied], age_us[:, occupied],
        region_bytes[:, occupied],
    )  # fmt: skip


def _resident(
    recording: Recording, snapshots: NDArray[np.int64], edges: NDArray[np.int64], counted_s: Floats
) -> Floats:
    """Bytes of each cell that are resident, shape (snapshots, cells): by the last count before each snapshot ended."""
    counts = recording.about.get("resident")
    if not counts:
        return np.tile(np.diff(edges).astype(np.float64), (len(snapshots), 1))
    target = int(recording.target[snapshots[0]])
    page_bytes = recording.page_bytes
    last = np.maximum(0, np.searchsorted(counted_s, recording.end_s[snapshots], side="right") - 1)
    needed, which = np.unique(last, return_inverse=True)  # of the other targets' counts there may be many
    blocks = [counts[index][1][target : target + 1] for index in needed.tolist()]
    cells = np.array([_in_cells(own[0] if own else [], edges, page_bytes) for own in blocks])
    return np.asarray(cells[which])


def _in_cells(blocks: Sequence[tuple[int, int]], edges: NDArray[np.int64], page_bytes: int) -> Floats:
    """Bytes of each cell, of blocks whose present pages are taken to lie evenly."""
    if not blocks:
        return np.zeros(len(edges) - 1)
    table = np.array(blocks, dtype=np.int64)
    ends = np.cumsum(table[:, 1]) * float(page_bytes)
    points = np.column_stack([table[:, 0], table[:, 0] + BLOCK_PAGES * page_bytes]).ravel()
    values = np.column_stack([ends - table[:, 1] * page_bytes, ends]).ravel()
    return np.diff(np.interp(edges, points, values))


def _played(recording: Recording, grids: Sequence[Grid], ages_us: Floats, stretch: Floats, bounds: Bounds) -> Reclaim:
    times = moments(recording)
    number, nr_times = times.of_snapshot, len(times.weight_s)
    measured = recording.end_s > recording.about.get("record", {}).get("began_s", -np.inf)
    nr_ages = len(ages_us)
    out_bytes, all_bytes = np.zeros((nr_times, nr_ages)), np.zeros(nr_times)
    out_pages, in_pages = np.zeros(nr_ages), np.zeros(nr_ages)
    samples = recording.attrs.max_nr_accesses
    for grid in grids:
        out = np.zeros((nr_ages, grid.mapped.shape[1]))
        since_us = np.full_like(out, np.inf)  # since the last action on a cell
        for nth, snapshot in enumerate(grid.snapshots):
            here_us = stretch * recording.weight_s[snapshot] * 1e6
            mapped, seen, sz_bytes = grid.mapped[nth], grid.frequency[nth], grid.resident_bytes[nth]
            out[:, ~mapped] = 0.0
            # Pages that are touched in an aggregation, of a region that is seen accessed in so many of its samples.
            back = out * (1 - (1 - np.minimum(seen, 0.999)) ** samples)
            in_pages += measured[snapshot] * (back @ sz_bytes) / recording.page_bytes
            out -= back
            since_us += here_us[:, None]
            old = grid.age_us[nth] * stretch[:, None] >= ages_us[:, None]
            matched = (seen <= bounds.max_freq) & (grid.region_bytes[nth] >= bounds.min_bytes)
            act = old & matched & mapped & (since_us >= ages_us[:, None])
            wanted = np.where(act, 1 - out, 0.0)
            # A quota is of wall time, which does not stretch: a slower run is granted more.
            granted = np.minimum(1.0, bounds.quota_bytes_s * here_us / 1e6 / np.maximum(wanted @ sz_bytes, 1.0))
            wanted *= granted[:, None]
            out_pages += measured[snapshot] * (wanted @ sz_bytes) / recording.page_bytes
            out += wanted
            since_us[act & (granted == 1.0)[:, None]] = 0.0
            out_bytes[number[snapshot]] += out @ sz_bytes
            all_bytes[number[snapshot]] += sz_bytes.sum()
    weights = times.weight_s.copy()
    weights[number[~measured]] = 0.0
    total_byte_s = weights @ all_bytes
    return Reclaim(
        ages_us,
        weights @ out_bytes / total_byte_s,
        np.array(
            [percentiles(left_bytes, weights, (ENOUGH,))[ENOUGH] for left_bytes in (all_bytes[:, None] - out_bytes).T]
        )
        / all_bytes[weights > 0].max(),
        out_pages,
        in_pages,
        float(weights.sum()),
    )
