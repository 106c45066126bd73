"""Lock files that all damoos of this host share, whoever's they are.

The kernel frees a lock when the last process that has its file open is gone, so not even SIGKILL leaves one behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from damoos.errors import MachineError

_OPEN_TRIES = 100
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # neither a link nor a pipe of somebody's leads elsewhere
_held: set[int] = set()


def place() -> Path:
    """The folder of the lock files, in the host's temporary folder; made if need be.

    Raises
    ------
    MachineError : something else has its name
    """
    folder = Path(tempfile.gettempdir()) / "damoos-reserved"
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)  # for every user, and none of them removes another's files
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise MachineError(f"{folder} is not a folder; remove it")
    return folder


def try_lock(path: Path) -> int | None:
    """Lock a file, made if need be; the descriptor to hand to `unlock`, or None while somebody else has it."""
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
    """What a file holds, or None if nobody has it locked."""
    try:
        fd = os.open(path, _READ)
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
    for _ in range(_OPEN_TRIES):
        try:
            return os.open(path, _READ)
        except FileNotFoundError:
            # O_CREAT only with O_EXCL: fs.protected_regular forbids it on files of others
            with contextlib.suppress(FileExistsError):
                fd = os.open(path, _READ | os.O_CREAT | os.O_EXCL, 0o644)
                os.fchmod(fd, 0o644)  # whatever the umask
                return fd
        except PermissionError:
            time.sleep(0.01)  # its maker has not come to the line above
        except OSError as error:
            raise MachineError(f"{path}: {error.strerror}; remove it") from None
    raise MachineError(f"{path} cannot be read; remove it")


def _forget() -> None:
    """A forked process would hold the locks of its parent past the parent's end."""
    for fd in _held:
        with contextlib.suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
