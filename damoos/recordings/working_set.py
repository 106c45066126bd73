"""Working sets: how much memory is accessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from damoos.errors import ConfigError
from damoos.recordings.aggregations import Moments, mean, moments, percentiles
from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Floats, Recording

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class WorkingSet:
    """Bytes of the regions that were accessed, of all targets, for each aggregation."""

    moments: Moments
    size_bytes: Floats
    min_accesses: int

    @property
    def mean_bytes(self) -> float:
        """Mean over time."""
        return mean(self.size_bytes, self.moments.weight_s)

    @property
    def percentiles(self) -> dict[float, float]:
        """Sizes, in bytes, that are not exceeded for 0, 25, 50, 75 and 100 percent of the time."""
        return percentiles(self.size_bytes, self.moments.weight_s)

    def frame(self) -> pd.DataFrame:
        """A row each aggregation."""
        import pandas as pd

        times = self.moments
        return pd.DataFrame({"start_s": times.start_s, "end_s": times.end_s, "working_set_bytes": self.size_bytes})


@names_damage
def working_set(recording: Recording, min_accesses: int = 1) -> WorkingSet:
    """Sum the regions that were seen accessed at least ``min_accesses`` times in an aggregation.

    Raises
    ------
    ConfigError : min_accesses is under 1 or above what an aggregation can count
    """
    most = recording.attrs.max_nr_accesses
    if not 1 <= min_accesses <= most:
        raise ConfigError(f"min_accesses must be from 1 to {most}, the samples of an aggregation")
    times = moments(recording)
    accessed = np.where(recording.nr_accesses >= min_accesses, recording.sz_bytes, 0)
    return WorkingSet(times, times.sums(recording, accessed), min_accesses)
