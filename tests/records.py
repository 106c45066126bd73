"""Recordings whose truth is known."""

from __future__ import annotations

import numpy as np

from damoos.damon.attrs import Attrs
from damoos.recordings.recording import Recording

MIB = 1 << 20
ATTRS = Attrs(5_000, 100_000, 1_000_000, 10, 1_000)
Row = tuple[int, int, int, int]  # start, end, nr_accesses, age


def recording(
    *snapshots: tuple[float, float, list[Row]] | tuple[float, float, list[Row], int],
    attrs: Attrs = ATTRS,
    operations: str = "vaddr",
    about: dict | None = None,
) -> Recording:
    """A recording of snapshots: start and end in seconds, regions, and the target (0 if it is left out)."""
    rows = np.array([row for one in snapshots for row in one[2]], dtype=np.int64).reshape(-1, 4)
    return Recording(
        operations=operations,
        attrs=attrs,
        target=np.array([one[3] if len(one) > 3 else 0 for one in snapshots], dtype=np.int64),
        start_s=np.array([one[0] for one in snapshots], dtype=float),
        end_s=np.array([one[1] for one in snapshots], dtype=float),
        first=np.concatenate([[0], np.cumsum([len(one[2]) for one in snapshots])]).astype(np.int64),
        start=rows[:, 0],
        end=rows[:, 1],
        nr_accesses=rows[:, 2],
        age=rows[:, 3],
        about=about or {},
    )


# Two targets, two aggregations of 0.1 s, then one of 0.3 s of the first target alone; 20 samples each.
TWO_TARGETS = recording(
    (0.0, 0.1, [(0, 100, 20, 5), (100, 300, 0, 9)], 0),
    (0.0, 0.1, [(0, 1000, 2, 0)], 1),
    (0.1, 0.2, [(0, 100, 20, 6), (100, 300, 1, 0)], 0),
    (0.1, 0.2, [(0, 1000, 0, 0)], 1),
    (0.2, 0.5, [(0, 100, 0, 0), (100, 300, 0, 30)], 0),
)

ABOUT = {
    "workload": "synthetic/stairs",
    "variant": "model",
    "machine": "guest",
    "kernel": "6.12.57",
    "accel": "tcg",
}
HEAP, STACK = 0x5555_5560_0000, 0x7FFF_F000_0000


def stairs(steps: int = 8, step_s: float = 1.0, step_bytes: int = 8 * MIB) -> Recording:
    """A heap of whose equal parts one after the other is hot, for the same time; far away a stack, used a little."""
    aggr_s = ATTRS.aggr_us / 1e6
    per_step = round(step_s / aggr_s)
    snapshots = []
    for number in range(steps * per_step):
        hot, since = divmod(number, per_step)
        rows = []
        for part in range(steps):
            low = HEAP + part * step_bytes
            age = since if part == hot else since + (hot - part - 1) * per_step if part < hot else number
            rows.append((low, low + step_bytes, 20 if part == hot else 0, age))
        rows.append((STACK, STACK + MIB // 8, 3, number))
        snapshots.append((100 + number * aggr_s, 100 + (number + 1) * aggr_s, rows))
    return recording(*snapshots, about=ABOUT)


def assert_same(found: Recording, wanted: Recording) -> None:
    """Equal but for where they come from."""
    for name in ("operations", "attrs"):
        assert getattr(found, name) == getattr(wanted, name)
    for name in ("target", "first", "start", "end", "nr_accesses", "age"):
        assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), name
    for name in ("start_s", "end_s"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-9)
