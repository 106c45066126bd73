"""A process that runs already and goes on running, measured one window after the other under changing schemes."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from typing import Any

from damoos.agent import cgroup, proc
from damoos.agent.memory import bring_back, room_bytes, swapped_ranges, without
from damoos.agent.messages import Send
from damoos.agent.meter import Meter
from damoos.agent.metric_source import reading
from damoos.agent.record import Recorder
from damoos.agent.schemes import SchemeOnProcess
from damoos.agent.steering import KEYS, Steering
from damoos.agent.swap import Swap
from damoos.agent.undo import UndoLog
from damoos.damon.damo_json import context_from_json
from damoos.damon.scheme import Context
from damoos.errors import MachineError, MachineLost, MeasurementError, WorkloadError


class CpuTimes:
    """CPU time that processes spend from now on; what one spends between the last look and its end is not seen.

    Parameters
    ----------
    pids : list of int
        Those that there are now; later ones count from their beginning.
    """

    def __init__(self, pids: list[int]) -> None:
        self._before = {pid: proc.cpu_times_s(pid) for pid in pids}
        self._last = dict(self._before)

    def look(self, pids: list[int]) -> None:
        """Read those that there are."""
        for pid in pids:
            now, last = proc.cpu_times_s(pid), self._last.get(pid, (0.0, 0.0))
            self._last[pid] = max(now[0], last[0]), max(now[1], last[1])  # one that has just ended has 0

    def spent(self) -> dict[str, float]:
        """``user_s`` and ``system_s``."""
        user_s, system_s = (
            math.fsum(last[nth] - self._before.get(pid, (0.0, 0.0))[nth] for pid, last in self._last.items())
            for nth in range(2)
        )
        return {"user_s": user_s, "system_s": system_s}


def _read(name: str, source: str, argv: list[str], key: str) -> float:
    """A metric's value now; an error names the metric."""
    try:
        return reading(source, argv, key)
    except MeasurementError as error:
        raise MeasurementError(f"metric '{name}': {error}") from None


class Live:
    """A running process of somebody else's.

    Between two windows the pages that a scheme has paged out are brought back, so that each window starts with the
    same memory, and so that nothing is missing at the end. What was on swap before damoos came stays there.
    """

    def __init__(self, pid: int, log: UndoLog, swap: Swap | None, interrupted: Callable[[], bool], send: Send) -> None:
        self._pid = pid
        self._log = log
        self._swap = swap
        self._interrupted = interrupted
        self._send = send
        self._mark = len(log)
        self._scheme: SchemeOnProcess | None = None
        self._steered: dict[str, Any] = {}
        self._steering = Steering(self._steered, None, log)
        self._on_swap_before = {pid: swapped_ranges(pid) for pid in self._check_alive()}

    def observe(self, spec: dict[str, Any]) -> dict[str, Any]:
        """One window.

        Parameters
        ----------
        spec : dict
            ``context`` (damo's JSON or None), ``record`` (see `damoos.agent.record`; None for nothing), ``settle_s``
            (discarded), ``window_s`` (measured), ``sample_s``, ``metrics`` (list of name, and source, argv and key of
            a `reading`, which is made with every sample), and the keys of `damoos.agent.steering`.

        Raises
        ------
        WorkloadError : the process has ended
        UnsupportedError : the policy needs a cgroup of its own, and the process shares one
        MeasurementError : a metric cannot be read
        """
        context = None if spec["context"] is None else context_from_json(spec["context"])
        accepted = self._put(context, spec.get("record"), {key: spec.get(key) for key in KEYS if spec.get(key)})
        before = self._done()
        left_bytes = self._bring_back(self._interrupted)
        # A scheme has nothing to do before a region is as old as it asks for, so that is no time to measure it in.
        waits_s = max((scheme.pattern.min_age_us for scheme in context.schemes), default=0) / 1e6 if context else 0.0
        self._watch(spec["settle_s"] + waits_s, spec["sample_s"], lambda pids: None)
        meter = Meter(cgroup.own_group(self._pid), self._swap)
        readings: dict[str, list[float]] = {name: [] for name, *_ in spec["metrics"]}

        def look(pids: list[int]) -> None:
            meter.sample(pids)
            cpu.look(pids)
            for name, source, argv, key in spec["metrics"]:
                readings[name].append(_read(name, source, argv, key))
            if self._scheme:
                now = {name: values[-1] for name, values in readings.items()}
                self._scheme.feed(lambda: {"rss_bytes": sum(map(proc.rss_bytes, pids)), **now})

        cpu = CpuTimes(self._check_alive())
        spent_s = self._scheme.cpu_s() if self._scheme else 0.0
        self._steering.measured_from_now()
        self._watch(spec["window_s"], spec["sample_s"], look)
        result, after = meter.read(), self._done()
        result |= {**self._scheme.tuned(), **self._scheme.recorded()} if self._scheme else {}
        if "user_s" not in result:  # the cgroup's, if it has one, are exact
            result |= cpu.spent()
        result |= {
            **self._steering.result(),
            "kdamond_cpu_s": self._scheme.cpu_s() - spent_s if self._scheme else 0.0,
            "damos": [{name: stats[name] - was.get(name, 0) for name in stats} for stats, was in zip(after, before)],
            "readings": readings,
            "left_on_swap_bytes": left_bytes,
            "accepted": accepted,
            "exit_status": 0,
            "aborted": False,
        }
        if spec.get("record"):  # the next window is to have a kdamond without a recorder
            self._take_off()
        return result

    def end(self) -> None:
        """Take the scheme off and bring back what it has paged out."""
        self._take_off()
        self._bring_back()

    def _bring_back(self, interrupted: Callable[[], bool] = lambda: False) -> int:
        """Bring back what is on swap and was not before, as far as there is room; returns how much was left there."""
        left_bytes = 0
        for pid in proc.descendants(self._pid):
            ranges = without(swapped_ranges(pid), self._on_swap_before.get(pid, []))
            room = room_bytes(cgroup.cgroup_of(pid))
            read_bytes = bring_back(pid, ranges, room, interrupted)
            left_bytes += max(0, sum(end - start for start, end in ranges) - read_bytes)
        return left_bytes

    def _check_alive(self) -> list[int]:
        pids = proc.descendants(self._pid)
        if not pids or proc.rss_bytes(self._pid) == 0:
            raise WorkloadError(f"process {self._pid} is not running on this machine")
        return pids

    def _put(self, context: Context | None, record: dict[str, Any] | None, steered: dict[str, Any]) -> dict[str, str]:
        """Bring a policy into force, by an online change where a kdamond runs already; a recording begins anew."""
        is_same = steered == self._steered and not steered.get("controller")  # a rule begins anew with each window
        if context and self._scheme and is_same and self._scheme.operations == context.operations and not record:
            # Where a process that is watched has ended meanwhile, the kernel refuses, and a new start is what helps.
            with contextlib.suppress(MachineError):
                return self._scheme.commit(context)
        self._take_off()
        self._steering, self._steered = Steering.of_process(steered, self._pid, self._log), steered
        accepted = {}
        if context is not None:
            recorder = Recorder(record, self._log, self._send) if record else None
            self._scheme = SchemeOnProcess(context, self._log, recorder)
            self._scheme.__enter__()
            accepted = self._scheme.start(self._pid)
        self._steering.begin(self._scheme)
        return accepted

    def _take_off(self) -> None:
        if self._scheme:
            self._scheme.__exit__()
        self._steering.end()
        self._log.restore(keep=self._mark)
        self._scheme, self._steered = None, {}
        self._steering = Steering(self._steered, None, self._log)

    def _done(self) -> list[dict[str, Any]]:
        return [stats.as_dict() for stats in self._scheme.kdamond.stats()] if self._scheme else []

    def _watch(self, for_s: float, sample_s: float, look: Callable[[list[int]], None]) -> None:
        """Look at the process again and again for a time, and keep its children under the scheme."""
        end, next_look = time.monotonic() + for_s, 0.0
        while (left_s := end - time.monotonic()) > 0:
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + sample_s
                pids = self._check_alive()
                if self._scheme:
                    self._scheme.follow(pids)
                look(pids)
            due_s = self._steering.step()
            if self._interrupted():
                raise MachineLost("the controller of this run is gone")
            time.sleep(max(0.0, min(left_s, next_look - time.monotonic(), due_s)))
        if self._scheme and not self._scheme.kdamond.is_on():
            raise WorkloadError("the kdamond ended" if os.path.exists(f"/proc/{self._pid}") else "the process ended")
