"""Savings at a bounded pressure."""

from __future__ import annotations

from damoos.model.trial import Score

from .conftest import GIB, run, scored


def test_pressure_is_kept_at_what_tmo_keeps() -> None:
    saved = {"net_avg_bytes": 3 * GIB}
    assert scored("psi", run(psi_some_us=1e5, psi_io_some_us=1e5, **saved)) == Score(0.25, feasible=True)
    assert not scored("psi", run(psi_some_us=1.01e5, **saved)).feasible
    assert not scored("psi", run(psi_io_some_us=1.01e5, **saved)).feasible
