"""Which pages of a process are there, on the test's own process."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.agent import memory
from damoos.agent.memory import BLOCK, bring_back, page_entries, resident_blocks, room_bytes, without
from damoos.agent.proc import PAGE

SIZE = 8 << 20
OWN = os.getpid()


class Mapping:
    """Fresh memory, in pages of 4 KiB, and the blocks that lie whole within it."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.memory.madvise(mmap.MADV_NOHUGEPAGE)
        view = ctypes.c_char.from_buffer(self.memory)
        self.begin = ctypes.addressof(view)
        del view
        self.first = -(-self.begin // BLOCK) * BLOCK
        self.blocks = [*range(self.first, self.begin + SIZE - BLOCK + 1, BLOCK)]

    def touch(self, address: int) -> None:
        self.memory[address - self.begin] = 1

    def counted(self) -> dict[int, int]:
        return {at: count for at, count in resident_blocks(OWN) if at in self.blocks}


@pytest.fixture
def mapping() -> Iterator[Mapping]:
    made = Mapping()
    yield made
    made.memory.close()


def test_what_was_not_touched_is_not_there(mapping: Mapping) -> None:
    assert len(mapping.blocks) >= 7
    assert mapping.counted() == {}


def test_pages_that_were_touched_add_up(mapping: Mapping) -> None:
    # The n-th block has n * 40 of its 256 pages, the first and the last page among them.
    for nth, block in enumerate(mapping.blocks):
        for page in [*range(nth * 30 // 2), *range(256 - nth * 30 // 2, 256)]:
            mapping.touch(block + page * PAGE)
    assert mapping.counted() == {block: nth * 30 for nth, block in enumerate(mapping.blocks) if nth}


def test_a_whole_block_and_none_at_all(mapping: Mapping) -> None:
    first, second = mapping.blocks[:2]
    for at in range(first, second, PAGE):
        mapping.touch(at)
    assert mapping.counted() == {first: 256}
    mapping.memory.madvise(mmap.MADV_DONTNEED)
    assert mapping.counted() == {}


@pytest.mark.parametrize("entries", [256, 512, 1 << 16])
def test_however_much_is_read_at_once(mapping: Mapping, monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    monkeypatch.setattr(memory, "_ENTRIES", entries)
    for at in range(mapping.first, mapping.blocks[-1] + BLOCK, 3 * PAGE):
        mapping.touch(at)
    touched = range(mapping.first, mapping.blocks[-1] + BLOCK, 3 * PAGE)
    assert mapping.counted() == {at: sum(at <= one < at + BLOCK for one in touched) for at in mapping.blocks}


def test_each_page_has_an_entry_which_says_whether_it_is_there(mapping: Mapping) -> None:
    touched = [mapping.first, mapping.first + 3 * PAGE]
    for at in touched:
        mapping.touch(at)
    there = [
        start + nth * PAGE
        for start, words in page_entries(OWN)
        for nth, (entry,) in enumerate(struct.iter_unpack("=Q", words))
        if entry >> 63
    ]
    assert [at for at in there if mapping.first <= at < mapping.begin + SIZE] == touched


def test_the_blocks_of_a_process_are_in_order() -> None:
    found = resident_blocks(OWN)
    assert found == sorted(found)
    assert all(at % BLOCK == 0 and count > 0 for at, count in found)
    assert len({at for at, _ in found}) == len(found)


def test_a_process_that_has_ended_has_nothing() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert resident_blocks(done.pid) == page_entries(done.pid) == []


def test_ranges_without_others() -> None:
    assert without([(0, 10), (20, 30)], []) == [(0, 10), (20, 30)]
    assert without([(0, 10), (20, 30)], [(0, 10)]) == [(20, 30)]
    assert without([(0, 10), (20, 30)], [(2, 4), (8, 22), (29, 40)]) == [(0, 2), (4, 8), (22, 29)]
    assert without([(0, 10)], [(0, 20)]) == []


@given(*[st.sets(st.integers(0, 40)) for _ in range(2)])
def test_what_is_left_of_ranges_is_what_is_in_no_other(pages: set[int], spared: set[int]) -> None:
    def ranges(numbers: set[int]) -> list[tuple[int, int]]:
        return [(number, number + 1) for number in sorted(numbers)]

    left = without(ranges(pages), ranges(spared))
    assert {number for start, end in left for number in range(start, end)} == pages - spared


def test_no_more_is_read_than_there_is_room_for(mapping: Mapping) -> None:
    span = [(mapping.first, mapping.first + 4 * BLOCK)]
    mapping.memory[:] = b"x" * SIZE
    assert bring_back(OWN, span, SIZE) == 4 * BLOCK
    assert bring_back(OWN, span, BLOCK + 1) == BLOCK + PAGE
    assert bring_back(OWN, span, 0) == 0
    assert bring_back(OWN, span, SIZE, interrupted=lambda: True) == 0
    assert bring_back(OWN, [(1 << 46, (1 << 46) + PAGE), (mapping.first, mapping.first + PAGE)], SIZE) == PAGE


def test_the_limits_of_all_groups_around_a_process_count(tmp_path: Path) -> None:
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    files = {"outer": ("1000", "max", "400"), "outer/inner": ("max", "5000", "300")}
    for name, values in files.items():
        for file, value in zip(("memory.max", "memory.high", "memory.current"), values, strict=True):
            (tmp_path / name / file).write_text(f"{value}\n")
    assert room_bytes(inner) == 600
    (inner / "memory.current").write_text("6000\n")
    assert room_bytes(inner) == 0
    assert room_bytes(None) > 0
