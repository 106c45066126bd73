"""Files that users name: no more of one is read than it can sensibly have, since it may be ``/dev/zero``."""

from __future__ import annotations

import errno
from pathlib import Path

# Of files that people write by hand, and of those that programs write.
WRITTEN_BYTES = 4 << 20
MADE_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20


def read_bytes(path: Path, most_bytes: int = MADE_BYTES) -> bytes:
    """The content of a file.

    Raises
    ------
    OSError : it cannot be read, or has more than so many bytes
    """
    content = bytearray()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):  # not all at once: room for as much would be taken beforehand
            content += chunk
            if len(content) > most_bytes:
                raise OSError(errno.EFBIG, f"larger than {most_bytes >> 20} MiB", str(path))
    return bytes(content)


def read_text(path: Path, most_bytes: int = WRITTEN_BYTES) -> str:
    """The text of a file.

    Raises
    ------
    OSError : it cannot be read, or has more than so many bytes
    UnicodeDecodeError : it is not UTF-8
    """
    return read_bytes(path, most_bytes).decode()
