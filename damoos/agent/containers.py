"""What runs beside a run's program: each container in a cgroup of its own, below that of its role, below the run's.

    damoos-PID/application/redis    the run's program
    damoos-PID/sidecar/logger
    damoos-PID/tax/agent

The kernel adds up what is charged to a group and those below it, and so each role, and the whole run, is measured as
one group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, memcg
from damoos.agent.meter import Meter
from damoos.agent.programs import Program, Programs
from damoos.agent.steering import Steering
from damoos.agent.swap import Swap
from damoos.agent.undo import UndoLog
from damoos.errors import UnsupportedError, WorkloadError


class MeterByRole:
    """A meter of the whole run, and one of each role; see `damoos.agent.meter.Meter`."""

    def __init__(self, whole: Path, roles: Mapping[str, Path], swap: Swap | None) -> None:
        self._whole = Meter(whole, swap)
        # Of a swap device of ours a role has a share only, by its part of what is swapped.
        self._roles = {role: (group, Meter(group, None)) for role, group in roles.items()}

    def sample(self, pids: list[int]) -> None:
        """Look at the memory of all, and of each role."""
        self._whole.sample(pids)
        for group, meter in self._roles.values():
            meter.sample(pids_below(group))

    def read(self) -> dict[str, Any]:
        """What has come together so far; the readings of each role by ``roles``."""
        readings = self._whole.read()
        roles = {role: meter.read() for role, (_, meter) in self._roles.items()}
        sampling_cpu_s = readings["sampling_cpu_s"] + sum(role["sampling_cpu_s"] for role in roles.values())
        return {**readings, "sampling_cpu_s": sampling_cpu_s, "roles": roles}


class Containers:
    """The containers of a run, the run's own program among them; with no container at all it is alone in its group.

    Parameters
    ----------
    specs : sequence of dict
        ``name``, ``role``, ``argv`` (None for the run's own program, which is one of them), ``env``, ``memory_limits``
        (bytes by the names of `damoos.agent.cgroup.LIMITS` and `damoos.agent.cgroup.PROTECTIONS`) and ``controller``
        (a rule of `damoos.agent.controllers` and its values; None for none).
    whole : Path or None
        The cgroup of the run.
    swap : Swap or None
        The swap device to account for.
    programs : Programs
    log : UndoLog

    Raises
    ------
    UnsupportedError : cgroups cannot be had, or what a limit or a rule needs of them
    """

    def __init__(
        self, specs: Sequence[dict[str, Any]], whole: Path | None, swap: Swap | None, programs: Programs, log: UndoLog
    ) -> None:
        self._specs = specs
        self._whole = whole
        self._swap = swap
        self._programs = programs
        self._roles: dict[str, Path] = {}
        self._groups: dict[str, Path] = {}
        self._steering: dict[str, Steering] = {}
        self._running: list[Program] = []
        for spec in specs:
            if whole is None:
                raise UnsupportedError("containers cannot be kept apart here: cgroup v2 is not on /sys/fs/cgroup")
            self._add(whole, spec, log)

    def _add(self, whole: Path, spec: dict[str, Any], log: UndoLog) -> None:
        name, role, limits = spec["name"], spec["role"], spec["memory_limits"]
        if role not in self._roles:
            self._roles[role] = cgroup.make_child(whole, role, log)
        group = self._groups[name] = cgroup.make_child(self._roles[role], name, log)
        # The kernel keeps no more for a group than for those above it.
        for each in (group, self._roles[role], whole):
            cgroup.protect_memory(each, {file: limits[file] for file in cgroup.PROTECTIONS if file in limits})
        own = {file: limits[file] for file in cgroup.LIMITS if file in limits}
        self._steering[name] = Steering({"memory_limits": own, "controller": spec["controller"]}, group, log)

    @property
    def group(self) -> Path | None:
        """The cgroup of the run's own program."""
        return next((self._groups[spec["name"]] for spec in self._specs if spec["argv"] is None), self._whole)

    def meter(self) -> Meter | MeterByRole:
        """Measures all of the run from now on."""
        if self._whole and self._roles:
            return MeterByRole(self._whole, self._roles, self._swap)
        return Meter(self._whole, self._swap)

    def pids(self, program: Program) -> list[int]:
        """All processes of the run; ``program`` is its own program."""
        return [pid for role in self._roles.values() for pid in pids_below(role)] if self._roles else program.pids()

    def start(self) -> None:
        """Start all but the run's own program.

        Raises
        ------
        WorkloadError : one cannot be started
        """
        for spec in self._specs:
            if spec["argv"] is not None:
                name = spec["name"]
                self._running.append(self._programs.start(spec["argv"], name, self._groups[name], env=spec["env"]))

    def check(self) -> None:
        """See whether all of them still run.

        Raises
        ------
        WorkloadError : one has ended before the run did
        """
        for program in self._running:
            if program.has_ended:
                ran_out = memcg.oom_kills(program.group)
                killed = ": the kernel killed it, because its memory ran out" if ran_out else ""
                raise WorkloadError(
                    f"container '{program.name}' ended before the run did{killed}: {self._programs.said(program.name)}"
                )

    def begin(self) -> None:
        """The rules of containers are followed from now on."""
        for steering in self._steering.values():
            steering.begin()

    def measured_from_now(self) -> None:
        """Count the rules' CPU time anew."""
        for steering in self._steering.values():
            steering.measured_from_now()

    def step(self) -> float:
        """Follow the rules where it is time to; returns in how many seconds it will be."""
        return min((steering.step() for steering in self._steering.values()), default=math.inf)

    def result(self) -> dict[str, Any]:
        """What the rules did: ``controller``, their CPU time and each by the name of its ``containers``."""
        told = {name: result["controller"] for name, one in self._steering.items() if (result := one.result())}
        return {"controller": {"cpu_s": sum(one["cpu_s"] for one in told.values()), "containers": told}} if told else {}

    def end(self) -> None:
        """End them."""
        for program in self._running:
            self._programs.end(program)


def pids_below(group: Path) -> list[int]:
    """The processes of the groups that are in a group."""
    return [pid for file in sorted(group.glob("*/cgroup.procs")) for pid in cgroup.pids(file.parent)]
