"""Several values as one quantity: their mean and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from damoos.statistics.intervals import interval

Quantity = dict[str, Any]


def told(values: Sequence[float], ci95: tuple[float, float] | None = None) -> Quantity:
    """Values, their mean and its 95 % interval; the interval is null where there are too few values for one."""
    ends = ci95 or interval(values)
    return {
        "mean": float(np.mean(values)),
        "ci95": list(ends) if all(map(math.isfinite, ends)) else None,
        "values": list(values),
    }
