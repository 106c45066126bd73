"""Folders in which programs run: each run gets a new one, with what its set-up made once."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from damoos.agent import children
from damoos.agent.undo import UndoLog
from damoos.errors import WorkloadError

# On a disk, not in memory: data that a server reads must not count as memory twice.
BASE = Path("/var/tmp")
SETUP_S = 900.0


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
        folder = Path(tempfile.mkdtemp(prefix="damoos-run-", dir=BASE if os.access(BASE, os.W_OK) else None))
        self._log.record("folder", path=str(folder))
        folder.chmod(0o755)  # servers that refuse root must get in
        if filled:
            self._do(["cp", "-a", f"{filled}/.", str(folder)], {}, folder)
        return folder

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
                said = children.tail(outputs.with_suffix(".err")).strip()
                last = " | ".join((said or children.tail(outputs.with_suffix(".out")).strip()).splitlines()[-3:])
                raise WorkloadError(f"set-up: '{' '.join(argv)}' ended with {status}: {last}")
