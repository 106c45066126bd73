"""Whether what a program reports can be."""

from __future__ import annotations

import pytest

from damoos.bench.suite import implausible


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        ({"roi_s": 1.9, "ops_per_s": 1e6}, ""),
        ({"roi_s": 2.5}, "roi_s = 2.5, and the whole run took 2 s"),
        ({"roi_s": 1.7e-06}, "roi_s = 1.7e-06 of a run of 2 s"),
        ({"ops_per_s": 0.0}, "ops_per_s = 0"),
    ],
)
def test_a_time_is_part_of_the_run(reported: dict[str, float], why: str) -> None:
    found = implausible(reported, 2.0)
    assert why in found if why else not found
