"""Idle time: how long memory has not been accessed.

The age of a region without an access is its idle time, as DAMON_STAT's idle time percentiles have it; memory that is
accessed has an idle time of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from damoos.recordings.aggregations import Moments, mean, moments, percentiles
from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Floats, Recording

if TYPE_CHECKING:
    import pandas as pd

# "Accessed now", then idle for less than so many seconds, then longer.
RECENCY_S = (1.0, 5.0, 30.0, 120.0)


def idle_s(recording: Recording) -> Floats:
    """Idle time of each region, seconds; 0 where it is accessed."""
    age_s = recording.age * (recording.attrs.aggr_us / 1e6)
    return np.asarray(np.where(recording.nr_accesses > 0, 0.0, age_s))


@dataclass(frozen=True)
class IdleTime:
    """Bytes by idle time.

    Parameters
    ----------
    edges_s : ndarray of shape (c + 1,), seconds
        Classes of idle time, each from an edge to before the next.
    mean_bytes, end_bytes : ndarray of shape (c,)
        Memory without an access in each class: mean over time, and at the recording's end.
    accessed_mean_bytes, accessed_end_bytes : float
        Memory that is in none, as it is accessed.
    percentiles_s : mapping of percent to seconds
        Idle times that so many percent of the bytes, over the whole time, do not exceed.
    """

    edges_s: Floats
    mean_bytes: Floats
    end_bytes: Floats
    accessed_mean_bytes: float
    accessed_end_bytes: float
    percentiles_s: dict[float, float]

    def frame(self) -> pd.DataFrame:
        """A row each class; the first, from 0 to 0 s, is the memory that is accessed."""
        import pandas as pd

        return pd.DataFrame(
            {
                "idle_from_s": np.concatenate([[0.0], self.edges_s[:-1]]),
                "idle_to_s": np.concatenate([[0.0], self.edges_s[1:]]),
                "mean_bytes": np.concatenate([[self.accessed_mean_bytes], self.mean_bytes]),
                "end_bytes": np.concatenate([[self.accessed_end_bytes], self.end_bytes]),
            }
        )


@names_damage
def idle_time(recording: Recording) -> IdleTime:
    """Sort the memory of a recording by idle time.

    Raises
    ------
    MeasurementError : no region, or no time
    """
    times = moments(recording)
    idle, size = idle_s(recording), recording.sz_bytes
    edges = classes(recording.attrs.aggr_us / 1e6, float(idle.max(initial=0.0)))
    # One more class in front for what is accessed.
    class_of_region = np.where(recording.nr_accesses > 0, 0, np.searchsorted(edges, idle, side="right"))
    weight = times.weight_s[times.of_snapshot][recording.snapshot]
    total = np.bincount(class_of_region, weights=size * weight, minlength=len(edges)) / float(times.weight_s.sum())
    last = times.of_snapshot[recording.snapshot] == len(times.end_s) - 1
    at_end = np.bincount(class_of_region[last], weights=size[last], minlength=len(edges)).astype(float)
    shares = percentiles(idle, size * weight)
    return IdleTime(edges, total[1:], at_end[1:], float(total[0]), float(at_end[0]), shares)


def classes(first_s: float, longest_s: float) -> Floats:
    """Edges 0, then the numbers 1, 2, 5, 10, 20, 50 ... from one at or above ``first_s`` to one above ``longest_s``."""
    edges, power = [0.0], np.floor(np.log10(first_s))
    while edges[-1] <= longest_s:
        for digit in (1, 2, 5):
            edge = float(f"{digit}e{power:.0f}")
            if edge >= first_s * 0.999 and edges[-1] <= longest_s:
                edges.append(edge)
        power += 1
    return np.array(edges)


@dataclass(frozen=True)
class Recency:
    """Bytes by the time since their last access, for each aggregation.

    Parameters
    ----------
    names : tuple of str
    size_bytes : ndarray of shape (k, len(names))
    """

    moments: Moments
    names: tuple[str, ...]
    size_bytes: Floats

    def frame(self) -> pd.DataFrame:
        """A row each aggregation and class."""
        import pandas as pd

        nr_moments, nr_names = self.size_bytes.shape
        return pd.DataFrame(
            {
                "start_s": np.repeat(self.moments.start_s, nr_names),
                "end_s": np.repeat(self.moments.end_s, nr_names),
                "last_access": list(self.names) * nr_moments,
                "size_bytes": self.size_bytes.ravel(),
            }
        )

    @property
    def mean_bytes(self) -> dict[str, float]:
        """Mean over time of each class."""
        weight = self.moments.weight_s
        return {name: mean(self.size_bytes[:, at], weight) for at, name in enumerate(self.names)}


@names_damage
def recency(recording: Recording) -> Recency:
    """Sort the memory of each aggregation by how long ago it was accessed."""
    times, idle = moments(recording), idle_s(recording)
    class_of_region = np.where(recording.nr_accesses > 0, 0, 1 + np.searchsorted(RECENCY_S, idle, side="right"))
    names = ("accessed now", *(f"< {text}" for text in ("1 s", "5 s", "30 s", "2 min")), "longer")
    columns = [
        times.sums(recording, np.where(class_of_region == at, recording.sz_bytes, 0)) for at in range(len(names))
    ]
    return Recency(times, names, np.stack(columns, axis=1))
