"""What a policy asks for beside DAMON: limits of memory, settings of the kernel, and a rule that the agent follows."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, huge_pages, placement
from damoos.agent.controllers import controller
from damoos.agent.controllers.base import Controller
from damoos.agent.schemes import SchemeOnProcess
from damoos.agent.undo import UndoLog
from damoos.agent.write_limit import SwapWriteLimit
from damoos.errors import UnsupportedError

KEYS = ("memory_limits", "thp", "settings", "memory_nodes", "interleave", "controller", "swap_write_bytes_per_s")

# Those that need a cgroup.
_OF_GROUPS = ("memory_limits", "memory_nodes", "controller", "swap_write_bytes_per_s")


class Steering:
    """A policy's limits, settings and rule, on one group of processes; the undo log takes all of them back.

    Parameters
    ----------
    spec : mapping
        ``memory_limits`` (bytes by the names of `damoos.agent.cgroup.LIMITS`), ``thp`` (a THP mode), ``settings``
        (values of kernel files by their paths), ``controller`` (a rule of `damoos.agent.controllers` and its values),
        ``swap_write_bytes_per_s`` (what may be written to swap), ``memory_nodes`` (fast or slow, the only ones with the
        group's memory), ``interleave`` (``fast``, see `damoos.agent.placement`); what is absent or None is left alone.
    group : Path or None
        The cgroup; None where there is none.
    log : UndoLog

    Raises
    ------
    UnsupportedError : the kernel lacks what is asked for
    """

    def __init__(self, spec: Mapping[str, Any], group: Path | None, log: UndoLog) -> None:
        self._log = log
        self._controller: Controller | None = None
        self._write_limit: SwapWriteLimit | None = None
        if limits := spec.get("memory_limits"):
            if group is None:
                raise UnsupportedError("memory cannot be limited here: cgroup v2 is not on /sys/fs/cgroup")
            cgroup.limit_memory(group, limits, log)
        if spec.get("thp"):
            huge_pages.set_mode(spec["thp"], log)
        for path, value in (spec.get("settings") or {}).items():
            _set(Path(path), value, log)
        if which := spec.get("memory_nodes"):
            if group is None:
                raise UnsupportedError("memory cannot be bound to nodes here: cgroup v2 is not on /sys/fs/cgroup")
            placement.bind(group, which, log)
        self.interleaving = placement.interleaving(spec["interleave"]["fast"], log) if spec.get("interleave") else None
        if rule := spec.get("controller"):
            self._controller = controller(rule, group)
        if bytes_per_s := spec.get("swap_write_bytes_per_s"):
            if group is None:
                raise UnsupportedError("writes to swap cannot be limited here: cgroup v2 is not on /sys/fs/cgroup")
            self._write_limit = SwapWriteLimit(group, bytes_per_s)

    @classmethod
    def of_process(cls, spec: Mapping[str, Any], pid: int, log: UndoLog) -> Steering:
        """Put the policy on a running process and its descendants.

        Raises
        ------
        UnsupportedError : see `of_running`
        """
        return cls.of_running(spec, cgroup.own_group(pid), pid, log)

    @classmethod
    def of_running(cls, spec: Mapping[str, Any], group: Path | None, pid: int | None, log: UndoLog) -> Steering:
        """Put the policy on a set of running processes.

        Parameters
        ----------
        group : Path or None
            The group that they have to themselves.
        pid : int or None
            One of them; None for those of the whole machine.

        Raises
        ------
        UnsupportedError : they have none, and what is asked for is of a group
        """
        if spec.get("interleave"):
            raise UnsupportedError(
                "a running process has chosen where its pages go when it started; interleaving is for programs that"
                " start under it, in tune and evaluate"
            )
        if group is None and any(map(spec.get, _OF_GROUPS)):
            why_none = (
                "what the policy is put on is not one cgroup"
                if pid is None
                else f"process {pid} is in the cgroup {cgroup.path_of(pid)} with others"
            )
            raise UnsupportedError(
                f"{why_none}, and this policy steers all of a cgroup; start it in one of its own, for example by"
                " 'systemd-run --scope'"
            )
        return cls(spec, group, log)

    def begin(self, scheme: SchemeOnProcess | None = None) -> None:
        """The rule is followed from now on."""
        if self._controller:
            self._controller.begin(time.monotonic(), self._log, scheme)
        if self._write_limit:
            self._write_limit.begin(time.monotonic(), self._log)

    def measured_from_now(self) -> None:
        """Count the rule's CPU time anew; what it took while a server warmed up is no part of what is measured."""
        if self._controller:
            self._controller.measured_from_now()

    def step(self) -> float:
        """Follow the rule, and keep the limit of writes, if it is time to; returns in how many seconds it will be."""
        due_s = [one.step(time.monotonic()) for one in (self._write_limit, self._controller) if one]
        return min(due_s, default=math.inf) - time.monotonic()

    def end(self) -> None:
        """The rule is followed no more."""
        if self._controller:
            self._controller.end()

    def result(self) -> dict[str, Any]:
        """What the rule did (``controller``) and the limit of writes (``swap_write_limit``), where they are."""
        told = {"controller": self._controller, "swap_write_limit": self._write_limit}
        return {name: one.told() for name, one in told.items() if one}


def _set(path: Path, value: str, log: UndoLog) -> None:
    if not path.exists():
        raise UnsupportedError(f"this kernel has no {path}, which the policy sets to {value}")
    log.set_file(path, value)
