"""What a tidy frame is."""

from __future__ import annotations

import pandas as pd

# Words that end a column's name: a unit, or what is a share, a count, a name or a word by itself.
UNITS = ("_s", "_us", "_ms", "_bytes", "_percent", "_per_s", "hours", "usd", "usd_hour")

BARE = {
    *("number", "state", "feasible", "score", "score_low", "score_high", "margin"),
    *("run", "kind", "arm", "censored", "error"),
    *(
        "pswpin",
        "pswpout",
        "pgmajfault",
        "major_faults",
        "workingset_refault_anon",
        "workingset_refault_file",
        "ops",
        "nr_procs",
        "study",
        "workload",
        "machine",
        "trials",
        "runs",
        "verdict",
    ),
    *("slowdown", "saving", "score_manual", "score_gain", "scheme", "fit", "memory_saving", "peak", "slowdown_low"),
    *(
        "slowdown_high",
        "memory_saving_low",
        "memory_saving_high",
        "chance",
        "target",
        "nr_accesses",
        "frequency",
        "block",
        "config",
        "variant",
        "nr_runs",
        "paused",
        "memory_pressure",
        "step",
        "metric",
        "standing",
        "mean",
        "lower",
        "upper",
        "bound",
        "nr_windows",
    ),
}


def assert_tidy(frame: pd.DataFrame) -> None:
    assert len(frame)
    assert frame.columns.is_unique
    assert frame.index.equals(pd.RangeIndex(len(frame)))
    assert [name for name in frame.columns if name not in BARE and not name.endswith(UNITS)] == []
