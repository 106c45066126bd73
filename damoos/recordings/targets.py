"""Targets of a recording, and which snapshots are whose."""

from __future__ import annotations

from typing import Any

import numpy as np

from damoos.recordings.recording import Ints

# While a run is recorded, each process that it ever had stays a target: a build of a large program has thousands.
MOST_TARGETS = 10_000


def snapshots_by_target(targets: Any) -> list[tuple[int, Ints]]:
    """The snapshots of each target, in their order, in a time that does not grow with the number of targets.

    Parameters
    ----------
    targets : ndarray of shape (n,)
        The target of each snapshot.

    Returns
    -------
    list of (int, ndarray of int)
        Number of a target, and the indices of its snapshots.
    """
    order = np.argsort(targets, kind="stable")
    numbers, first = np.unique(targets[order], return_index=True)
    return list(zip(numbers.tolist(), np.split(order, first[1:]), strict=False))
