"""One run of a workload: in its own cgroup, watched, under a scheme or none, everything taken back at its end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, children, memcg, proc
from damoos.agent.access_counts import access_counts
from damoos.agent.brought import renamed
from damoos.agent.confinement import Confinement, confinement
from damoos.agent.containers import Containers, MeterByRole
from damoos.agent.folders import Folders
from damoos.agent.listeners import ServerSocket
from damoos.agent.machine_setup import drop_caches, set_aslr
from damoos.agent.messages import Send
from damoos.agent.meter import Meter
from damoos.agent.programs import Program, Programs
from damoos.agent.record import Recorder
from damoos.agent.schemes import SchemeOnProcess
from damoos.agent.steering import Steering
from damoos.agent.swap import Swap
from damoos.agent.undo import UndoLog
from damoos.damon.damo_json import context_from_json
from damoos.errors import WorkloadError
from damoos.units import show_bytes

READY_S = 120.0
# Of the time of a program so far: how far its samples are apart at least, so that those of a long one cost little, and
# at most, so that one of little more than a second has ten of them.
SAMPLE_SHARE, MOST_SHARE = 0.02, 0.2
# How far samples are apart at least: one takes 3 ms of an emulated CPU of 500 MIPS.
LEAST_APART_S = 0.1
_ASK_AGAIN_S = 0.1
# How long after ``ready`` a server may take to listen: where the command asks for a file, say, that comes first.
_LISTENS_S = 3.0


class Run:
    """Runs one workload and measures it.

    Without a ``load`` the program itself is what is measured, from its start to its end. With one, the program is a
    server: it is started and warmed up, and measured while the load generator runs, which is in a cgroup of its own
    and no part of what is measured.

    Parameters
    ----------
    spec : dict
        ``argv`` (list of str), ``env`` (dict), ``stdin`` (file or None), ``setup`` (commands that fill the folder in
        which it runs, once for all runs), ``files`` (glob patterns of files to report, by metrics), ``cpus`` (list of
        int), ``load`` (None, or a dict of ``ready``, a command that succeeds once the server does its work,
        ``warm_up``, commands that come before the measurement, ``argv``, and ``address``, see
        `damoos.agent.listeners`), ``user`` and ``network`` (see `damoos.agent.confinement`), ``brought`` (files that
        its words name and that the controller has brought),
        ``limit_s``, ``sample_s`` (seconds), ``drop_caches`` (bool), ``context`` (damo's JSON, or None for no scheme),
        ``record`` (what is sent of what DAMON sees, see `damoos.agent.record`; None for nothing),
        ``program_env`` (dict, more of the environment that only the program has),
        ``aslr`` (bool, for this run only), ``containers`` (what runs beside the program, see `damoos.agent.containers`;
        none where it is missing), and the keys of `damoos.agent.steering`, for this run only.
        A run past ``limit_s`` has failed (a command before it past ``warm_up_s``); one past ``abort_s`` (None for
        never) is ended, too, but reported with what it came to.
    log : UndoLog
    folders : Folders
    swap : Swap or None
        The swap device to account for.
    interrupted : callable
        Says whether the controller has cancelled the run or vanished.
    send : callable
        Sends the controller a message beside the answer.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        log: UndoLog,
        folders: Folders,
        swap: Swap | None,
        interrupted: Callable[[], bool],
        send: Send,
    ) -> None:
        self._spec = spec
        self._log = log
        self._folders = folders
        self._swap = swap
        self._interrupted = interrupted
        self._send = send
        self._server_group: Path | None = None
        self._load_group: Path | None = None
        self._scheme: SchemeOnProcess | None = None
        self._steering: Steering
        self._containers: Containers
        self._programs: Programs
        self._folder: Path

    def __call__(self) -> dict[str, Any]:
        """The whole run; what it returns is raw, nothing is averaged here."""
        with contextlib.closing(confinement(self._spec)) as confined:
            paths = self._folders.within_reach(self._spec.get("brought", ()), confined.account)
            self._spec = renamed(self._spec, paths)
            filled = self._folders.prepare(self._spec.get("setup", ()), self._spec["env"], confined)
            return self._prepared(filled, confined)

    def _prepared(self, filled: Path | None, confined: Confinement) -> dict[str, Any]:
        """The run after its set-up."""
        mark, strays, ends = len(self._log), children.Strays(), contextlib.ExitStack()
        try:
            self._folder = self._folders.new(filled, confined)
            outputs = self._folders.new(None)
            self._programs = Programs(self._folder, outputs, self._spec, self._log, self._interrupted, confined)
            if self._swap:
                self._swap.empty()
            if self._spec["drop_caches"]:
                drop_caches()
            if cgroup.usable():  # else the tree is found by its parents
                self._server_group = cgroup.make_cgroup(self._log)
                self._load_group = cgroup.make_cgroup(self._log, "-load") if self._spec.get("load") else None
            if self._spec.get("aslr") is not None:
                set_aslr(self._spec["aslr"], self._log)
            self._steering = Steering(self._spec, self._server_group, self._log)
            ends.callback(self._steering.end)
            containers = self._spec.get("containers", ())
            self._containers = Containers(containers, self._server_group, self._swap, self._programs, self._log)
            document = self._spec["context"]
            if document is None:
                return self._measured()
            record = self._spec.get("record")
            recorder = Recorder(record, self._log, self._send) if record else None
            with SchemeOnProcess(context_from_json(document), self._log, recorder) as self._scheme:
                return self._measured()
        finally:
            if counts := access_counts():
                counts.stop()
            strays.end()
            ends.close()
            self._log.restore(keep=mark)

    def _measured(self) -> dict[str, Any]:
        load = self._spec.get("load")
        # A program is measured from before its start, a server from when its load begins.
        meter = self._containers.meter() if load else self._metered()
        stdin, env = self._spec.get("stdin"), self._spec.get("program_env")
        self._containers.start()
        program = self._programs.start(
            self._spec["argv"], "program", self._containers.group, stdin, env, self._steering.interleaving
        )
        try:
            accepted = self._scheme.start(program.pid) if self._scheme else {}
            self._steering.begin(self._scheme)
            self._containers.begin()
            if not load:
                return {**self._until_end(program, program, meter), "accepted": accepted}
            self._warm_up(program, load)
            meter, spent_s = self._metered(), self._scheme.cpu_s() if self._scheme else 0.0
            self._steering.measured_from_now()
            self._containers.measured_from_now()
            self._check_server(program)
            generator = self._programs.start(load["argv"], "load", self._load_group)
            try:
                result = self._until_end(program, generator, meter)
            finally:
                self._programs.end(generator)
            return {**result, "kdamond_cpu_s": result["kdamond_cpu_s"] - spent_s, "accepted": accepted}
        finally:
            self._programs.end(program)
            self._containers.end()

    def _metered(self) -> Meter | MeterByRole:
        """Measure from now on, and count accesses where somebody does."""
        if counts := access_counts():
            record = self._spec.get("record") or {}
            by_page = bool(record.get("pages") or record.get("objects"))
            counts.start(by_page, of_programs=not record.get("objects"))
        return self._containers.meter()

    def _until_end(self, program: Program, awaited: Program, meter: Meter | MeterByRole) -> dict[str, Any]:
        """Measure until the awaited one of the two ends."""
        limit_s, abort_s = self._spec["limit_s"], self._spec.get("abort_s") or math.inf
        ended = self._wait(program, awaited, min(limit_s, abort_s), meter)
        if not ended and limit_s <= abort_s:
            raise WorkloadError(f"the workload ran past its limit of {limit_s:g} s")
        readings = meter.read()
        final: dict[str, Any] = self._scheme.final() if self._scheme else {"damos": [], "kdamond_cpu_s": 0.0}
        # Its files are complete only once it has ended; the CPU time of more than one program is their cgroup's.
        self._programs.end(awaited)
        if ended and awaited.exit_status != 0 and awaited is not program and self._killed():
            raise self._server_ended()
        if (awaited is program and "roles" not in readings) or "user_s" not in readings:
            readings |= dict(zip(("user_s", "system_s"), awaited.cpu_s))
        return {
            **final,
            **self._steering.result(),
            **self._containers.result(),
            **readings,
            "exit_status": awaited.exit_status,
            "aborted": not ended,
            **self._programs.output(awaited, self._spec.get("files", {})),
        }

    def _warm_up(self, program: Program, load: dict[str, Any]) -> None:
        """Wait until the server answers, and bring it where the measurement begins.

        Nothing is sent before a process of the run listens where the load goes, as far as that is known.
        """
        give_up = time.monotonic() + READY_S
        server = ServerSocket(load.get("address"), self._folder)
        if server.is_known:
            self._await_socket(program, server, give_up)
        while load["ready"] and self._helper(program, load["ready"]) != 0:
            if time.monotonic() > give_up:
                raise WorkloadError(f"the server was not ready within {READY_S:g} s: {self._programs.said('program')}")
            self._pause(program)
        if server.is_there:
            self._await_socket(program, server, time.monotonic() + _LISTENS_S if load["ready"] else give_up)
        for argv in load["warm_up"]:
            status = self._helper(program, argv)
            if status != 0:
                if self._killed():
                    raise self._server_ended()
                raise WorkloadError(f"warm-up: '{' '.join(argv)}' ended with {status}: {self._programs.said('helper')}")
        if server.is_known:  # a wrapper may live on without the server that it has started
            self._await_socket(program, server, 0.0)

    def _await_socket(self, program: Program, server: ServerSocket, give_up: float) -> None:
        """Wait until a process of the run listens there."""
        while not server.is_held(program.pid, self._containers.pids(program)):
            self._check_server(program)
            if time.monotonic() > give_up:
                raise server.missing(self._programs.said("program"))
            self._pause(program)

    def _pause(self, program: Program) -> None:
        """Wait a moment, with an eye on the server."""
        if self._wait(program, program, _ASK_AGAIN_S, None):
            raise self._server_ended("before its load began")

    def _check_server(self, program: Program) -> None:
        """Refuse to go on without the server: another one might take what is sent to it."""
        if program.has_ended:
            raise self._server_ended("before its load began")

    def _helper(self, program: Program, argv: Sequence[str]) -> int:
        """Run a command beside the server; returns its exit status."""
        self._check_server(program)
        helper = self._programs.start(argv, "helper", self._load_group)
        try:
            limit_s = self._spec.get("warm_up_s", self._spec["limit_s"])
            if not self._wait(program, helper, limit_s, None):
                raise WorkloadError(f"warm-up: '{' '.join(argv)}' did not end within {limit_s:g} s")
        finally:
            self._programs.end(helper, keep_group=True)
        return helper.exit_status

    def _wait(
        self,
        program: Program,
        awaited: Program,
        limit_s: float,
        meter: Meter | MeterByRole | None,
    ) -> bool:
        """Wait for one program, sample the other's memory, and keep its children under the scheme."""
        begun = next_look = next_sample = time.monotonic()

        def look() -> float:
            nonlocal next_look, next_sample
            now = time.monotonic()
            if now >= next_look:
                pids = self._containers.pids(program)
                if now >= next_sample:
                    if meter:
                        meter.sample(pids)
                    apart_s = min(self._spec["sample_s"], max(LEAST_APART_S, (now - begun) * MOST_SHARE))
                    next_sample = max(next_sample + apart_s, now + (now - begun) * SAMPLE_SHARE)
                if self._scheme:
                    self._scheme.follow(pids)
                    self._scheme.feed(lambda: {"rss_bytes": sum(map(proc.rss_bytes, pids))})
                self._programs.check_output()
                self._containers.check()
                if awaited is not program and program.has_ended:
                    raise self._server_ended()
                next_look = (
                    min(max(next_look + self._spec["sample_s"], now), next_sample) if self._scheme else next_sample
                )
            due_s = min(self._steering.step(), self._containers.step())
            return min(next_look - time.monotonic(), due_s)

        return self._programs.wait(awaited, limit_s, look)

    def _server_ended(self, when: str = "under its load") -> WorkloadError:
        return WorkloadError(f"the server ended {when}{self._killed()}: {self._programs.said('program')}")

    def _killed(self) -> str:
        """That the kernel has killed the program, because memory ran out, for an error message; else nothing."""
        if not memcg.oom_kills(self._server_group):
            return ""
        limit = (self._spec.get("memory_limits") or {}).get("memory.max")
        why = f"it needs more than the {show_bytes(limit)} that it was limited to" if limit else "memory ran out"
        return f", because {why}, and the kernel killed it"
