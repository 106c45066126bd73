"""A policy kept on a process that damoos does not wait for: what ``damoos apply`` holds until ``damoos stop``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, children, proc
from damoos.agent.folders import Folders
from damoos.agent.schemes import SchemeOnProcess
from damoos.agent.steering import KEYS, Steering
from damoos.agent.undo import UndoLog
from damoos.damon.damo_json import context_from_json
from damoos.errors import DamoosError, MachineError

# A rule is asked at least so often when its next decision is due.
_TICK_S = 1.0


class Service:
    """A process, started here or running already, with a policy on it.

    Parameters
    ----------
    spec : dict
        ``context`` (damo's JSON, or None), the keys of `damoos.agent.steering`, and either ``pid`` or ``argv`` with
        ``env``, ``setup`` and ``stdin``. ``started``, of an earlier ``apply``, says which process had that pid then.

    Raises
    ------
    MachineError : there is no such process, or another one has its id now
    UnsupportedError : the kernel lacks what the policy needs, or others are in the process's cgroup
    """

    def __init__(self, spec: dict[str, Any], log: UndoLog, folders: Folders) -> None:
        filled = None if spec.get("pid") else folders.prepare(spec.get("setup", ()), spec["env"])
        self._log = log
        self._mark = len(log)
        self._folder = Path() if spec.get("pid") else folders.new(filled)
        self._child: subprocess.Popen[bytes] | None = None
        self._start = time.monotonic()
        # The rule's own thread and the calls of whoever asks for the status change the same scheme.
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._is_steered = any(spec.get(key) for key in KEYS)
        self.pid = int(spec["pid"]) if spec.get("pid") else self._spawn(spec)
        if not os.path.exists(f"/proc/{self.pid}"):
            raise MachineError(f"there is no process {self.pid} on this machine")
        self.started = proc.start_ticks(self.pid)
        if spec.get("started", self.started) != self.started:
            raise MachineError(f"process {self.pid} has ended, and another one has its id now")
        document = spec["context"]
        self._context = None if document is None else context_from_json(document)
        self._scheme: SchemeOnProcess | None = None
        self._ends = contextlib.ExitStack()
        self.accepted: dict[str, str] = {}
        try:
            self._steering = Steering.of_process(spec, self.pid, log)
            self._ends.callback(self._steering.end)
            self._put()
            self._steering.begin(self._scheme)
        except BaseException:
            self.stop()
            raise
        if spec.get("controller"):
            self._thread = threading.Thread(target=self._follow_rule, daemon=True)
            self._thread.start()

    def _put(self) -> None:
        """Bring the schemes into force, if there are any."""
        if self._context is not None:
            self._scheme = SchemeOnProcess(self._context, self._log)
            self._scheme.__enter__()
            self.accepted = self._scheme.start(self.pid)

    def _spawn(self, spec: dict[str, Any]) -> int:
        stdin = Path(spec["stdin"]) if spec.get("stdin") else None
        group = cgroup.make_cgroup(self._log) if self._is_steered and cgroup.usable() else None
        self._child = children.spawn(spec["argv"], spec["env"], self._log, self._folder, stdin, group=group)
        return self._child.pid

    def _follow_rule(self) -> None:
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            with self._lock:
                try:
                    pause_s = min(max(self._steering.step(), 0.0), _TICK_S)
                except (DamoosError, OSError) as error:
                    self._failure = error  # `status` tells, and says whether the process has ended
                    return

    def status(self) -> dict[str, Any]:
        """How the process and its policy are doing; also takes new children under the scheme."""
        ended = self._child.poll() if self._child else None
        pids = proc.descendants(self.pid)
        alive = bool(pids) and ended is None
        state = {"pid": self.pid, "alive": alive, "for_s": time.monotonic() - self._start, "in_force": False}
        if alive:
            with self._lock:  # DAMON refuses to tell anything of a kdamond (EBUSY) while another task uses its files
                state |= self._in_force(pids)
        return state

    def _is_on(self) -> bool:
        """Whether the kdamond runs, if there is to be one, and the rule is followed, if there is one."""
        return self._failure is None and (self._scheme is None or self._scheme.kdamond.is_on())

    def _in_force(self, pids: list[int]) -> dict[str, Any]:
        if not self._is_on():
            return {}
        try:
            return self._told(pids)
        except DamoosError:
            if self._is_on():
                raise
            return {}  # the kdamond has ended in the middle of it

    def _told(self, pids: list[int]) -> dict[str, Any]:
        rss_bytes = sum(map(proc.rss_bytes, pids))
        state: dict[str, Any] = {"rss_bytes": rss_bytes, "in_force": True, "damos": []}
        if rule := self._steering.result().get("controller"):
            last = rule["decisions"][-1] if rule["decisions"] else ()
            state["rule"] = {"cpu_s": rule["cpu_s"], **dict(zip(rule["columns"], last))}
        if self._scheme:
            self._scheme.follow(pids)
            self._scheme.feed(lambda: {"rss_bytes": rss_bytes})
            state["damos"] = [scheme.as_dict() for scheme in self._scheme.kdamond.stats()]
            state["effective_bytes"] = self._scheme.kdamond.effective_bytes()
        return state

    def commit(self, document: dict[str, Any]) -> dict[str, str]:
        """Put other schemes in the place of those in force, online; returns what the kernel accepted."""
        if not self._scheme:
            raise MachineError("what is in service has no scheme to change")
        self._context = context_from_json(document)
        with self._lock:
            return self._scheme.commit(self._context)

    def renew(self) -> None:
        """Put the schemes on the process again, whose kdamond has ended; the process goes on meanwhile."""
        with self._lock:
            if self._scheme:
                self._scheme.__exit__()
            self._put()
            self._steering.begin(self._scheme)
            self._failure = None
        if self._thread and not self._thread.is_alive():
            self._thread = threading.Thread(target=self._follow_rule, daemon=True)
            self._thread.start()

    def regions(self) -> list[tuple[int, int, int, int]]:
        """Regions that the schemes match now: (start, end, nr_accesses, age in aggregation intervals)."""
        with self._lock:
            return self._scheme.kdamond.regions() if self._scheme else []

    def stop(self) -> None:
        """Take the policy off; a process that was started here ends, one that was found goes on."""
        self._ended.set()
        if self._thread:
            self._thread.join()
        self._ends.close()
        self._log.restore(keep=self._mark)
        if self._child:
            self._child.wait()
