"""Savings at a bounded pressure."""

from __future__ import annotations

from .conftest import GIB, outcome, run, scored


def test_pressure_is_kept_at_what_tmo_keeps() -> None:
    saved = {"net_avg_bytes": 3 * GIB}
    assert outcome(scored("psi", run(psi_some_us=1e5, psi_io_some_us=1e5, **saved))) == (0.25, True)
    assert not scored("psi", run(psi_some_us=1.01e5, **saved)).feasible
    assert not scored("psi", run(psi_io_some_us=1.01e5, **saved)).feasible
