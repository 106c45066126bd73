"""One run of a workload: in its own cgroup, watched, under a scheme or none, everything taken back at its end."""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from damoos.agent import proc
from damoos.agent.setting import drop_caches, zram_used_bytes
from damoos.agent.undo import UndoLog, kill_cgroup
from damoos.damon.damo_json import context_from_json
from damoos.damon.interface import kdamond
from damoos.damon.scheme import Context
from damoos.errors import MachineError, MachineLost, WorkloadError

CGROUPS = Path("/sys/fs/cgroup")
OUTPUT_BYTES = 64 << 10
# A short-lived helper of a build script is not worth a monitoring target of its own.
MIN_TARGET_RSS_BYTES = 1 << 20
SAMPLE_COLUMNS = ("t_s", "rss_bytes", "pss_bytes", "cgroup_bytes", "zram_bytes", "nr_procs")


def pressure_files(cgroup: Path | None) -> tuple[Path, Path]:
    """Where the pressure on memory and io can be read: the cgroup's own, else the whole machine's."""
    if cgroup:
        return cgroup / "memory.pressure", cgroup / "io.pressure"
    return Path("/proc/pressure/memory"), Path("/proc/pressure/io")


def usable_cgroups() -> bool:
    """Whether there is a unified hierarchy in which this process may make groups."""
    return (CGROUPS / "cgroup.controllers").exists() and os.access(CGROUPS, os.W_OK)


def make_cgroup(log: UndoLog) -> Path:
    """A group of the agent's own, with the controllers that a run is measured by; undone with the log."""
    control = CGROUPS / "cgroup.subtree_control"
    wanted = {"memory", "cpu"} & set((CGROUPS / "cgroup.controllers").read_text().split())
    for controller in wanted - set(control.read_text().split()):
        log.record("controller", path=str(control), name=controller)
        control.write_text(f"+{controller}")
    group = CGROUPS / f"damoos-{os.getpid()}"
    log.record("cgroup", path=str(group))
    group.mkdir()
    return group


def machine_metrics() -> list[str]:
    """Metrics of a run that not every machine has."""
    found = ["cgroup_avg_bytes"] if usable_cgroups() else []
    # A new cgroup has its pressure files if the machine has its own.
    memory, io = pressure_files(None)
    if proc.pressure_us(memory) and proc.pressure_us(io):
        found += ["psi_some_us", "psi_full_us", "psi_io_some_us", "psi_io_full_us"]
    return found


class SchemeOnProcess:
    """A kdamond that applies a context's schemes to a process tree for as long as the ``with`` block lasts."""

    def __init__(self, context: Context, log: UndoLog) -> None:
        self._context = context
        self._log = log
        self._mark = len(log)
        self._targets: list[int] = []
        self.kdamond = kdamond()

    def __enter__(self) -> SchemeOnProcess:
        """Make the kdamond; it does not run before `start`."""
        self.kdamond.create(about_to=lambda former: self._log.record("kdamond", **former))
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the kdamond and remove it."""
        self._log.restore(keep=self._mark)

    def start(self, pid: int) -> dict[str, str]:
        """Watch a process from now on; returns what the kernel accepted."""
        self._targets = [pid]
        self.kdamond.configure(self._context, self._targets)
        self.kdamond.start()
        return self.kdamond.accepted()

    def commit(self, context: Context) -> dict[str, str]:
        """Change the schemes, and what the context says beside them, of the running kdamond."""
        self.kdamond.configure(context, self._targets)
        self.kdamond.commit()
        self._context = context
        return self.kdamond.accepted()

    def follow(self, pids: list[int]) -> None:
        """Watch children that have come since; without a restart, so that ages are kept."""
        if self._context.operations == "paddr":
            return
        new = [p for p in pids if p not in self._targets and proc.rss_bytes(p) >= MIN_TARGET_RSS_BYTES]
        if not new:
            return
        targets = [p for p in self._targets if p in pids] + new
        try:
            self.kdamond.set_targets(targets)
            self.kdamond.commit()
        except MachineError:
            if all(os.path.exists(f"/proc/{pid}") for pid in targets):
                raise
            return  # one of them ended meanwhile; the next look sees the tree as it is then
        self._targets = targets

    def final(self) -> dict[str, Any]:
        """What the schemes did and what the kdamond cost, read while it still runs."""
        if not self.kdamond.is_on():
            raise MachineError("the kdamond ended before its workload did")
        stats = [one.as_dict() for one in self.kdamond.stats()]
        return {"damos": stats, "kdamond_cpu_s": _kthread_cpu_s(self.kdamond.pid)}


def _kthread_cpu_s(pid: int) -> float:
    """CPU time of a kernel thread, from the scheduler's nanoseconds where it offers them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError):
        return proc.cpu_s(pid)


class Run:
    """Runs one workload and measures it.

    Parameters
    ----------
    spec : dict
        ``argv`` (list of str), ``env`` (dict), ``limit_s``, ``sample_s`` (seconds), ``drop_caches`` (bool),
        ``context`` (damo's JSON, or None for no scheme). A run past ``limit_s`` has failed; one past ``abort_s`` (None
        for never) is ended, too, but reported with what it came to.
    log : UndoLog
    zram : str or None
        Name of the swap device to account for.
    interrupted : callable
        Says whether the controller has cancelled the run or vanished.
    """

    def __init__(self, spec: dict[str, Any], log: UndoLog, zram: str | None, interrupted: Callable[[], bool]) -> None:
        self._spec = spec
        self._log = log
        self._zram = zram
        self._interrupted = interrupted
        self._cgroup: Path | None = None
        self._samples: list[tuple[float, ...]] = []
        self._aborted = False

    def __call__(self) -> dict[str, Any]:
        """The whole run; what it returns is raw, nothing is averaged here."""
        mark = len(self._log)
        place = Path(tempfile.mkdtemp(prefix="damoos-run-"))
        try:
            if self._spec["drop_caches"]:
                drop_caches()
            if usable_cgroups():  # else the tree is found by its parents
                self._cgroup = make_cgroup(self._log)
            document = self._spec["context"]
            if document is None:
                return self._measured(place, None)
            with SchemeOnProcess(context_from_json(document), self._log) as scheme:
                return self._measured(place, scheme)
        finally:
            self._log.restore(keep=mark)
            shutil.rmtree(place, ignore_errors=True)

    def _measured(self, place: Path, scheme: SchemeOnProcess | None) -> dict[str, Any]:
        before, pressure_before = proc.vmstat(), self._pressure()
        start = time.monotonic()
        child = self._spawn(place)
        accepted = {}
        try:
            if scheme:
                accepted = scheme.start(child.pid)
            self._watch(child.pid, start, scheme)
            runtime_s = time.monotonic() - start
            final: dict[str, Any] = scheme.final() if scheme else {"damos": [], "kdamond_cpu_s": 0.0}
            after, pressure = proc.vmstat(), self._pressure()
        finally:
            self._end(child)
        usage = child.rusage  # type: ignore[attr-defined]
        return {
            **final,
            "exit_status": child.returncode,
            "aborted": self._aborted,
            "runtime_s": runtime_s,
            "user_s": usage.ru_utime,
            "system_s": usage.ru_stime,
            "counters": {name: after[name] - before[name] for name in after},
            "psi_us": {name: value - pressure_before.get(name, 0) for name, value in pressure.items()},
            "sample_columns": SAMPLE_COLUMNS,
            "samples": self._samples,
            "accepted": accepted,
            "stdout": _tail(place / "stdout"),
            "stderr": _tail(place / "stderr"),
        }

    def _pressure(self) -> dict[str, int]:
        """Microseconds under pressure: memory's by ``some`` and ``full``, io's by ``io_some`` and ``io_full``."""
        memory, io = pressure_files(self._cgroup)
        return proc.pressure_us(memory) | {f"io_{name}": us for name, us in proc.pressure_us(io).items()}

    def _spawn(self, place: Path) -> subprocess.Popen[bytes]:
        procs = self._cgroup / "cgroup.procs" if self._cgroup else None

        def enter_cgroup() -> None:
            if procs:
                procs.write_text(str(os.getpid()))

        try:
            with open(place / "stdout", "wb") as out, open(place / "stderr", "wb") as err:
                child = subprocess.Popen(
                    self._spec["argv"],
                    env={**os.environ, **self._spec["env"]},
                    cwd=place,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    preexec_fn=enter_cgroup,
                )
        except OSError as error:
            raise WorkloadError(f"cannot start '{self._spec['argv'][0]}': {error.strerror}") from None
        self._log.record("process_group", pgid=child.pid)
        return child

    def _watch(self, pid: int, start: float, scheme: SchemeOnProcess | None) -> None:
        """Sample until the process ends; it stays a zombie, so that its kdamond still has a target to report on."""
        poll = select.poll()
        ended = os.pidfd_open(pid)
        poll.register(ended, select.POLLIN)
        sample_s, limit_s = self._spec["sample_s"], self._spec["limit_s"]
        abort_s = self._spec.get("abort_s") or math.inf
        next_sample = start
        try:
            while True:
                now = time.monotonic()
                if now >= next_sample:
                    pids = self._pids(pid)
                    self._sample(now - start, pids)
                    if scheme:
                        scheme.follow(pids)
                    next_sample = max(next_sample + sample_s, now)
                if self._interrupted():
                    raise MachineLost("the controller of this run is gone")
                if now - start > limit_s:
                    raise WorkloadError(f"the workload ran past its limit of {limit_s:g} s")
                if now - start > abort_s:
                    self._aborted = True
                    return
                wait_ms = max(0.0, min(next_sample - time.monotonic(), start + min(limit_s, abort_s) - now, 0.5)) * 1000
                if poll.poll(wait_ms):
                    return
        finally:
            os.close(ended)

    def _pids(self, pid: int) -> list[int]:
        if self._cgroup:
            return [int(word) for word in (self._cgroup / "cgroup.procs").read_text().split()]
        return proc.descendants(pid)

    def _sample(self, t_s: float, pids: list[int]) -> None:
        rss = sum(map(proc.rss_bytes, pids))
        if rss == 0 and self._samples:
            return  # it is exiting: its memory is gone, its end not yet announced, and 0 is not what it used
        current = self._cgroup and self._cgroup / "memory.current"
        in_cgroup = int(current.read_text()) if current and current.exists() else math.nan
        self._samples.append(
            (
                t_s,
                rss,
                sum(map(proc.pss_bytes, pids)),
                in_cgroup,
                zram_used_bytes(self._zram),
                len(pids),
            )
        )

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill what is left of the process tree and take the exit status and resource usage of the workload."""
        if self._cgroup:
            kill_cgroup(self._cgroup)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        child.rusage = usage  # type: ignore[attr-defined]


def _tail(path: Path) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - OUTPUT_BYTES))
        return file.read().decode(errors="replace")
