"""A scheme kept on a process that damoos does not wait for: what ``damoos apply`` holds until ``damoos stop``."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from damoos.agent import children, proc
from damoos.agent.folders import Folders
from damoos.agent.schemes import SchemeOnProcess
from damoos.agent.undo import UndoLog
from damoos.damon.damo_json import context_from_json
from damoos.errors import DamoosError, MachineError


class Service:
    """A process, started here or running already, with schemes on it.

    Parameters
    ----------
    spec : dict
        ``context`` (damo's JSON) and either ``pid`` or ``argv`` with ``env``, ``setup`` and ``stdin``. ``started``, of
        an earlier ``apply``, says which process had that pid then.

    Raises
    ------
    MachineError : there is no such process, or another one has its id now
    """

    def __init__(self, spec: dict[str, Any], log: UndoLog, folders: Folders) -> None:
        filled = None if spec.get("pid") else folders.prepare(spec.get("setup", ()), spec["env"])
        self._log = log
        self._mark = len(log)
        self._folder = Path() if spec.get("pid") else folders.new(filled)
        self._child: subprocess.Popen[bytes] | None = None
        self._start = time.monotonic()
        self.pid = int(spec["pid"]) if spec.get("pid") else self._spawn(spec)
        if not os.path.exists(f"/proc/{self.pid}"):
            raise MachineError(f"there is no process {self.pid} on this machine")
        self.started = proc.start_ticks(self.pid)
        if spec.get("started", self.started) != self.started:
            raise MachineError(f"process {self.pid} has ended, and another one has its id now")
        self._context = context_from_json(spec["context"])
        self._scheme = SchemeOnProcess(self._context, log)
        self._scheme.__enter__()
        try:
            self.accepted = self._scheme.start(self.pid)
        except BaseException:
            self.stop()
            raise

    def _spawn(self, spec: dict[str, Any]) -> int:
        stdin = Path(spec["stdin"]) if spec.get("stdin") else None
        self._child = children.spawn(spec["argv"], spec["env"], self._log, self._folder, stdin)
        return self._child.pid

    def status(self) -> dict[str, Any]:
        """How the process and its scheme are doing; also takes new children under the scheme."""
        ended = self._child.poll() if self._child else None
        pids = proc.descendants(self.pid)
        alive = bool(pids) and ended is None
        state = {"pid": self.pid, "alive": alive, "for_s": time.monotonic() - self._start, "in_force": False}
        if alive and self._scheme.kdamond.is_on():
            try:
                state |= self._in_force(pids)
            except DamoosError:
                if self._scheme.kdamond.is_on():
                    raise  # else the kdamond has ended in the middle of it
        return state

    def _in_force(self, pids: list[int]) -> dict[str, Any]:
        self._scheme.follow(pids)
        rss_bytes = sum(map(proc.rss_bytes, pids))
        self._scheme.feed(lambda: {"rss_bytes": rss_bytes})
        return {
            "rss_bytes": rss_bytes,
            "damos": [scheme.as_dict() for scheme in self._scheme.kdamond.stats()],
            "effective_bytes": self._scheme.kdamond.effective_bytes(),
            "in_force": True,
        }

    def commit(self, document: dict[str, Any]) -> dict[str, str]:
        """Put other schemes in the place of those in force, online; returns what the kernel accepted."""
        self._context = context_from_json(document)
        return self._scheme.commit(self._context)

    def renew(self) -> None:
        """Put the schemes on the process again, whose kdamond has ended; the process goes on meanwhile."""
        self._scheme.__exit__()
        self._scheme = SchemeOnProcess(self._context, self._log)
        self._scheme.__enter__()
        self.accepted = self._scheme.start(self.pid)

    def regions(self) -> list[tuple[int, int, int, int]]:
        """Regions that the schemes match now: (start, end, nr_accesses, age in aggregation intervals)."""
        return self._scheme.kdamond.regions()

    def stop(self) -> None:
        """Take the scheme off; a process that was started here ends, one that was found goes on."""
        self._log.restore(keep=self._mark)
        if self._child:
            self._child.wait()
