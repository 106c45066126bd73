"""How well DAMON sees, on recordings of which it is known."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from damoos.bench.monitor import PATTERNS, accuracy, truth
from damoos.errors import ConfigError
from damoos.workloads import catalog
from tests.records import MIB, Row, recording

PATTERN = (
    "#regions\na, 1M\nb, 3M\n\nfill\n100\na, 0, 4096, 25\nb, 0, 4096, 75\n\none\n2000\nb, 0, 4096, 1, ro\n\n"
    "both\n1000\nb, 1, 64, 50, rw\na, 0, 4096, 50, ro\n"
)
A, B = (16 * MIB, 17 * MIB), (32 * MIB, 35 * MIB)
TOLD = {
    "regions": [{"name": "a", "address": A[0], "bytes": MIB}, {"name": "b", "address": B[0], "bytes": 3 * MIB}],
    "phases": [
        {"name": "fill", "start": 9.0, "seconds": 1.0},
        {"name": "one", "start": 10.0, "seconds": 2.0},
        {"name": "both", "start": 12.0, "seconds": 1.0},
    ],
}


def test_the_truth_is_what_the_pattern_says_where_mempat_put_it() -> None:
    assert truth(TOLD, PATTERN) == [(10.0, 12.0, [B]), (12.0, 13.0, [A, B])]


@pytest.mark.parametrize("name", PATTERNS)
def test_the_truth_of_each_shipped_pattern(name: str) -> None:
    path, file = catalog.find(name)
    assert file.pattern
    text = (path.parent / file.pattern.file).read_text()
    regions, *phases = (block.splitlines() for block in text.strip().split("\n\n"))
    told = {
        "regions": [
            {"name": line.split(",")[0].strip(), "address": n * MIB, "bytes": MIB} for n, line in enumerate(regions[1:])
        ],
        "phases": [{"name": lines[0], "start": float(n), "seconds": 1.0} for n, lines in enumerate(phases)],
    }
    found = truth(told, text)
    assert [one[:2] for one in found] == [(n, n + 1) for n in range(1, len(phases))]
    assert all(spans for *_, spans in found)


ONE = [(10.0, 12.0, [(0, 2 * MIB)])]  # from 10 to 12 s the first 2 MiB are hot


def seen(*rows: Row, at: float = 10.5) -> tuple[float, float, list[Row]]:
    return at, at + 0.1, list(rows)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([(0, 2 * MIB, 20, 0), (2 * MIB, 9 * MIB, 0, 0)], (1.0, 1.0, 0.0)),
        # Two regions are hot only together; between them a hole.
        ([(0, MIB, 20, 0), (MIB, 2 * MIB, 5, 0), (8 * MIB, 9 * MIB, 0, 0)], (1.0, 1.0, 0.0)),
        ([(0, MIB, 0, 0), (MIB, 3 * MIB, 20, 0)], (0.5, 0.5, 0.0)),
        ([(0, 4 * MIB, 20, 0)], (0.5, 1.0, 1.0)),
        ([(0, MIB, 20, 0), (MIB, 2 * MIB, 0, 0)], (1.0, 0.5, 0.5)),
        # Less than a quarter of the samples is not hot, and part of the working set nevertheless.
        ([(0, MIB, 20, 0), (MIB, 2 * MIB, 4, 0)], (1.0, 0.5, 0.0)),
        ([(4 * MIB, 5 * MIB, 20, 0)], (0.0, 0.0, 0.5)),
    ],
)
def test_what_damon_says_against_the_truth(rows: list[Row], wanted: tuple[float, float, float]) -> None:
    assert astuple(accuracy(recording(seen(*rows)), ONE)) == pytest.approx((*wanted, 1))


def test_means_are_of_all_snapshots() -> None:
    right, half = [(0, 2 * MIB, 20, 0)], [(0, 4 * MIB, 20, 0)]
    found = accuracy(recording(seen(*right), seen(*half, at=10.7)), ONE)
    assert astuple(found) == pytest.approx((0.75, 1.0, 0.5, 2))


def test_where_nothing_is_called_hot_there_is_no_precision() -> None:
    found = accuracy(recording(seen((0, 2 * MIB, 20, 0)), seen((0, 2 * MIB, 0, 0), at=10.7)), ONE)
    assert astuple(found) == pytest.approx((1.0, 0.5, 0.5, 2))


def test_only_snapshots_within_a_phase_count() -> None:
    wrong = (4 * MIB, 5 * MIB, 20, 0)
    snapshots = [seen(wrong, at=at) for at in (9.0, 9.95, 11.95, 12.0)] + [seen((0, 2 * MIB, 20, 0), at=11.0)]
    assert astuple(accuracy(recording(*snapshots), ONE)) == pytest.approx((1.0, 1.0, 0.0, 1))
    with pytest.raises(ConfigError, match="no snapshot lies completely within one phase"):
        accuracy(recording(*snapshots[:4]), ONE)
