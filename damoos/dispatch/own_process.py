"""A process of damoos's own that a file names: told from one that has got its number since, and from another user's.

A command line is no proof: any user can write any words there, and numbers of processes are given again.
"""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass

from damoos.agent import proc


@dataclass(frozen=True)
class OwnProcess:
    """A process as the file says that it leaves behind.

    Parameters
    ----------
    pid : int
        Its number.
    word : str
        A word of its command line. Of a file of an older damoos, which says no start, this alone tells the process from
        others of the same user.
    start_ticks : int or None
        When it began, see `damoos.agent.proc.start_ticks`; None in a file of an older damoos.
    uid : int or None
        Whose it is, by all of its user ids: a program with the set-user-id bit has its user's words and root's rights.
        None for this process's user.
    """

    pid: int
    word: str
    start_ticks: int | None = None
    uid: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether it is there."""
        uid = os.geteuid() if self.uid is None else self.uid
        if self.pid <= 0 or {*proc.uids(self.pid)} != {uid}:
            return False
        if self.start_ticks is not None and self.start_ticks != proc.start_ticks(self.pid):
            return False
        return self.word.encode() in _words(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens if it is gone, whatever has its number."""
        try:
            handle = os.pidfd_open(self.pid)  # of what is looked at now, and of nothing that comes later
        except (OSError, OverflowError) as error:
            if getattr(error, "errno", None) == errno.ENOSYS and self.is_running:  # before Linux 5.3
                os.kill(self.pid, number)
            return
        try:
            if self.is_running:
                signal.pidfd_send_signal(handle, number)
        except OSError:  # it has just ended
            return
        finally:
            os.close(handle)


def _words(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
