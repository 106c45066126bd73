"""The hottest parts of what was recorded: address ranges that take most of the accesses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Recording

Range = tuple[int, int]
MOST_RANGES = 64


@names_damage
def hot_ranges(recording: Recording, share: float = 0.9, most: int = MOST_RANGES) -> list[Range]:
    """The smallest set of address ranges that takes a share of all accesses, as far as DAMON tells them.

    What DAMON tells of a region is in how many of its samples a page of it was accessed. The heat of an address is the
    sum of that over time.

    Parameters
    ----------
    recording : Recording
    share : float
        0 to 1.
    most : int
        Neighbours are joined, gaps and all, until there are no more ranges than this.

    Returns
    -------
    list of (int, int)
        Start and end of each in bytes, the end excluded; empty where nothing was accessed.
    """
    edges = np.unique(np.concatenate([recording.start, recording.end]))
    seen = recording.frequency * recording.weight_s[recording.snapshot]
    change = np.zeros(len(edges))
    np.add.at(change, np.searchsorted(edges, recording.start), seen)
    np.add.at(change, np.searchsorted(edges, recording.end), -seen)
    heat, sz_bytes = np.cumsum(change)[:-1], np.diff(edges)
    accesses = np.where(heat > 1e-9, heat, 0.0) * sz_bytes
    hottest = np.argsort(-heat, kind="stable")
    taken = np.cumsum(accesses[hottest])
    if not taken.any():
        return []
    enough = int(np.searchsorted(taken, share * taken[-1])) + 1
    ranges = [(int(edges[nth]), int(edges[nth + 1])) for nth in sorted(hottest[:enough]) if accesses[nth] > 0]
    return _joined(ranges, most)


def _joined(ranges: list[Range], most: int) -> list[Range]:
    """Ranges in order, those that touch as one, and the nearest joined until there are few enough."""
    gaps = [after[0] - before[1] for before, after in pairwise(ranges)]
    widest = sorted(gaps, reverse=True)[: most - 1]
    least = max(widest[-1], 1) if len(widest) == most - 1 and widest else 1
    joined = [ranges[0]]
    for start, end in ranges[1:]:
        if start - joined[-1][1] < least or len(joined) == most:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
