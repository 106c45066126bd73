"""Parts of a recording, by target, time and address."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.errors import ConfigError
from damoos.recordings import crop
from damoos.recordings.recording import Recording
from damoos.recordings.subspace import accessed_byte_s
from tests.records import TWO_TARGETS

from .test_files import recordings


@given(recordings(), st.integers(0, 1 << 48), st.integers(1, 1 << 48))
def test_cropped_addresses_are_complementary(any_: Recording, at: int, size: int) -> None:
    parts = ((0, at), (at, at + size), (at + size, 1 << 62))
    found = []
    for low, high in parts:
        try:
            part = crop.by_address(any_, low, high)
        except ConfigError:
            continue
        assert part.nr_snapshots == any_.nr_snapshots
        assert np.all((part.start >= low) & (part.end <= high) & (part.start < part.end))
        found.append(accessed_byte_s(part).sum())
    assert sum(found) == pytest.approx(accessed_byte_s(any_).sum())


def test_cropped_time_cuts_snapshots() -> None:
    part = crop.by_time(TWO_TARGETS, 0.15, 0.3)
    assert part.target.tolist() == [0, 1, 0]
    assert part.weight_s.tolist() == pytest.approx([0.05, 0.05, 0.1])
    assert part.start.tolist() == [0, 100, 0, 0, 100]
    for low, high in ((0.5, 0.6), (0.3, 0.3), (2, 1)):
        with pytest.raises(ConfigError, match=r"lasts 0\.5 s"):
            crop.by_time(TWO_TARGETS, low, high)
    with pytest.raises(ConfigError, match="no target 2 in the recording; it has 0, 1"):
        crop.of_target(TWO_TARGETS, 2)
    with pytest.raises(ConfigError, match="0x0 to 0x3e8"):
        crop.by_address(TWO_TARGETS, 1000, 2000)
