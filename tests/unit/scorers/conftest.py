"""Measurements whose scores are worked out by hand."""

from __future__ import annotations

from damoos.model.trial import Measurement, Score
from damoos.scorers import scorer

MIB, GIB = 1 << 20, 1 << 30

BASELINE = Measurement(
    {
        "runtime_s": 100.0,
        "user_s": 150.0,
        "system_s": 50.0,
        "rss_avg_bytes": 4 * GIB,
        "net_avg_bytes": 4 * GIB,
        "kdamond_cpu_s": 0.0,
        "psi_some_us": 0.0,
        "psi_io_some_us": 0.0,
        "psi_cpu_some_us": 1e6,
        "p99_ms": 10.0,
        "swap_written_bytes_per_s": 0.0,
    }
)


def run(**changes: float) -> Measurement:
    return Measurement({**BASELINE.metrics, **changes})


def outcome(score: Score) -> tuple[float | None, bool]:
    """A score without its margins and parts."""
    return score.value, score.feasible


def scored(name: str, measured: Measurement, **options) -> Score:
    return scorer(name, options).score(measured, BASELINE, [])
