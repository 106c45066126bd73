"""Number of regions: what DAMON's accuracy and overhead hang on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from damoos.recordings.aggregations import Moments, mean, moments, percentiles
from damoos.recordings.damage import names_damage
from damoos.recordings.recording import Floats, Recording

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RegionCount:
    """Regions of all targets together, for each aggregation; ``bounds`` is None where the recording does not say."""

    moments: Moments
    nr_regions: Floats
    bounds: tuple[int, int] | None

    @property
    def mean(self) -> float:
        """Mean over time."""
        return mean(self.nr_regions, self.moments.weight_s)

    @property
    def percentiles(self) -> dict[float, float]:
        """Numbers that are not exceeded for 0, 25, 50, 75 and 100 percent of the time."""
        return percentiles(self.nr_regions, self.moments.weight_s)

    def frame(self) -> pd.DataFrame:
        """A row each aggregation."""
        import pandas as pd

        times = self.moments
        return pd.DataFrame({"start_s": times.start_s, "end_s": times.end_s, "nr_regions": self.nr_regions.astype(int)})


@names_damage
def region_count(recording: Recording) -> RegionCount:
    """Count the regions of each aggregation, against ``min_nr_regions`` and ``max_nr_regions``."""
    times = moments(recording)
    known = "nr_regions" not in recording.about.get("assumed", ())
    bounds = (recording.attrs.min_nr_regions, recording.attrs.max_nr_regions) if known else None
    return RegionCount(times, times.sums(recording, np.ones_like(recording.age)), bounds)
