"""What schemes have done."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class DamosStats:
    """What a scheme tried and applied since its kdamond started (bytes, counts).

    ``sz_ops_filter_passed_bytes`` passed the filters of the operations set (since Linux 6.14), ``nr_snapshots`` are the
    times that the scheme was looked at (since Linux 7.0).
    """

    nr_tried: int = 0
    sz_tried_bytes: int = 0
    nr_applied: int = 0
    sz_applied_bytes: int = 0
    qt_exceeds: int = 0
    sz_ops_filter_passed_bytes: int = 0
    nr_snapshots: int = 0

    def __add__(self, other: DamosStats) -> DamosStats:
        """What both did together."""
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return DamosStats(*(a + b for a, b in zip(mine, others)))

    def as_dict(self) -> dict[str, int]:
        """Plain form for JSON."""
        return dataclasses.asdict(self)
