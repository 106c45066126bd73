"""The counts of accesses that an emulator lays into a guest's memory, as the agent reads them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from damoos.agent.access_counts import COUNTED, access_counts

MAGIC = int.from_bytes(b"DMOSACC1", "little")
WANTED = 64
CPU_BYTES = 24 * 8


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """Counts of two nodes and three CPUs: accesses on node 0, ten times as many on node 1, half of them missed."""
    folder = tmp_path / "0000:00:01.0"
    folder.mkdir()
    (folder / "vendor").write_text("0x1af4\n")
    (folder / "device").write_text("0x1110\n")
    (folder / "enable").write_text("0\n")
    memory = bytearray(8192)
    struct.pack_into("<8Q", memory, 0, MAGIC, 1, 2, 3, 128, 4096, 100, 1 << 20)
    for cpu in range(3):
        struct.pack_into("<2Q", memory, 128 + cpu * CPU_BYTES, 2 * (cpu + 1), 20 * (cpu + 1))
        struct.pack_into("<2Q", memory, 128 + cpu * CPU_BYTES + 64, cpu + 1, 10 * (cpu + 1))
    (folder / "resource2").write_bytes(memory)
    (tmp_path / "cmdline").write_text(f"quiet {COUNTED}\n")
    return folder


def test_all_cpus_together(device: Path) -> None:
    counts = access_counts(device.parent, device.parent / "cmdline")
    assert counts is not None
    assert counts.read() == {}
    counts.start()
    assert counts.read() == {"accesses_n0": 12, "accesses_n1": 120, "misses_n0": 6, "misses_n1": 60}
    assert (device / "enable").read_text() == "1"


def test_it_counts_when_it_is_asked_to(device: Path) -> None:
    counts = access_counts(device.parent, device.parent / "cmdline")
    assert counts is not None
    counts.start()
    assert struct.unpack_from("<Q", (device / "resource2").read_bytes(), WANTED) == (1,)
    counts.stop()
    assert struct.unpack_from("<Q", (device / "resource2").read_bytes(), WANTED) == (0,)


@pytest.mark.parametrize(
    ("file", "text"), [("device", b"0x1000\n"), ("resource2", bytes(8192)), ("resource2", b"short")]
)
def test_another_device_counts_nothing(device: Path, file: str, text: bytes) -> None:
    (device / file).write_bytes(text)
    assert access_counts(device.parent, device.parent / "cmdline") is None


def test_no_device_is_touched_unless_damoos_has_booted_this_machine(device: Path) -> None:
    (device.parent / "cmdline").write_text("quiet\n")
    assert access_counts(device.parent, device.parent / "cmdline") is None
    assert (device / "enable").read_text() == "0\n"


def test_this_host_has_none() -> None:
    assert access_counts() is None


def test_counts_by_page_are_those_since_the_last_time(device: Path) -> None:
    memory = bytearray((device / "resource2").read_bytes())
    struct.pack_into("<3I", memory, 4096, 7, 0, 9)
    (device / "resource2").write_bytes(memory)
    access_counts.cache_clear()
    counts = access_counts(device.parent, device.parent / "cmdline")
    assert counts is not None
    assert counts.pages() == struct.pack("<3I", 7, 0, 9) + bytes(4096 - 12)
    assert counts.pages() == bytes(4096)
    counts.start(by_page=True)
    assert struct.unpack_from("<Q", (device / "resource2").read_bytes(), WANTED) == (1 | 2 | 8,)
