"""A data job: job.py numpy|pandas ROWS ROUNDS. Loads a table once and works on few of its columns; reports JSON."""

import json
import sys
import time


def with_numpy(rows, rounds):
    """Multiply and sort two of sixteen columns."""
    import numpy as np

    table = np.random.default_rng(1).standard_normal((16, rows))
    begun = time.monotonic()
    total = 0.0
    for _ in range(rounds):
        total += float(np.sort(table[0] * table[1]).sum())
    return begun, total


def with_pandas(rows, rounds):
    """Group one of sixteen columns by another."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(1)
    table = pd.DataFrame({f"c{n}": random.standard_normal(rows) for n in range(15)})
    table["group"] = random.integers(0, 100, rows)
    begun = time.monotonic()
    total = 0.0
    for _ in range(rounds):
        total += float(table.groupby("group")["c0"].mean().sum())
    return begun, total


kind, rows, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
begun, total = {"numpy": with_numpy, "pandas": with_pandas}[kind](rows, rounds)
seconds = time.monotonic() - begun
print(json.dumps({"rounds": rounds, "roi_s": seconds, "rounds_per_s": rounds / seconds, "total": total}))
