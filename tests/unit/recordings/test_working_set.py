"""The working set, against truths computed by hand."""

from __future__ import annotations

import pytest

from damoos.errors import ConfigError
from damoos.recordings.working_set import working_set
from tests.records import TWO_TARGETS


def test_working_set() -> None:
    found = working_set(TWO_TARGETS)
    assert found.size_bytes.tolist() == [1100, 300, 0]
    assert found.mean_bytes == pytest.approx((1100 * 0.1 + 300 * 0.1) / 0.5)
    assert found.percentiles == {0: 0, 25: 0, 50: 0, 75: 300, 100: 1100}
    assert working_set(TWO_TARGETS, 3).size_bytes.tolist() == [100, 100, 0]
    assert found.frame()["working_set_bytes"].tolist() == [1100, 300, 0]
    for wrong in (0, 21):
        with pytest.raises(ConfigError, match="1 to 20"):
            working_set(TWO_TARGETS, wrong)
