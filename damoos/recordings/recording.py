"""A recording: the snapshots of DAMON's regions, one after the other, as columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from damoos.common import html
from damoos.common.terminal import printable
from damoos.damon.attrs import Attrs
from damoos.errors import MeasurementError

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
# Of machines that do not say: x86, and most of the others.
USUAL_PAGE_BYTES = 4096


@dataclass(frozen=True, repr=False)
class Recording:
    """Snapshots in the order in which they were taken; each is of one target, at the end of one aggregation.

    Snapshot ``i`` has the rows ``first[i]`` to ``first[i + 1]`` of the regions' columns.

    Parameters
    ----------
    operations : {"vaddr", "fvaddr", "paddr"}
    attrs : Attrs
        Intervals, and the bound of the number of regions of all targets together.
    target : ndarray of shape (n,)
        Number of each snapshot's target; 0 for the one that was seen first.
    start_s, end_s : ndarray of shape (n,), seconds
        When its aggregation began and ended, by the clock of the machine.
    first : ndarray of shape (n + 1,)
    start, end : ndarray of shape (m,), bytes
        Addresses of the regions; the end is excluded.
    nr_accesses : ndarray of shape (m,), samples of the aggregation that saw an access
    age : ndarray of shape (m,), aggregation intervals
        For which the region has kept its access frequency.
    about : mapping
        Where it comes from: ``workload``, ``variant``, ``machine``, ``kernel`` and more of a run's provenance;
        ``page_bytes`` of the machine. For a recording of somebody else's only ``assumed``: which of ``operations``,
        ``intervals`` and ``nr_regions`` its file does not say.
    path : Path or None
        The file that it was read from or written to.

    Raises
    ------
    MeasurementError : it has no snapshot
    """

    operations: str
    attrs: Attrs
    target: Ints
    start_s: Floats
    end_s: Floats
    first: Ints
    start: Ints
    end: Ints
    nr_accesses: Ints
    age: Ints
    about: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def __post_init__(self) -> None:
        """Refuse one of which nothing can be said."""
        if len(self.target) == 0:
            raise MeasurementError("the recording has no snapshot: the run was shorter than one aggregation interval")

    @property
    def nr_snapshots(self) -> int:
        """Number of snapshots, of all targets."""
        return len(self.target)

    @cached_property
    def nr_regions(self) -> Ints:
        """Number of regions of each snapshot."""
        return np.diff(self.first)

    @cached_property
    def snapshot(self) -> Ints:
        """The snapshot that each region belongs to."""
        return np.repeat(np.arange(self.nr_snapshots), self.nr_regions)

    @cached_property
    def sz_bytes(self) -> Ints:
        """Size of each region."""
        return self.end - self.start

    @cached_property
    def frequency(self) -> Floats:
        """Share of the samples of its aggregation in which each region was accessed, 0 to 1."""
        most = max(1, self.attrs.aggr_us // self.attrs.sample_us)
        return np.asarray(np.minimum(self.nr_accesses / most, 1.0))

    @cached_property
    def weight_s(self) -> Floats:
        """Time that each snapshot stands for, seconds."""
        return np.asarray(np.maximum(self.end_s - self.start_s, 0.0))

    @property
    def span_s(self) -> tuple[float, float]:
        """When the recording began and ended."""
        return float(self.start_s.min()), float(self.end_s.max())

    @property
    def regions_df(self) -> pd.DataFrame:
        """One row per region of each snapshot, times since the recording began.

        ``frequency`` is the share of the samples that saw an access; ``age_us`` is for how long it has been the same.
        """
        import pandas as pd

        of, begun_s = self.snapshot, self.span_s[0]
        return pd.DataFrame(
            {
                "target": self.target[of],
                "start_s": self.start_s[of] - begun_s,
                "end_s": self.end_s[of] - begun_s,
                "start_bytes": self.start,
                "end_bytes": self.end,
                "nr_accesses": self.nr_accesses,
                "frequency": self.frequency,
                "age_us": self.age * self.attrs.aggr_us,
            }
        )

    @property
    def page_bytes(self) -> int:
        """Size of the machine's pages; the usual one if the recording does not say."""
        return int(self.about.get("page_bytes", USUAL_PAGE_BYTES))

    def _words(self) -> dict[str, str]:
        """Where it comes from and how much there is of it; nothing in a file is to steer a terminal."""
        begun_s, ended_s = self.span_s
        known = {name: self.about.get(name) for name in ("workload", "variant", "machine", "kernel")}
        known |= {"operations": self.operations, "file": self.path, "length": f"{ended_s - begun_s:.1f} s"}
        known |= {"snapshots": self.nr_snapshots, "regions": f"{self.nr_regions.min()} to {self.nr_regions.max()}"}
        known["intervals"] = f"{self.attrs.sample_us} us samples, {self.attrs.aggr_us} us aggregations"
        return {name: printable(value) for name, value in known.items() if value is not None}

    def __repr__(self) -> str:
        """One line."""
        return "Recording(" + ", ".join(f"{name}={text}" for name, text in self._words().items()) + ")"

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return html.section("recording", html.pairs(self._words()))
