"""What others have packed is unpacked to no more than there can be."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import zlib
from collections.abc import Callable

import pytest

from damoos.common.unpack import TooMuch, Unpacker

Pack = Callable[[bytes], bytes]


def zstd(plain: bytes) -> bytes:
    return subprocess.run(["zstd", "-qc"], input=plain, capture_output=True, check=True).stdout


PACKS = pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd, bytes])


@PACKS
def test_what_is_packed_is_unpacked_and_counts(pack: Pack) -> None:
    unpack = Unpacker(2000)
    assert unpack.packed_or_plain(pack(b"a" * 1000)) == b"a" * 1000
    assert unpack.packed_or_plain(pack(b"b" * 1000)) == b"b" * 1000
    with pytest.raises(TooMuch, match="unpacked, it is larger than"):
        unpack.packed_or_plain(pack(b"c"))


@PACKS
@pytest.mark.slow
def test_no_more_is_unpacked_than_there_can_be(pack: Pack) -> None:
    with pytest.raises(TooMuch, match="unpacked, it is larger than 1 MiB"):
        Unpacker(1 << 20).packed_or_plain(pack(bytes(100 << 20)))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd])
@pytest.mark.parametrize("break_it", [lambda packed: packed[:-2], lambda packed: packed[:20] + b"\xff" * 40])
def test_what_is_broken_is_told(pack: Pack, break_it: Pack) -> None:
    packed = pack(bytes(range(256)) * 10)
    with pytest.raises(ValueError, match="it cannot be unpacked: ") as told:
        Unpacker(1 << 20).packed_or_plain(break_it(packed))
    assert not isinstance(told.value, TooMuch)


def test_a_dictionary_of_gigabytes_is_not_made_room_for() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    packed = bytearray(lzma.compress(b"a" * 100, filters=filters, check=lzma.CHECK_NONE))
    at = packed.index(b"\x21\x01", 12) + 2  # of the header of the block: the filter, the size of what follows
    packed[at] = 40  # 4 GiB
    end = 12 + 4 * (packed[12] + 1) - 4
    packed[end : end + 4] = zlib.crc32(packed[12:end]).to_bytes(4, "little")
    with pytest.raises(ValueError, match="it cannot be unpacked: Memory usage limit exceeded"):
        Unpacker(1 << 20).packed_or_plain(bytes(packed))
