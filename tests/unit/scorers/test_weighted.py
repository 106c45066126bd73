"""A weighted sum of terms."""

from __future__ import annotations

import pytest

from .conftest import GIB, run, scored


def test_weights() -> None:
    words = {"weights": ["memory_saving=0.7", "speedup=0.3"], "limits": ["slowdown<=0.2"]}
    measured = run(runtime_s=110.0, rss_avg_bytes=1 * GIB)
    assert scored("weighted", measured, **words).value == pytest.approx(0.7 * 0.75 - 0.3 * 0.1)
    assert not scored("weighted", run(runtime_s=121.0), **words).feasible
