"""Files that users name: regular files only, and no more of one than it can sensibly have.

Another person may have written the folder that a file is in, so a pipe of its name is not waited for, and neither
``/dev/zero`` nor a file of gigabytes is read. A pipe that the user's own shell has made, as ``<(command)`` does, is
read where a caller says so.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from damoos import regular_file

# Of files that people write by hand, and of those that programs write.
WRITTEN_BYTES = 4 << 20
MADE_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20
# What a shell puts in the place of <(command); nobody else chooses what is behind these names.
_OF_SHELL = re.compile(r"/dev/stdin|/dev/fd/\d{1,9}|/proc/self/fd/\d{1,9}", re.ASCII)
# Opens a path with flags, as `open` takes it.
Opener = Callable[[str, int], int]


def read_bytes(path: Path, most_bytes: int = MADE_BYTES, opener: Opener | None = None) -> bytes:
    """The content of a file.

    Parameters
    ----------
    path : Path
    most_bytes : int
    opener : callable or None
        Returns the descriptor that is read and then closed; None opens the path, if it is a regular file.

    Raises
    ------
    OSError : it cannot be read, is no regular file, or has more than so many bytes
    """
    content = bytearray()
    with open(path, "rb", opener=opener or _regular) as file:
        while chunk := file.read(_CHUNK_BYTES):  # not all at once: room for as much would be taken beforehand
            content += chunk
            if len(content) > most_bytes:
                raise regular_file.TooLargeError(str(path), most_bytes)
    return bytes(content)


def read_text(path: Path, most_bytes: int = WRITTEN_BYTES, opener: Opener | None = None) -> str:
    """The text of a file; the arguments are those of `read_bytes`.

    Raises
    ------
    OSError : it cannot be read, is no regular file, or has more than so many bytes
    UnicodeDecodeError : it is not UTF-8
    """
    return read_bytes(path, most_bytes, opener).decode()


def regular_or_shells(name: str, flags: int) -> int:
    """Open a regular file, or a pipe by the name that the user's shell has given it; an `Opener`.

    Raises
    ------
    OSError : it cannot be opened, or is another kind of file
    """
    if not _OF_SHELL.fullmatch(name):
        return _regular(name, flags)
    fd = os.open(name, flags | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        os.close(fd)
        raise regular_file.NotRegularError(name)
    return fd


def _regular(name: str, flags: int) -> int:
    return regular_file.descriptor(name, flags & ~os.O_ACCMODE)
