"""Numbers and units as damo writes them for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.recordings.damo_units import COUNTS, SIZES, TIMES_NS, column, quantity
from tests.records import MIB


@given(st.integers(0, 1 << 62))
def test_quantities_of_damo(number: int) -> None:
    assert quantity(f"{number:,}", COUNTS) == number
    assert column([f"{number:,}", number], COUNTS).tolist() == [number, number]
    left_ns, text = number, []
    for unit, factor in sorted(TIMES_NS.items(), key=lambda item: -item[1]):
        count, left_ns = divmod(left_ns, factor)
        text += [f"{count:,} {unit}"] if count else []
    assert not text or quantity(" ".join(text), TIMES_NS) == number


def test_sizes_of_damo() -> None:
    assert quantity("4.000 KiB", SIZES) == 4096
    assert column(["1.500 MiB", "12 B"], SIZES).tolist() == [3 * MIB // 2, 12]
    for wrong in ("", "KiB", "4 parsecs", None, True, [], float("inf")):
        with pytest.raises((ValueError, OverflowError)):
            quantity(wrong, SIZES)
