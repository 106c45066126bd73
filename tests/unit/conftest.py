"""Fixtures of the tests that need no machine."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies draw no figures here, which would take most of their time; the marker ``figures`` has them drawn."""
    if "figures" not in request.keywords:
        monkeypatch.setattr("damoos.report.study.tuning.draw", lambda *_: [])
