"""Lock files of `damoos.machines.guest.place`, which all damoos of this host share. Reading them is enough to lock.

The kernel frees a lock when the last process that has its file open is gone, so not even SIGKILL leaves one behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from damoos import regular_file
from damoos.errors import MachineError

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # neither a link nor a pipe leads elsewhere
_held: set[int] = set()


def try_lock(path: Path) -> int | None:
    """Lock a file; the descriptor to hand to `unlock`, or None while another process has it."""
    fd = _opened(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    _held.add(fd)
    return fd


def lock(path: Path) -> int:
    """Lock a file, after all those who have been waiting for it."""
    fd = _opened(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except BaseException:
        os.close(fd)
        raise
    _held.add(fd)
    return fd


def unlock(fd: int) -> None:
    """Give a lock back."""
    _held.discard(fd)
    os.close(fd)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock for a moment."""
    fd = lock(path)
    try:
        yield
    finally:
        unlock(fd)


def locked_content(path: Path) -> bytes | None:
    """What a file holds, or None if nobody has it locked, or if it is a folder or a pipe, which any user can make."""
    try:
        fd = regular_file.descriptor(path, os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look do not take each other for its holder
        return None
    except BlockingIOError:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    try:
        return os.open(path, _READ)
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}; remove the folder {path.parent}, which is made anew") from None


def _forget() -> None:
    """A forked process would hold the locks of its parent past the parent's end."""
    for fd in _held:
        with contextlib.suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
