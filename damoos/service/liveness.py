"""Whether a machine's keeper lives, and when it has looked at its machine last: one small file, locked by the keeper.

The file is written over in place, so a full disk does not make a keeper look late.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

from damoos import regular_file
from damoos.common import own_file
from damoos.errors import MachineError

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
        MachineError : the file is a link, no regular file, or another user's
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
        self._fd = fd
        os.pwrite(fd, b" " * _BYTES, 0)
        self.looked()
        return True

    def looked(self, unwritten_s: float = 0.0) -> None:
        """Note that the keeper has looked at its machine just now; `Liveness` says what ``unwritten_s`` is."""
        words = f"{os.getpid()} {time.time():.3f} {_steady_s():.3f} {unwritten_s:.3f}"
        with contextlib.suppress(OSError):  # a disk that takes not even this makes the keeper look late
            os.pwrite(self._fd, f"{words:<{_BYTES - 1}}\n".encode(), 0)

    def leave(self) -> None:
        """Be its keeper no longer."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def liveness(self) -> Liveness:
        """What is known of the keeper; of one that is gone, when it has looked last."""
        try:
            words = regular_file.whole(self._path, _BYTES).decode().split()
            pid, *times = int(words[0]), *map(float, words[1:])
        except (OSError, ValueError, IndexError):
            return Liveness()
        if not all(map(math.isfinite, times)):
            return Liveness()
        looked_s, steady_s, unwritten_s = times if len(times) == 3 else (0.0, _steady_s(), 0.0)
        return Liveness(pid if self._is_keeper(pid) else 0, looked_s, _steady_s() - steady_s, unwritten_s)

    def _is_keeper(self, pid: int) -> bool:
        """Whether a process is this journal's keeper, and not another one that has got its number."""
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return str(self._folder).encode() in words


def _steady_s() -> float:
    """Seconds since the boot, also those in which the computer slept; every process has the same."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
