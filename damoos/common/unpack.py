"""What others have packed: a few bytes of theirs may stand for gigabytes, so no more is unpacked than there can be."""

from __future__ import annotations

import base64
import json
import lzma
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from pydantic import ValidationError

from damoos.common import host_programs
from damoos.common.terminal import printable
from damoos.common.user_file import MADE_BYTES

# What zlib makes smaller by more than this is no recording: those of DAMON become 5 to 32 times smaller.
RATIO = 64
# Whatever it was packed to, this much may come of it: the size of a recording that nobody has chosen (--size).
LEAST_BYTES = 64 << 20
# JSON becomes objects of Python, of which its shortest values take 20 times as much memory as their text.
_COST_OF_JSON = 4
# Of memory that xz may take for itself: four times what packing a kernel's image with the largest dictionary needs.
_XZ_BYTES = 512 << 20
_CHUNK_BYTES = 1 << 20
# Of the largest number that a kernel counts to, 2**64.
_MOST_DIGITS = 20
# A number of others' is nearer to 0 than this, or it cannot be computed with.
MOST_NUMBER = 1e300
# What a value of JSON takes in Python at most, in bytes, by a sign that comes with it: a list, a dict, a value in one
# of them, a key.
_OBJECT_BYTES = {"[": 72, "{": 200, ",": 64, ":": 60}
# What Python raises where data has another form than the code that reads it expects.
MALFORMED = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError, struct.error,
)  # fmt: skip


class TooMuch(ValueError):
    """Something that stands for more bytes than anything honest of its size."""


class _Unpacking(Protocol):
    """What Python's modules for zlib and xz have in common."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Unpacker:
    """Unpacks the parts of one recording, or of whatever else came together.

    Parameters
    ----------
    most_bytes : int
        What all parts together may have once they are unpacked.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = self._left = most_bytes

    @classmethod
    def of(cls, packed_bytes: int, ratio: int = RATIO) -> Unpacker:
        """For parts that have so many bytes as they are.

        Parameters
        ----------
        packed_bytes : int
        ratio : int
            By how much they can have been packed.
        """
        return cls(min(MADE_BYTES, max(LEAST_BYTES, ratio * packed_bytes)))

    def zlib(self, packed: bytes) -> bytes:
        """A part that zlib has packed.

        Raises
        ------
        TooMuch : all parts together are larger than there can be
        ValueError : it is not whole
        """
        return self._taken(zlib.decompressobj(), packed, 1)

    def packed_or_plain(self, content: bytes) -> bytes:
        """A part that gzip, xz or zstd may have packed; any other comes back as it is, and counts, too.

        Raises
        ------
        TooMuch, ValueError : as of `zlib`
        FileNotFoundError : zstd has packed it, and this host has no zstd
        """
        if content.startswith(b"\x1f\x8b"):
            return self._taken(zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), content, 1)
        if content.startswith(b"\xfd7zXZ\0"):
            return self._taken(lzma.LZMADecompressor(memlimit=_XZ_BYTES), content, 1)
        return self._counted(self._zstd(content) if content.startswith(b"\x28\xb5\x2f\xfd") else content, 1)

    def text(self, packed: str) -> bytes:
        """A part that zlib has packed and base64 has made printable, as an agent does.

        Raises
        ------
        ValueError : as of `zlib`
        """
        return self._taken(zlib.decompressobj(), base64.b64decode(packed), 1)

    def json(self, packed: str) -> Any:
        """The value of a part that is JSON, packed as for `text`; it counts for more than its text.

        Raises
        ------
        ValueError : as of `zlib`, or it is no JSON
        """
        return parsed(self._taken(zlib.decompressobj(), base64.b64decode(packed), _COST_OF_JSON))

    def _taken(self, unpacking: _Unpacking, packed: bytes, cost: int) -> bytes:
        try:
            # One byte more shows that there is more; 0 would mean no bound.
            data = unpacking.decompress(packed, self._left // cost + 1)
        except (zlib.error, lzma.LZMAError) as error:
            raise ValueError(f"it cannot be unpacked: {error}") from None
        self._counted(data, cost)
        if not unpacking.eof:
            raise ValueError("it cannot be unpacked: it is cut off")
        return data

    def _counted(self, data: bytes, cost: int) -> bytes:
        self._left -= cost * len(data)
        if self._left < 0:
            raise TooMuch(f"unpacked, it is larger than {self._most >> 20} MiB, and nothing honest of its size can be")
        return data

    def _zstd(self, packed: bytes) -> bytes:
        """What the program says of a part; of more than there can be, little more."""
        with tempfile.TemporaryFile() as given:
            given.write(packed)
            given.seek(0)
            child = subprocess.Popen(
                ["zstd", "-dcq"], cwd=host_programs.FOLDER, env=host_programs.environment(), stdin=given,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        data = bytearray()
        with child:
            assert child.stdout is not None
            assert child.stderr is not None
            while len(data) <= self._left and (chunk := child.stdout.read(_CHUNK_BYTES)):
                data += chunk
            if len(data) > self._left:
                child.kill()
            said = child.stderr.read().decode(errors="replace").strip()
        if child.returncode and len(data) <= self._left:
            raise ValueError(f"it cannot be unpacked: {said}")
        return bytes(data)


def objects_bytes(text: str) -> int:
    """What the values of a JSON text take in Python at most, without the letters of its strings.

    It costs little beside parsing. A sign within a string counts as well.
    """
    return sum(size * text.count(sign) for sign, size in _OBJECT_BYTES.items())


def _number(kind: type[float] | type[int]) -> Callable[[str], float]:
    """Reads a number that can be computed with."""

    def read(text: str) -> float:
        if (kind is int and len(text) > _MOST_DIGITS) or not abs(value := kind(text)) < 10.0**_MOST_DIGITS:
            raise ValueError(f"{text[:40]} is no number that can be computed with")
        return value

    return read


def parsed(text: str | bytes, most_bytes: int | None = None, is_finite: bool = False) -> Any:
    """The value of a JSON text of somebody else's.

    Parameters
    ----------
    text : str or bytes
        Bytes are UTF-8.
    most_bytes : int or None
        What its values may take, see `objects_bytes`.
    is_finite : bool
        Whether ``NaN``, ``Infinity`` and numbers from 1e20 on are errors.

    Raises
    ------
    ValueError : it is none, too deep to be anything, or has more values or other numbers
    """
    text = text if isinstance(text, str) else text.decode()
    if most_bytes is not None and objects_bytes(text) > most_bytes:
        raise ValueError("it has more values than anything of its length that damoos or damo writes")
    whole, real = (_number(int), _number(float)) if is_finite else (None, None)
    try:
        return json.loads(text, parse_int=whole, parse_float=real, parse_constant=real)
    except RecursionError:
        raise ValueError("it has more levels than anything that damoos or damo writes") from None


def in_short(error: BaseException) -> str:
    """What is wrong with something malformed, in a few words; of Pydantic's errors the first."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        text = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, "))))
    else:
        text = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else str(error)
    return printable(" ".join((text or type(error).__name__).split())[:200])
