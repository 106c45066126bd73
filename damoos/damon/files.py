"""Reading and writing the kernel's small files, with errors that name the file and the value."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from damoos.errors import MachineError, UnsupportedError

# DAMON answers EBUSY, and does not wait, while somebody else reads or writes another of its files (it tries one lock
# for all of them). That passes; what is still busy after this time, such as a second kdamond, is a refusal.
_BUSY_S = 2.0
_AGAIN_S = 0.02


def kernel_text(path: str | Path) -> str:
    """All of a kernel file. One that is read again and again is better named by a string: a `Path` is dear to make.

    Any user chooses names of processes, files, sockets and groups, and the kernel shows their bytes as they are. A byte
    that is no UTF-8 becomes a lone surrogate, as in `os.fsdecode`; carriage returns stay.
    """
    with open(path, "rb", buffering=0) as file:
        return file.read().decode(errors="surrogateescape")


def kernel_lines(path: str | Path) -> list[str]:
    """Lines of a kernel file; only a line feed ends one, since names may have what else `str.splitlines` cuts at."""
    lines = kernel_text(path).split("\n")
    return lines if lines[-1] else lines[:-1]


def write(path: Path, value: object) -> None:
    """Write one kernel file; what the kernel refuses is an error that names the file and the value."""
    _accepted(path, value, lambda: path.write_bytes(f"{value}\n".encode(errors="surrogateescape")))


def append(path: Path, value: object) -> None:
    """Append a line to a file of commands, which the kernel empties if it is opened otherwise."""

    def use() -> None:
        file = os.open(path, os.O_WRONLY | os.O_APPEND)  # Python's own mode seeks the end, which some refuse
        try:
            os.write(file, f"{value}\n".encode(errors="surrogateescape"))
        finally:
            os.close(file)

    _accepted(path, value, use)


def _accepted(path: Path, value: object, use: Callable[[], object]) -> None:
    try:
        _retried(use)
    except FileNotFoundError:
        raise UnsupportedError(f"this kernel has no {path}") from None
    except OSError as error:
        raise MachineError(f"{path}: the kernel refused '{value}': {error.strerror}") from None


def read(path: Path) -> str:
    """One kernel file without its line end."""
    try:
        return _retried(lambda: kernel_text(path)).strip()
    except FileNotFoundError:
        raise UnsupportedError(f"this kernel has no {path}") from None
    except OSError as error:
        raise MachineError(f"{path}: cannot be read: {error.strerror}") from None


_Done = TypeVar("_Done")


def _retried(use: Callable[[], _Done]) -> _Done:
    """Use a kernel file again while the kernel is busy with another one."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            return use()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:
                raise
        time.sleep(_AGAIN_S)
