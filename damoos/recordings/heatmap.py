"""Heatmaps: when which addresses were accessed how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from damoos.errors import ConfigError, MeasurementError
from damoos.recordings.crop import by_address, of_target
from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Floats, Recording
from damoos.recordings.subspace import Subspace, most_active

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Heatmap:
    """Cells of time and addresses.

    Parameters
    ----------
    subspace : Subspace
    time_s : ndarray of shape (t + 1,), seconds since the recording's start
        Edges of the cells.
    address : ndarray of shape (a + 1,), bytes
        Edges of the cells.
    accessed_byte_s, seen_byte_s : ndarray of shape (t, a)
        Memory of the cell, times its access frequency, times time; and without the frequency.
    """

    subspace: Subspace
    time_s: Floats
    address: Floats
    accessed_byte_s: Floats
    seen_byte_s: Floats

    @property
    def frequency(self) -> Floats:
        """Access frequency of the memory in each cell, 0 to 1; not a number where there was none."""
        nothing = np.full_like(self.accessed_byte_s, np.nan)
        return np.asarray(np.divide(self.accessed_byte_s, self.seen_byte_s, out=nothing, where=self.seen_byte_s > 0))

    def frame(self) -> pd.DataFrame:
        """A row each cell that had memory: where it begins, its access frequency, the bytes seen times seconds."""
        import pandas as pd

        times, addresses = np.nonzero(self.seen_byte_s > 0)
        return pd.DataFrame(
            {
                "target": self.subspace.target,
                "time_s": self.time_s[times],
                "address_bytes": self.address[addresses].astype(np.int64),
                "frequency": self.frequency[times, addresses],
                "seen_byte_s": self.seen_byte_s[times, addresses],
            }
        )


@names_damage
def heatmap(
    recording: Recording,
    *,
    target: int | None = None,
    address: tuple[int, int] | None = None,
    nr_times: int = 400,
    nr_addresses: int = 256,
) -> Heatmap:
    """A recording as a heatmap; what overlaps a cell counts by the part that does, in bytes and in time.

    Parameters
    ----------
    target : int or None
        None for the one that has the most active subspace.
    address : tuple of int or None
        First address and the one after the last; None for the most active subspace.
    nr_times, nr_addresses : int
        Cells; there are not more of time than aggregations, nor of addresses than bytes.

    Raises
    ------
    ConfigError : no such target, nothing at these addresses, or no cells
    MeasurementError : no snapshot has a region, or a duration
    """
    if nr_times < 1 or nr_addresses < 1:
        raise ConfigError("a heatmap needs at least one cell of time and one of addresses")
    begin, end = recording.span_s
    where = _subspace(recording, target, address)
    mine = by_address(of_target(recording, where.target), where.low, where.high)
    nr_times = min(nr_times, max(1, round((end - begin) / float(np.median(mine.weight_s))))) if end > begin else 1
    times = np.linspace(begin, end, nr_times + 1)
    edges = np.linspace(where.low, where.high, min(nr_addresses, where.sz_bytes) + 1)
    accessed, seen = _fill(mine, times, edges - where.low, where.low)
    if not seen.any():
        raise MeasurementError("the snapshots of the recording have no duration")
    return Heatmap(where, times - begin, edges, accessed, seen)


def _subspace(recording: Recording, target: int | None, address: tuple[int, int] | None) -> Subspace:
    if address is None:
        return most_active(recording, target)
    inside = by_address(recording, *address)
    best = most_active(inside, target, gap_bytes=address[1] - address[0])
    return Subspace(best.target, *address, best.accessed_byte_s)


def _fill(recording: Recording, times: Floats, edges: Floats, low: int) -> tuple[Floats, Floats]:
    """Bytes times seconds in each cell, those accessed and all."""
    accessed = np.zeros((len(times) - 1, len(edges) - 1))
    seen = np.zeros_like(accessed)
    start, end = (recording.start - low).astype(float), (recording.end - low).astype(float)
    sizes, frequency = end - start, recording.frequency
    for number in range(recording.nr_snapshots):
        rows = slice(recording.first[number], recording.first[number + 1])
        # Bytes below an address, as a line with corners at the ends of regions, flat in the gaps between them.
        corners = np.stack([start[rows], end[rows]], axis=1).ravel()
        memory = _below(edges, corners, sizes[rows])
        heat = _below(edges, corners, sizes[rows] * frequency[rows])
        first, last = recording.start_s[number], recording.end_s[number]
        cells = np.arange(
            max(0, int(np.searchsorted(times, first, side="right")) - 1),
            min(len(times) - 1, int(np.searchsorted(times, last, side="left"))),
        )
        shares_s = np.minimum(last, times[cells + 1]) - np.maximum(first, times[cells])
        seen[cells] += np.outer(shares_s, memory)
        accessed[cells] += np.outer(shares_s, heat)
    return accessed, seen


def _below(edges: Floats, corners: Floats, bytes_: Floats) -> Floats:
    if not len(corners):
        return np.zeros(len(edges) - 1)
    total = np.cumsum(bytes_)
    heights = np.stack([np.concatenate([[0.0], total[:-1]]), total], axis=1).ravel()
    return np.diff(np.interp(edges, corners, heights))
