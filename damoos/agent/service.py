"""A policy in service: kept on processes that damoos does not wait for, from ``damoos apply`` until ``damoos stop``."""

from __future__ import annotations

import contextlib
import math
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, children, memcg, proc
from damoos.agent.brought import renamed
from damoos.agent.confinement import Confinement, confinement
from damoos.agent.folders import Folders
from damoos.agent.metric_source import dated_reading
from damoos.agent.policy_on_processes import PolicyOnProcesses
from damoos.agent.process_sets import ProgramProcesses, process_set
from damoos.agent.steering import KEYS
from damoos.agent.swap import compressed_share, used_bytes, written_bytes
from damoos.agent.undo import UndoLog
from damoos.errors import MeasurementError

# Of the machine, where there is no group whose own they could be.
_MACHINE_COUNTERS = ("pswpin", "pswpout", "pgmajfault")


class Service:
    """A policy on some processes, started here or running already.

    If all processes of a set that lasts end, the policy is taken off, and put on those that come in their place. If
    somebody else changes what the policy has set, it stands down: all but what they changed is taken back, for good.

    Parameters
    ----------
    spec : dict
        ``context`` (damo's JSON, or None), the keys of `damoos.agent.steering`, and either ``on`` (see
        `damoos.agent.process_sets`) or ``argv`` with ``env``, ``setup``, ``stdin``,
        ``user``, ``network`` and ``brought`` (see `damoos.agent.run`). ``metrics``, if any, are read
        with each status: a list of name, and source, argv and key of a `dated_reading`. With ``stays`` it is left in
        force if the agent ends, for the next agent to take back.
    log : UndoLog
        Of all of this machine.
    name : str
        Tells its changes from those of others on the list.
    interrupted : callable
        Says whether the controller has vanished.

    Raises
    ------
    MachineError : there are no such processes
    UnsupportedError : the kernel lacks what the policy needs, or others are in the processes' cgroup
    """

    def __init__(self, spec: dict[str, Any], log: UndoLog, name: str, interrupted: Callable[[], bool]) -> None:
        self._spec = spec
        self._whole_log, self._log, self._name = log, log.part(name), name
        self._child: subprocess.Popen[bytes] | None = None
        self._start = time.monotonic()
        self._policy: PolicyOnProcesses | None = None
        self._changed: list[str] = []
        self._restarts = 0
        if self.stays:
            self._log.record("stay")
        try:
            on = spec.get("on")
            self._processes = process_set(on) if on else ProgramProcesses(self._spawn(Folders(self._log, interrupted)))
            if self._processes.pids():
                self._put_on()
        except BaseException:
            self.stop()
            raise

    def _spawn(self, folders: Folders) -> int:
        with contextlib.closing(confinement(self._spec)) as confined:
            return self._spawn_confined(folders, confined)

    def _spawn_confined(self, folders: Folders, confined: Confinement) -> int:
        paths = folders.within_reach(self._spec.get("brought", ()), confined.account)
        spec = renamed(self._spec, paths)
        folder = folders.new(folders.prepare(spec.get("setup", ()), spec["env"], confined), confined)
        is_steered = any(spec.get(key) for key in KEYS)
        group = cgroup.make_cgroup(self._log) if is_steered and cgroup.usable() else None
        stdin = Path(spec["stdin"]) if spec.get("stdin") else None
        self._child = children.spawn(
            spec["argv"], spec["env"], self._log, folder, stdin, group=group, confinement=confined
        )
        return self._child.pid

    def _put_on(self) -> None:
        self._policy = PolicyOnProcesses(self._spec, self._processes, self._whole_log, self._name)

    def _take_off(self) -> None:
        policy, self._policy = self._policy, None
        if policy:
            policy.take_off()

    @property
    def pid(self) -> int:
        """The first process; 0 where there is none at the moment."""
        return next(iter(self._processes.pids()), 0)

    @property
    def started(self) -> int | None:
        """When the program began, see `proc.start_ticks`; None for a set that lasts."""
        return self._processes.started if isinstance(self._processes, ProgramProcesses) else None

    @property
    def accepted(self) -> dict[str, str]:
        """What the kernel has made of the schemes; empty without, and while there are no processes."""
        return self._policy.accepted if self._policy else {}

    @property
    def stays(self) -> bool:
        """Whether it is left in force if the agent ends."""
        return bool(self._spec.get("stays"))

    @property
    def has_scheme(self) -> bool:
        """Whether it needs a kdamond."""
        return self._spec["context"] is not None

    def status(self) -> dict[str, Any]:
        """How the processes and the policy are doing; also takes new processes under the policy.

        Returns
        -------
        dict
            ``pid`` (the first), ``nr_processes``, ``alive`` (whether there is, or may come, anything to be on),
            ``for_s``, ``in_force``, ``paused``, ``changed`` (what somebody else has changed, in words), ``restarts``
            (how often processes have come in the place of others), what `PolicyOnProcesses.status` has, and, with
            processes, ``reading`` (see `_read`).
        """
        ended = self._child.poll() if self._child else None
        pids = [] if ended is not None else self._alive()
        state: dict[str, Any] = {"in_force": False}
        if not self._changed and (pids or self._processes.lasts):
            self._follow(pids)
        if pids and self._policy:
            state |= self._policy.status(pids)
        return {
            **state,
            "pid": pids[0] if pids else 0,
            "nr_processes": len(pids),
            "rss_bytes": sum(map(proc.rss_bytes, pids)),
            "alive": ended is None and (bool(pids) or self._processes.lasts),
            "for_s": time.monotonic() - self._start,
            "paused": bool(self._policy and self._policy.is_paused),
            "changed": self._changed,
            "restarts": self._restarts,
            **({"reading": self._read(pids)} if pids else {}),
        }

    def _alive(self) -> list[int]:
        """The processes; none if all of them have ended, also while nobody has asked how."""
        pids = self._processes.pids()
        return pids if any(map(proc.rss_bytes, pids)) else []

    def _follow(self, pids: list[int]) -> None:
        """Stand down if somebody else has changed what the policy set; else go where the processes go."""
        policy = self._policy
        if policy and self._processes.lasts and (not pids or policy.is_of_another_group):
            self._take_off()
        elif policy and (changed := policy.changed_by_others()) and self._alive():
            self._changed = changed
            policy.leave()
            self._take_off()
        elif not policy and self._processes.lasts and pids:
            self._put_on()
            self._restarts += 1

    def _read(self, pids: list[int]) -> dict[str, Any]:
        """What a guard judges by, as it is now.

        Returns
        -------
        dict
            ``at_s`` (monotonic), ``is_group`` (whether it is of a group of their own, and not of the whole machine),
            ``psi_us`` and ``counters`` (so far), ``memory_bytes`` (what is charged to the group), ``swap_bytes`` (of
            theirs), ``compressed_bytes`` (what that takes in zram and zswap), each None where the kernel does
            not tell; ``metrics`` (values by name), ``ages_s`` (of those whose source tells how old they are) and
            ``missing`` (why a metric has none, by its name).
        """
        group = self._processes.group
        stat = memcg.numbers(group / "memory.stat") if group else {}
        faults = {"pgmajfault": stat[memcg.MAJOR_FAULTS]} if memcg.MAJOR_FAULTS in stat else {}
        counters = proc.vmstat(_MACHINE_COUNTERS) | memcg.counts(group) | faults
        swapped = memcg.number(group and group / "memory.swap.current")
        if math.isnan(swapped):  # a look at each process, which a group saves
            swapped = sum(map(proc.swapped_bytes, pids))
        metrics: dict[str, float] = {}
        ages_s: dict[str, float] = {}
        missing: dict[str, str] = {}
        for name, *source in self._spec.get("metrics", ()):
            try:
                metrics[name], age_s = dated_reading(*source)
                if age_s is not None:
                    ages_s[name] = age_s
            except MeasurementError as error:
                missing[name] = str(error)
        return {
            "at_s": time.monotonic(),
            "is_group": group is not None,
            "psi_us": cgroup.pressure(group),
            "counters": counters | {"swap_written_bytes": written_bytes()},
            "memory_bytes": _bytes_or_none(memcg.number(group and group / "memory.current")),
            "swap_bytes": _bytes_or_none(swapped),
            "compressed_bytes": _bytes_or_none(compressed_share(swapped, used_bytes())),
            "metrics": metrics,
            "ages_s": ages_s,
            "missing": missing,
        }

    def pause(self) -> None:
        """Have the policy do nothing for a while."""
        if self._policy:
            self._policy.pause()

    def resume(self) -> None:
        """Have it do again what it did before `pause`."""
        if self._policy:
            self._policy.resume()

    def renew(self) -> None:
        """Put the policy on anew, whose kdamond or rule has ended; the processes go on meanwhile."""
        self._take_off()
        if self._processes.pids():
            self._put_on()

    def commit(self, document: dict[str, Any]) -> dict[str, str]:
        """Put other schemes in the place of those in force, online; returns what the kernel accepted."""
        self._spec = {**self._spec, "context": document}
        return self._policy.commit(document) if self._policy else {}

    def regions(self) -> list[tuple[int, int, int, int]]:
        """Regions that the schemes match now: (start, end, nr_accesses, age in aggregation intervals)."""
        return self._policy.regions() if self._policy else []

    def stop(self) -> None:
        """Take the policy off; a process that was started here ends, those that were found go on."""
        try:
            self._take_off()
        finally:
            self._log.restore()
            if self._child:
                self._child.wait()


def _bytes_or_none(value: float) -> int | None:
    """A number of bytes; None for what is not told, which JSON has no number for."""
    return int(value) if math.isfinite(value) else None
