"""A data job that loads a table once and works on few of its columns: job.py numpy|pandas|sklearn ROWS ROUNDS."""

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


def with_sklearn(rows, rounds):
    """Fit a tree to two of sixty-four columns."""
    import numpy as np
    from sklearn.tree import DecisionTreeRegressor

    table = np.random.default_rng(1).standard_normal((64, rows))
    begun = time.monotonic()
    total = 0.0
    for n in range(rounds):
        tree = DecisionTreeRegressor(max_depth=6, random_state=n).fit(table[:2].T, table[2])
        total += float(tree.predict(table[:2, :100].T).sum())
    return begun, total


kind, rows, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
begun, total = {"numpy": with_numpy, "pandas": with_pandas, "sklearn": with_sklearn}[kind](rows, rounds)
seconds = time.monotonic() - begun
print(json.dumps({"rounds": rounds, "roi_s": seconds, "rounds_per_s": rounds / seconds, "total": total}))
