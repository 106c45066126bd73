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
from damoos.machines.base import DEAD_MAN_S
from damoos.machines.patience import MOVING_S
from damoos.ownership import user_name
from damoos.service.forms import MOST_S

# A keeper looks every few seconds, and waits for a silent machine for some minutes at most.
LATE_S = 600.0
OFF_BY_ITSELF_S = MOVING_S + 2 * DEAD_MAN_S
"""A machine that no keeper has had for so long has taken off what does not stay: the longest call may have been under
way, and then the agent's time ends, and it undoes what it has done."""
_BYTES = 200
# How often a keeper tries to take a lock that somebody may hold for a moment, to see whether it is held.
_LOOKS = 20


@dataclass(frozen=True)
class Liveness:
    """What is known of a machine's keeper.

    Parameters
    ----------
    pid : int
        Its process; 0 where there is none on this computer, as this process sees it.
    lives : bool
        Whether there is a keeper, be it in another container or on another computer: it holds the lock of the file.
    looked_s : float, seconds since 1970
        When it has looked last, or begun; 0 for a keeper of an older damoos.
    age_s : float, seconds
        How long ago that was, whatever has happened to the computer's clock since. Of a keeper that counts the seconds
        since another boot, on another computer, say, this is by the clocks of both.
    unwritten_s : float, seconds since 1970
        Since when it cannot write its journal; 0 while it can.
    silent_s : float, seconds
        For how long at least no keeper has had the machine, be it that the keeper is gone or that the machine does not
        answer. It is 0 where that is not known, as of a keeper that counts the seconds since another boot.
    """

    pid: int = 0
    lives: bool = False
    looked_s: float = 0.0
    age_s: float = 0.0
    unwritten_s: float = 0.0
    silent_s: float = 0.0

    @property
    def name(self) -> str:
        """The keeper as a message calls it."""
        return f"keeper process {self.pid}" if self.pid else "the keeper, in another container or on another computer,"

    @property
    def is_late(self) -> bool:
        """Whether it lives and has not looked for longer than a keeper that works."""
        return bool(self.lives and self.looked_s and self.age_s > LATE_S)

    @property
    def is_off_by_itself(self) -> bool:
        """Whether the machine has had the time to take off what does not stay without a keeper."""
        return self.silent_s >= OFF_BY_ITSELF_S


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
        self._had_s = 0.0

    def take(self) -> bool:
        """Become the machine's keeper for as long as this process lives; False if there is one.

        Raises
        ------
        MachineError : the file is a link, no regular file, or another user's; or the disk has no room for it, so that
            nobody would know of the keeper
        """
        self._had_s = self._had_before_s()
        try:
            fd = own_file.lock(self._path)
        except OSError as error:
            raise MachineError(f"{self._path}: {error.strerror}") from None
        try:
            if not _lock(fd):
                os.close(fd)
                return False
            os.pwrite(fd, b" " * _BYTES, 0)
        except OSError as error:
            os.close(fd)
            raise MachineError(f"{self._path}: {error.strerror}") from None
        self._fd = fd
        self.looked()
        return True

    def _had_before_s(self) -> float:
        """When the keeper before has had its machine; now, if it was another boot's or is not known, 0 for none."""
        try:
            words = self._read()[0]
            return self._times(words)[3] if _is_of_this_boot(words) else _steady_s()
        except FileNotFoundError:
            return 0.0
        except (OSError, ValueError, IndexError):
            return _steady_s()

    def looked(self, unwritten_s: float = 0.0, *, has_machine: bool = False) -> None:
        """Note that the keeper has looked just now.

        Parameters
        ----------
        unwritten_s : float
            See `Liveness`.
        has_machine : bool
            Whether its machine has answered.
        """
        # Rounded down: who looks within the same millisecond would read a time to come, and take it for another boot's.
        now_s = math.floor(_steady_s() * 1000) / 1000
        self._had_s = now_s if has_machine else self._had_s
        own = f"{os.getpid()} {time.time():.3f} {now_s:.3f} {unwritten_s:.3f}"
        words = f"{own} {proc.start_ticks(os.getpid())} {self._had_s:.3f} {_boot()}"
        with contextlib.suppress(OSError):  # a disk that takes not even this makes the keeper look late
            os.pwrite(self._fd, f"{words:<{_BYTES - 1}}\n".encode(), 0)

    def leave(self) -> None:
        """Be its keeper no longer."""
        os.close(self._fd)

    def liveness(self) -> Liveness:
        """What is known of the keeper; of one that is gone, when it has looked last."""
        try:
            lives = self._is_held()
            words, process = self._read()
        except FileNotFoundError:  # there has been none
            return Liveness(silent_s=math.inf)
        except (OSError, ValueError, IndexError):
            return Liveness()
        try:
            looked_s, steady_s, unwritten_s, had_s = self._times(words)
        except (ValueError, IndexError):
            return Liveness(lives=lives)
        pid = process.pid if lives and process.is_running else 0
        if not _is_of_this_boot(words):
            age_s = max(time.time() - looked_s, 0.0) if looked_s else 0.0
            return Liveness(pid, lives, looked_s, age_s, unwritten_s, 0.0)
        # A host that has booted a minute ago has no keeper of long ago either: none has ever had the machine.
        silent_s = _since(had_s) if had_s else math.inf
        return Liveness(pid, lives, looked_s, _since(steady_s), unwritten_s, silent_s)

    def send(self, number: signal.Signals) -> None:
        """Send the keeper a signal; nothing happens if there is none."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            self._read()[1].send(number)

    def _is_held(self) -> bool:
        """Whether a keeper holds the lock: wherever it is, its process need not be one of those that are seen here."""
        fd = own_file.descriptor(self._path, os.O_RDONLY)
        try:
            return not _lock(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    @staticmethod
    def _times(words: list[str]) -> tuple[float, float, float, float]:
        """When the keeper has looked last (of both clocks), since when it cannot write, when it has had its machine.

        Raises
        ------
        ValueError, IndexError : these are no times
        """
        if len(words) == 1:  # of an older damoos
            return 0.0, _steady_s(), 0.0, _steady_s()
        looked_s, steady_s, unwritten_s, had_s = map(float, [*words[1:4], words[5] if len(words) > 5 else words[2]])
        if not all(0.0 <= one <= MOST_S for one in (looked_s, steady_s, unwritten_s, had_s)):
            raise ValueError("it has numbers that are no times")
        return looked_s, steady_s, unwritten_s, had_s

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


def _boot() -> str:
    """By which boot, of which computer, and in which time namespace `_steady_s` counts here."""
    try:
        return f"{proc.boot_id()}/{os.stat('/proc/self/ns/time').st_ino}"
    except OSError:  # of a kernel without time namespaces
        return f"{proc.boot_id()}/0"


def _is_of_this_boot(words: list[str]) -> bool:
    """Whether the steady seconds of a keeper's file are counted as here."""
    return len(words) > 6 and words[6] == _boot()


def _steady_s() -> float:
    """Seconds since the boot, also those in which the computer slept; every process has the same."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _since(then_s: float) -> float:
    """Seconds since then, or since the boot, if that was later."""
    now_s = _steady_s()
    return now_s - then_s if then_s <= now_s else now_s


def _lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock a file for as long as it is open; False if a keeper has it, and not only somebody who looks whether one has.

    Raises
    ------
    OSError : the file system knows no locks
    """
    for _ in range(_LOOKS):
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if kind == fcntl.LOCK_SH:
                break
            time.sleep(0.01)
    return False
