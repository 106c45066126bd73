"""Folders in which programs run: each run gets a new one, with what its set-up made once.

Each belongs to the run's user, and no other user gets in: sockets and data of servers lie there.
"""

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
from damoos.agent.accounts import Account
from damoos.agent.confinement import UNCONFINED, Confinement
from damoos.agent.private import data_folder
from damoos.agent.removal import remove_tree
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
        self._within_reach: dict[str, Path] = {}
        self._in_use: list[int] = []

    def prepare(
        self, setup: Sequence[Sequence[str]], env: Mapping[str, str], confinement: Confinement = UNCONFINED
    ) -> Path | None:
        """A folder in which the commands of a set-up have been run one after the other, the first time only.

        Raises
        ------
        WorkloadError : a command cannot start, fails, or takes more than `SETUP_S`
        """
        if not setup:
            return None
        key = _key(setup, sorted(env.items()), confinement.key)
        if key not in self._made:
            folder = self.new(None, confinement)
            for argv in setup:
                self._do(argv, env, folder, confinement)
            self._made[key] = folder
        return self._made[key]

    def new(self, filled: Path | None, confinement: Confinement = UNCONFINED) -> Path:
        """A new folder of the run's user, with a copy of another one's content; removed when the undo list is."""
        while not self._hold(folder := Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=data_folder()))):
            pass
        self._log.record("folder", path=str(folder))
        if confinement.account:
            os.chown(folder, confinement.account.uid, confinement.account.gid)
        if filled:
            self._do(["cp", "-a", f"{filled}/.", str(folder)], {}, folder, confinement)
        return folder

    def within_reach(self, brought: Sequence[str], account: Account | None) -> dict[str, str]:
        """Paths at which a run's user can read files that the controller has brought, by the paths of the files.

        What is brought lies in a folder of the agent's or the controller's user, and nobody else gets in there. A copy
        is for its user only, too. Nothing is copied for the agent's own user.
        """
        if account is None:
            return {}
        return {path: str(self._copy(Path(path), account)) for path in brought}

    def _copy(self, path: Path, account: Account) -> Path:
        status = path.stat()
        key = _key(str(path), status.st_mtime_ns, status.st_size, account.uid)
        if key not in self._within_reach:
            folder = self.new(None)  # the agent's own, so that no link in it is of the user's making
            folder.chmod(0o711)
            copy = Path(shutil.copyfile(path, folder / path.name))
            copy.chmod(0o500 if status.st_mode & 0o111 else 0o400)
            os.chown(copy, account.uid, account.gid)
            self._within_reach[key] = copy
        return self._within_reach[key]

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

    def _do(self, argv: Sequence[str], env: Mapping[str, str], folder: Path, confinement: Confinement) -> None:
        mark = len(self._log)
        with tempfile.TemporaryDirectory(prefix="damoos-output-") as name:
            outputs = Path(name) / "setup"
            child = children.spawn(argv, env, self._log, folder, outputs=outputs, confinement=confinement)
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


def _key(*what: object) -> str:
    """A name of what some values stand for."""
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


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
    """Remove a folder that is this user's and that no agent uses; one that has just made it waits for the lock.

    All folders in root's folder for data are root's to remove: those of runs belong to the users of the runs.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # it is another user's, no folder, or has just been removed
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.geteuid() in (0, os.fstat(fd).st_uid):
            with contextlib.suppress(OSError):
                remove_tree(path)
    except BlockingIOError:
        return
    finally:
        os.close(fd)
