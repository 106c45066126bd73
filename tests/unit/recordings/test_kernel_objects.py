"""The kernel's own objects: what an agent tells of them, and the file and the report that become of it."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damoos.errors import ConfigError
from damoos.recordings import files, kernel_objects
from damoos.recordings.kernel_objects import KernelObjects, by_kind
from damoos.report.recording.objects import objects

# As Linux 6.12 prints them, with fewer blanks.
SLAB = """# event histogram
#
# trigger info: hist:keys=name,life.log2:vals=hitcount,life,bytes:sort=hitcount:size=4096 [active]
#

{ name: dentry         , life: ~ 2^20 } hitcount:          1  life:     900000  bytes:        192
{ name: buffer_head    , life: ~ 2^17 } hitcount:          3  life:     300000  bytes:        312
{ name: buffer_head    , life: ~ 2^10 } hitcount:          1  life:       1000  bytes:        104

Totals:
    Hits: 5
    Entries: 3
    Dropped: 0"""
KMALLOC = "{ life: ~ 2^4  } hitcount:         33  life:        399  bytes:      35136\n"
PAGES = """{ order:          0, life: ~ 2^16 } hitcount:        2  life:  100000
{ order:          3, life: ~ 2^17 } hitcount:        1  life:  80000
"""
ANON, FILE, SLAB_PAGE, TABLE, FREE, RESERVED = 1 << 12 | 1 << 5, 1 << 5, 1 << 7, 1 << 26, 1 << 10, 1 << 32


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def line(what: str, value: Any) -> dict[str, str]:
    return {"objects": packed(json.dumps([what, value]).encode())}


def accesses(flags: list[int], counts: list[int]) -> dict[str, str]:
    return line("accesses", [1.0, packed(np.array(flags, "<u8").tobytes()), packed(np.array(counts, "<u4").tobytes())])


LINES = [
    {"begin": {"source": "tried_regions"}, "about": {"workload": "git/gc", "resident": [1]}},
    line("begin", {"share": 0.125, "merged": {"dentry": ["damon_region", "dentry"]}}),
    line("memory", [1.0, {"programs": 100, "slab": 10}, {"dentry": 8}]),
    accesses([ANON, FILE, SLAB_PAGE, TABLE, FREE, RESERVED, 0], [7, 6, 5, 4, 3, 2, 1]),
    {"data": "another thing"},
    accesses([ANON, ANON], [1, 1]),
    line("memory", [1.5, {"programs": 300, "slab": 20}, {"dentry": 10, "filp": 4}]),
    line("lives", {"damoos_slab": SLAB, "damoos_kmalloc": KMALLOC, "damoos_page_cache": PAGES}),
    line("lost", 3),
]


@pytest.fixture
def found() -> KernelObjects:
    read = kernel_objects.of_journal(LINES, {"workload": "git/gc", "machine": "guest", "resident": [1]})
    assert read
    return read


def test_lives_are_read_from_the_kernel_s_histograms(found: KernelObjects) -> None:
    lives = {one.kind: one for one in found.lives}
    assert list(lives) == ["page cache", "kmalloc", "slab buffer_head", "slab dentry"]  # those of most bytes first
    heads = lives["slab buffer_head"]
    assert (heads.count, heads.sz_bytes, heads.mean_s) == (4, 416, pytest.approx(0.07525))
    assert heads.histogram == ((10, 1), (17, 3))
    # A folio of eight pages is one object, and one page in eight was watched.
    assert lives["page cache"].sz_bytes == (2 + 8) * 4096 * 8
    assert lives["page cache"].mean_s == pytest.approx(0.06)
    assert found.mean_life_s("slab") == pytest.approx((4 * 0.07525 + 0.9) / 5)
    assert found.mean_life_s("socket") is None


def test_what_the_kernel_has_not_counted_yet_is_no_life(found: KernelObjects) -> None:
    """An entry that is there before its first object is counted, and one of a life that ended before it began."""
    empty, backwards = "life: ~ 2^12 } hitcount: 0  life: 0", "life: ~ 2^64 } hitcount: 1  life: 18446744073709551000"
    more = "".join(f"{{ order: 0, {entry}\n" for entry in (empty, backwards))
    lives = {"damoos_slab": SLAB, "damoos_kmalloc": KMALLOC, "damoos_page_cache": PAGES + more}
    lines = [line("lives", lives) if one is LINES[-2] else one for one in LINES]
    read = kernel_objects.of_journal(lines, {})
    assert read
    assert read.lives == found.lives


def test_percentiles_are_within_their_class(found: KernelObjects) -> None:
    heads = next(one for one in found.lives if one.kind == "slab buffer_head")
    assert 2**9 / 1e6 <= heads.percentile_s(10) <= heads.percentile_s(25) <= 2**10 / 1e6
    assert 2**16 / 1e6 <= heads.percentile_s(50) <= heads.percentile_s(100) == pytest.approx(2**17 / 1e6)


def test_memory_and_accesses_are_told_by_kind(found: KernelObjects) -> None:
    assert found.time_s == [1.0, 1.5]
    assert found.memory_bytes == {"programs": [100, 300], "slab": [10, 20]}
    assert found.cache_bytes == {"dentry": 9.0, "filp": 2.0}
    assert found.accesses == {
        "free": 3, "slab": 5, "page tables": 4, "programs": 9, "page cache": 6, "kernel code and data": 2,
        "other pages of the kernel": 1,
    }  # fmt: skip
    assert found.memory_df["time_s"].tolist() == [0.0, 0.5]
    assert found.about == {"workload": "git/gc", "machine": "guest"}


def test_counts_and_flags_may_be_of_more_or_less_memory() -> None:
    flags, counts = np.array([ANON, FILE], dtype=np.uint64), np.array([1, 2, 99], dtype=np.uint32)
    assert sum(by_kind(flags, counts).values()) == 3
    assert sum(by_kind(flags, counts[:1]).values()) == 1


def test_they_are_written_and_read(found: KernelObjects, tmp_path: Path) -> None:
    kernel_objects.write(found, tmp_path)
    assert kernel_objects.read(tmp_path) == found


def test_a_recording_without_them_says_how_to_have_them(tmp_path: Path) -> None:
    assert kernel_objects.of_journal(LINES[:1], {}) is None
    with pytest.raises(ConfigError, match="were not watched: damoos record --kernel-objects"):
        kernel_objects.read(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"lives": 3}', '{"lives": [{"kind": 1}]}', "nonsense"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / kernel_objects.FILE_NAME).write_text(text)
    with pytest.raises(ConfigError, match="not a file of kernel objects by 'damoos record'"):
        kernel_objects.read(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"time_s": []},
        {"memory_bytes": 3},
        {"cache_bytes": {"\x1b[2J": 1.0}},
        {"merged": {"dentry": ["\x1b]0;title\x07"]}},
        {"lives": [{"kind": "a\nb", "count": 1, "sz_bytes": 1, "mean_s": 1, "histogram": [[1, 1]]}]},
        {"share": "some"},
    ],
)
def test_one_with_wrong_values_or_signs_that_steer_a_terminal_is_refused(
    found: KernelObjects, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = kernel_objects.write(found, tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match="not a file of kernel objects by 'damoos record'"):
        kernel_objects.read(tmp_path)


def test_of_a_recording_that_was_killed_all_but_the_lives_is_there(tmp_path: Path) -> None:
    journal = tmp_path / files.JOURNAL
    journal.write_text("".join(json.dumps(one) + "\n" for one in LINES[:-2]) + '{"cut')
    found = kernel_objects.read(tmp_path)
    assert found.memory_bytes["programs"] == [100, 300]
    assert found.lives == []
    assert found.lost == 0
    assert "  none" in objects(found).text


def test_the_report_tells_and_draws_all_of_it(found: KernelObjects, tmp_path: Path) -> None:
    chart = objects(found)
    assert chart.title == "git/gc on guest"
    text = "\n".join(chart.text)
    assert "of the page cache one page of 8" in text
    assert "the kernel had no room for 3 objects" in text
    assert "75.2 ms" in text
    assert "dentry is one cache with damon_region" in text
    assert [panel.title for panel in chart.panels] == ["memory", "lives", "accesses"]
    assert chart.numbers["lives"][0]["kind"] == "page cache"
    assert chart.table["share"].dropna().sum() == pytest.approx(1.0)
    chart.save(tmp_path / "objects.html")
    assert '"type":"log"' in (tmp_path / "objects.html").read_text().replace(" ", "")
    chart.save(tmp_path / "objects.svg")
    assert "mathdefault" not in (tmp_path / "objects.svg").read_text()


def test_where_nobody_counts_accesses_the_report_says_so() -> None:
    found = kernel_objects.of_journal(LINES[:3], {})
    assert found
    chart = objects(found)
    assert chart.text[-1] == "accesses are not counted on this machine (count_accesses in its file)"
    assert [panel.title for panel in chart.panels] == ["memory"]
