"""Files that users name: no more of one is read than it can sensibly have, since it may be ``/dev/zero``."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

# Of files that people write by hand, and of those that programs write.
WRITTEN_BYTES = 4 << 20
MADE_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20
# Opens a path with flags, as `open` takes it.
Opener = Callable[[str, int], int]


def read_bytes(path: Path, most_bytes: int = MADE_BYTES, opener: Opener | None = None) -> bytes:
    """The content of a file.

    Parameters
    ----------
    opener : callable or None
        Returns the descriptor that is read and then closed; None opens the path.

    Raises
    ------
    OSError : it cannot be read, or has more than so many bytes
    """
    content = bytearray()
    with open(path, "rb", opener=opener) as file:
        while chunk := file.read(_CHUNK_BYTES):  # not all at once: room for as much would be taken beforehand
            content += chunk
            if len(content) > most_bytes:
                raise OSError(errno.EFBIG, f"larger than {most_bytes >> 20} MiB", str(path))
    return bytes(content)


def read_text(path: Path, most_bytes: int = WRITTEN_BYTES, opener: Opener | None = None) -> str:
    """The text of a file; the arguments are those of `read_bytes`.

    Raises
    ------
    OSError : it cannot be read, or has more than so many bytes
    UnicodeDecodeError : it is not UTF-8
    """
    return read_bytes(path, most_bytes, opener).decode()
