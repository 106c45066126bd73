"""Whether a machine's keeper lives, and when it has looked at its machine last: one small file, locked by the keeper.

The file is written over in place, so a full disk does not make a keeper look late.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from damoos.agent import proc
from damoos.common import own_file
from damoos.dispatch.own_process import OwnProcess
from damoos.errors import MachineError
from damoos.ownership import user_name

# A keeper looks every few seconds, and waits for a silent machine for some minutes at most.
LATE_S = 600.0
_BYTES = 200


@dataclass(frozen=True)
class Liveness:
    """What is known of a machine's keeper.

    Parameters
    ----------
    pid : int
        Its process; 0 where there is none.
    looked_s : float, seconds since 1970
        When it has looked last, or begun; 0 for a keeper of an older damoos.
    age_s : float, seconds
        How long ago that was, whatever has happened to the computer's clock since.
    unwritten_s : float, seconds since 1970
        Since when it cannot write its journal; 0 while it can.
    """

    pid: int = 0
    looked_s: float = 0.0
    age_s: float = 0.0
    unwritten_s: float = 0.0

    @property
    def is_late(self) -> bool:
        """Whether it lives and has not looked for longer than a keeper that works."""
        return bool(self.pid and self.looked_s and self.age_s > LATE_S)


class KeeperFile:
    """The file ``.keeper`` of a journal.

    Parameters
    ----------
    folder : Path
        The journal's; the keeper's command line has it, too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / ".keeper"
        self._fd = -1

    def take(self) -> bool:
        """Become the machine's keeper for as long as this process lives; False if there is one.

        Raises
        ------
        MachineError : the file is a link, no regular file, or another user's; or the disk has no room for it, so that
            nobody would know of the keeper
        """
        try:
            fd = own_file.descriptor(self._path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise MachineError(f"{self._path}: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        try:
            os.pwrite(fd, b" " * _BYTES, 0)
        except OSError as error:
            os.close(fd)
            raise MachineError(f"{self._path}: {error.strerror}") from None
        self._fd = fd
        self.looked()
        return True

    def looked(self, unwritten_s: float = 0.0) -> None:
        """Note that the keeper has looked at its machine just now; `Liveness` says what ``unwritten_s`` is."""
        own = f"{os.getpid()} {time.time():.3f} {_steady_s():.3f} {unwritten_s:.3f}"
        words = f"{own} {proc.start_ticks(os.getpid())}"
        with contextlib.suppress(OSError):  # a disk that takes not even this makes the keeper look late
            os.pwrite(self._fd, f"{words:<{_BYTES - 1}}\n".encode(), 0)

    def leave(self) -> None:
        """Be its keeper no longer."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def liveness(self) -> Liveness:
        """What is known of the keeper; of one that is gone, when it has looked last."""
        try:
            words, process = self._read()
            times = [*map(float, words[1:4])]
        except (OSError, ValueError, IndexError):
            return Liveness()
        if not all(map(math.isfinite, times)):
            return Liveness()
        looked_s, steady_s, unwritten_s = times if len(times) == 3 else (0.0, _steady_s(), 0.0)
        return Liveness(process.pid if process.is_running else 0, looked_s, _steady_s() - steady_s, unwritten_s)

    def send(self, number: signal.Signals) -> None:
        """Send the keeper a signal; nothing happens if there is none."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            self._read()[1].send(number)

    def _read(self) -> tuple[list[str], OwnProcess]:
        """Words of the file, and the keeper that it names: a process of the user whose file it is.

        Raises
        ------
        OSError : it cannot be read, is a link, or is neither root's nor this user's
        ValueError, IndexError : it has other words
        """
        fd = own_file.descriptor(self._path, os.O_RDONLY)
        try:
            uid = os.fstat(fd).st_uid
            text = os.read(fd, _BYTES + 1)
        finally:
            os.close(fd)
        if uid not in (0, os.geteuid()):
            raise PermissionError(f"belongs to {user_name(uid)}")
        if len(text) > _BYTES:
            raise ValueError(f"has more than {_BYTES} bytes")
        words = text.decode().split()
        started = int(words[4]) if len(words) > 4 else None
        return words, OwnProcess(int(words[0]), str(self._folder), started, uid)


def _steady_s() -> float:
    """Seconds since the boot, also those in which the computer slept; every process has the same."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
