"""Folders in which programs run: each run gets a new one, with what its set-up made once."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from damoos.agent import children
from damoos.agent.private import data_folder
from damoos.agent.undo import UndoLog
from damoos.errors import WorkloadError

SETUP_S = 900.0
# Names of what lies in the folder for data; in one that other users have, too, nothing else shows what is damoos's.
RUN_PREFIX, SWAP_PREFIX = "damoos-run-", "damoos-swap-"


class Folders:
    """The folders of one agent; what set-ups have made is kept for as long as it lives.

    Parameters
    ----------
    log : UndoLog
        Folders are removed when it is undone.
    interrupted : callable
        Says whether the controller has cancelled or vanished.
    """

    def __init__(self, log: UndoLog, interrupted: Callable[[], bool] = lambda: False) -> None:
        self._log = log
        self._interrupted = interrupted
        self._made: dict[str, Path] = {}
        self._in_use: list[int] = []

    def prepare(self, setup: Sequence[Sequence[str]], env: Mapping[str, str]) -> Path | None:
        """A folder in which the commands of a set-up have been run one after the other, the first time only.

        Raises
        ------
        WorkloadError : a command cannot start, fails, or takes more than `SETUP_S`
        """
        if not setup:
            return None
        key = hashlib.sha256(json.dumps([setup, sorted(env.items())]).encode()).hexdigest()[:16]
        if key not in self._made:
            folder = self.new(None)
            for argv in setup:
                self._do(argv, env, folder)
            self._made[key] = folder
        return self._made[key]

    def new(self, filled: Path | None) -> Path:
        """A new folder, with a copy of another one's content; removed when the undo list is."""
        while not self._hold(folder := Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=data_folder()))):
            pass
        self._log.record("folder", path=str(folder))
        folder.chmod(0o755)  # servers that refuse root must get in
        if filled:
            self._do(["cp", "-a", f"{filled}/.", str(folder)], {}, folder)
        return folder

    def _hold(self, folder: Path) -> bool:
        """Show that a folder is in use, by a lock that nothing outlives; let go of those that are gone.

        False where an agent that looked for leftovers has removed it before the lock was there.
        """
        for fd in [fd for fd in self._in_use if os.fstat(fd).st_nlink == 0]:
            os.close(fd)
            self._in_use.remove(fd)
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        self._in_use.append(fd)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return os.fstat(fd).st_nlink > 0

    def _do(self, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        mark = len(self._log)
        with tempfile.TemporaryDirectory(prefix="damoos-output-") as name:
            outputs = Path(name) / "setup"
            child = children.spawn(argv, env, self._log, folder, outputs=outputs)
            try:
                if not children.wait(child, SETUP_S, self._interrupted):
                    raise WorkloadError(f"set-up: '{' '.join(argv)}' did not end within {SETUP_S:g} s")
            finally:
                self._log.restore(keep=mark)  # also ends what it has left running
                status = child.wait()
            if status != 0:
                errors = children.tail(outputs.with_suffix(".err")).strip()
                last = " | ".join((errors or children.tail(outputs.with_suffix(".out")).strip()).splitlines()[-3:])
                raise WorkloadError(f"set-up: '{' '.join(argv)}' ended with {status}: {last}")


def remove_leftovers(log: UndoLog) -> None:
    """Remove this user's folders and swap files whose agents are gone; they may be from before the last boot.

    What cannot be removed stays.

    Parameters
    ----------
    log : UndoLog
        What is on it stays: undoing it is more than removing it.
    """
    for path in data_folder().glob(f"{RUN_PREFIX}*"):
        if not log.names(path):
            _remove_if_left(path)
    for path in data_folder().glob(f"{SWAP_PREFIX}*"):
        if os.geteuid() == 0 and not log.names(path):  # root has one agent, and this is it
            with contextlib.suppress(OSError):
                path.unlink()


def _remove_if_left(path: Path) -> None:
    """Remove a folder that is this user's and that no agent uses; one that has just made it waits for the lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # it is another user's, no folder, or has just been removed
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(fd)
