"""What others have packed: a few bytes of theirs may stand for gigabytes, so no more is unpacked than there can be."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

from pydantic import ValidationError

from damoos.common.terminal import printable
from damoos.common.user_file import MADE_BYTES

# What zlib makes smaller by more than this is no recording: those of DAMON become 5 to 32 times smaller.
RATIO = 64
# Whatever it was packed to, this much may come of it: the size of a recording that nobody has chosen (--size).
LEAST_BYTES = 64 << 20
# JSON becomes objects of Python, of which its shortest values take 20 times as much memory as their text.
_COST_OF_JSON = 4
# What a value of JSON takes in Python at most, in bytes, by a sign that comes with it: a list, a dict, a value in one
# of them, a key.
_OBJECT_BYTES = {"[": 72, "{": 200, ",": 64, ":": 60}
# What Python raises where data has another form than the code that reads it expects.
MALFORMED = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError, struct.error,
)  # fmt: skip


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
        ValueError : it is not whole, or all parts together are larger than there can be
        """
        return self._taken(packed, 1)

    def text(self, packed: str) -> bytes:
        """A part that zlib has packed and base64 has made printable, as an agent does.

        Raises
        ------
        ValueError : as of `zlib`
        """
        return self._taken(base64.b64decode(packed), 1)

    def json(self, packed: str) -> Any:
        """The value of a part that is JSON, packed as for `text`; it counts for more than its text.

        Raises
        ------
        ValueError : as of `zlib`, or it is no JSON
        """
        return parsed(self._taken(base64.b64decode(packed), _COST_OF_JSON))

    def _taken(self, packed: bytes, cost: int) -> bytes:
        unpacking = zlib.decompressobj()
        try:
            # One byte more shows that there is more; 0 would mean no bound.
            data = unpacking.decompress(packed, self._left // cost + 1)
        except zlib.error as error:
            raise ValueError(f"it cannot be unpacked: {error}") from None
        self._left -= cost * len(data)
        if self._left < 0:
            raise ValueError(f"unpacked, it is larger than {self._most >> 20} MiB, and no recording of its size can be")
        if not unpacking.eof:
            raise ValueError("it cannot be unpacked: it is cut off")
        return data


def objects_bytes(text: str) -> int:
    """What the values of a JSON text take in Python at most, without the letters of its strings.

    It costs little beside parsing. A sign within a string counts as well.
    """
    return sum(size * text.count(sign) for sign, size in _OBJECT_BYTES.items())


def parsed(text: str | bytes, most_bytes: int | None = None) -> Any:
    """The value of a JSON text of somebody else's.

    Parameters
    ----------
    text : str or bytes
        Bytes are UTF-8.
    most_bytes : int or None
        What its values may take, see `objects_bytes`.

    Raises
    ------
    ValueError : it is none, too deep to be anything, or has more values
    """
    text = text if isinstance(text, str) else text.decode()
    if most_bytes is not None and objects_bytes(text) > most_bytes:
        raise ValueError("it has more values than anything of its length that damoos or damo writes")
    try:
        return json.loads(text)
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
