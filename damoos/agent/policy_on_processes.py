"""A policy in force on processes that run already: limits, settings and a rule beside DAMON, and DAMOS schemes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from damoos.agent import proc
from damoos.agent.process_sets import ProcessSet, WholeMachine
from damoos.agent.schemes import MIN_TARGET_RSS_BYTES, SchemeOnProcess
from damoos.agent.steering import Steering
from damoos.agent.undo import UndoLog
from damoos.damon.damo_json import context_from_json
from damoos.errors import DamoosError, MachineError, UnsupportedError

# A rule is asked at least so often when its next decision is due.
_TICK_S = 1.0


class _Rule:
    """A thread that follows a rule, and keeps the limit of what is written to swap, at their own pace.

    Parameters
    ----------
    steering : Steering
    lock : threading.Lock
        Of the kdamond's files, which the rule may change.
    """

    def __init__(self, steering: Steering, lock: threading.Lock) -> None:
        self._steering = steering
        self._lock = lock
        self._ended = threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            with self._lock:
                try:
                    pause_s = min(max(self._steering.step(), 0.0), _TICK_S)
                except (DamoosError, OSError) as error:
                    self.failure = error  # `status` tells, and says whether the processes have ended
                    return

    def end(self) -> None:
        """Follow it no longer; must be called without the lock."""
        self._ended.set()
        self._thread.join()


class PolicyOnProcesses:
    """In force from now on, until `take_off`.

    Parameters
    ----------
    spec : dict
        ``context`` (damo's JSON, or None) and the keys of `damoos.agent.steering`.
    processes : ProcessSet
        At least one.
    log : UndoLog
        Of all of this machine.
    owner : str
        Whose changes they are on the list.

    Raises
    ------
    UnsupportedError, MachineError : it cannot be; nothing is left of it
    """

    def __init__(self, spec: dict[str, Any], processes: ProcessSet, log: UndoLog, owner: str) -> None:
        self._spec = spec
        self._processes = processes
        self._group = processes.group
        self._inode = _inode(self._group)
        # Two parts: a policy that is paused has its limits and settings taken back, and keeps its kdamond.
        self._of_steering, self._of_scheme = log.part(f"{owner}: limits and rule"), log.part(f"{owner}: schemes")
        self._lock = threading.Lock()
        self._steering: Steering | None = None
        self._rule: _Rule | None = None
        self._scheme: SchemeOnProcess | None = None
        self._has_died = False
        self.is_paused = False
        self.accepted: dict[str, str] = {}
        try:
            self._steer()
            self._start_scheme()
            self._begin()
        except BaseException:
            self.take_off()
            raise

    def _steer(self) -> None:
        pids = [] if isinstance(self._processes, WholeMachine) else self._processes.pids()
        self._steering = Steering.of_running(self._spec, self._group, pids[0] if pids else None, self._of_steering)

    def _start_scheme(self) -> None:
        if self._spec["context"] is None:
            return
        scheme = SchemeOnProcess(context_from_json(self._spec["context"]), self._of_scheme)
        if scheme.operations != "paddr" and isinstance(self._processes, WholeMachine):
            raise UnsupportedError(
                "the scheme watches the memory of processes (operations vaddr), so it cannot be put on a whole machine;"
                " name processes, or tune a scheme of operations paddr"
            )
        pids = self._processes.pids()
        if not pids:
            raise MachineError("the processes ended before the scheme was on them")
        big = [pid for pid in pids if proc.rss_bytes(pid) >= MIN_TARGET_RSS_BYTES]
        scheme.__enter__()
        self._scheme = scheme
        self.accepted = scheme.start(*(big or pids[:1]), group_path=self._processes.group_path)

    def _begin(self) -> None:
        assert self._steering
        self._steering.begin(self._scheme)
        if self._spec.get("controller") or self._spec.get("swap_write_bytes_per_s"):
            self._rule = _Rule(self._steering, self._lock)

    @property
    def is_of_another_group(self) -> bool:
        """Whether the processes are in another cgroup by now, maybe of the same name, as a restarted service's are."""
        group = self._processes.group
        return (self._group, self._inode) != (group, _inode(group))

    def changed_by_others(self) -> list[str]:
        """What somebody else has changed of what the policy set, in words."""
        if self._has_died:
            return []
        with self._lock:
            of_scheme = self._scheme.changed_by_others() if self._scheme else ""
            return [*self._of_steering.changed_by_others(), *([of_scheme] if of_scheme else [])]

    def leave(self) -> None:
        """Leave a kdamond that runs to whoever has changed it; all else that is theirs stays by itself."""
        if self._scheme and self._scheme.kdamond.is_on() and self._scheme.changed_by_others():
            self._scheme.leave()

    def status(self, pids: list[int]) -> dict[str, Any]:
        """What it does, and takes new processes under its scheme.

        Returns
        -------
        dict
            ``in_force`` (bool), and if it is not, ``why``, where that is known; if it is, ``kdamond_cpu_s``, ``damos``
            (a dict for each scheme), ``effective_bytes``, and ``rule`` (``cpu_s`` and its last decision by the names of
            its columns), where there are such.

        Raises
        ------
        DamoosError : the kernel refuses to tell, of a kdamond that goes on
        """
        with self._lock:
            if not self._is_on():
                self._has_died = True
                failure = self._rule and self._rule.failure
                return {"in_force": False, **({"why": str(failure)} if failure else {})}
            try:
                return {"in_force": True, **self._what_it_does(pids)}
            except DamoosError as error:
                if self._is_on():
                    raise
                self._has_died = True  # the kdamond has ended in the middle of it, maybe of what was asked
                return {"in_force": False, "why": str(error)}

    def _is_on(self) -> bool:
        """Whether the kdamond runs, if there is to be one, and the rule is followed, if there is one."""
        is_followed = self._rule is None or self._rule.failure is None
        return is_followed and not self._has_died and (self._scheme is None or self._scheme.kdamond.is_on())

    def _what_it_does(self, pids: list[int]) -> dict[str, Any]:
        state: dict[str, Any] = {"damos": [], "kdamond_cpu_s": 0.0}
        rule = self._steering.result().get("controller") if self._steering else None
        if rule:
            last = rule["decisions"][-1] if rule["decisions"] else ()
            state["rule"] = {"cpu_s": rule["cpu_s"], **dict(zip(rule["columns"], last))}
        if self._scheme:
            self._scheme.follow(pids)
            self._scheme.feed(lambda: {"rss_bytes": sum(map(proc.rss_bytes, pids))})
            state["damos"] = [scheme.as_dict() for scheme in self._scheme.kdamond.stats()]
            state["effective_bytes"] = self._scheme.kdamond.effective_bytes()
            state["kdamond_cpu_s"] = self._scheme.cpu_s()
        return state

    def pause(self) -> None:
        """Have it do nothing: limits and settings are as before, and schemes only watch, so that they keep ages."""
        if self.is_paused:
            return
        self._stop_steering()
        with self._lock:
            if self._scheme and self._scheme.context.module:  # a module can only do what it does, or be off
                self._scheme.__exit__()
                self._scheme = None
            elif self._scheme:
                self._scheme.pause()
        self.is_paused = True

    def resume(self) -> None:
        """Have it do again what it did before `pause`."""
        if not self.is_paused:
            return
        self._steer()
        with self._lock:
            if self._scheme:
                self._scheme.resume()
            else:
                self._start_scheme()
        self._begin()
        self.is_paused = False

    def commit(self, document: dict[str, Any]) -> dict[str, str]:
        """Put other schemes in the place of those in force, online; returns what the kernel accepted.

        While the policy is paused, they are what comes into force after that.
        """
        if not self._scheme:
            raise MachineError("what is in service has no scheme to change")
        self._spec = {**self._spec, "context": document}
        with self._lock:
            return self._scheme.put(context_from_json(document))

    def regions(self) -> list[tuple[int, int, int, int]]:
        """Regions that the schemes match now: (start, end, nr_accesses, age in aggregation intervals)."""
        with self._lock:
            return self._scheme.kdamond.regions() if self._scheme else []

    def _stop_steering(self) -> None:
        if self._rule:
            self._rule.end()
        if self._steering:
            self._steering.end()
        self._steering = self._rule = None
        self._of_steering.restore()

    def take_off(self) -> None:
        """Undo all that it has changed, but for what others have changed since."""
        try:
            self._stop_steering()
        finally:
            if self._scheme:
                self._scheme.__exit__()
                self._scheme = None
            self._of_scheme.restore()


def _inode(group: Path | None) -> int:
    try:
        return group.stat().st_ino if group else 0
    except OSError:
        return 0
