"""Which agent has the machine: one at a time, known by a lock.

A controller that has lost its connection comes back while its former agent still waits for the dead-man timer. It shows
the secret of the connection that broke, and the agent that was started with it makes way at once, as if its timer had
ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from damoos.agent import proc
from damoos.errors import MachineBusy

_POLL_S = 0.05


def lock(folder: Path, token: str, former: Sequence[str], begin_s: float, make_way_s: float) -> None:
    """Take the lock for as long as this process lives, and its guardian.

    Parameters
    ----------
    folder : Path
        Private to this user.
    token : str
        The secret of this connection.
    former : sequence of str
        Those of its controller's connections that broke.
    begin_s, make_way_s : float
        How long another agent is waited for that works, and one that is about to be gone.

    Raises
    ------
    MachineBusy : the agent of another connection has it
    """
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)  # never closed
    deadline, leaving = time.monotonic() + begin_s, False
    while not _try_lock(fd):
        if not leaving and _makes_way(fd, former):
            deadline, leaving = time.monotonic() + make_way_s, True
        if time.monotonic() > deadline:
            raise MachineBusy("another damoos agent works on this machine")
        time.sleep(_POLL_S)
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps([token, os.getpid(), proc.start_ticks(os.getpid())]).encode(), 0)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _makes_way(fd: int, former: Sequence[str]) -> bool:
    """Whether the agent that has the lock is about to be gone.

    Either it has ended, and its guardian cleans up; or its connection broke, and then it is asked to end.
    """
    try:
        its_token, pid, started = json.loads(os.pread(fd, 4096, 0))
    except ValueError:
        return False  # it has just begun
    if proc.start_ticks(pid) != started:
        return True
    if its_token not in former:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return True
