"""A context's schemes on a process tree, for as long as they are wanted.

The kernel knows targets by their position: whoever comes into a position takes over the regions and ages there. So a
process keeps its position for good. After its end a process of the agent's own stands in for it, since the kernel
refuses to be told of one that has ended; it sleeps, and has about a MiB of memory.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, children, proc
from damoos.agent.nodes import span
from damoos.agent.record import Recorder
from damoos.agent.undo import UndoLog
from damoos.damon.files import kernel_text
from damoos.damon.interface import kdamond
from damoos.damon.scheme import Context, located
from damoos.errors import MachineError, MeasurementError, UnsupportedError, nearest

# A short-lived helper of a build script is not worth a monitoring target of its own.
MIN_TARGET_RSS_BYTES = 1 << 20
# How often goals are told the value of their metric.
FEED_S = 1.0
# Positions of processes that have ended are kept up to this number; then those behind the first of them move up, and
# lose their ages.
MAX_ENDED = 16


class SchemeOnProcess:
    """A kdamond that applies a context's schemes to a process tree for as long as the ``with`` block lasts.

    Parameters
    ----------
    recorder : Recorder or None
        Sends the controller what the kdamond sees.
    """

    def __init__(self, context: Context, log: UndoLog, recorder: Recorder | None = None) -> None:
        self._recorder = recorder
        self._context = recorder.shown(context) if recorder else context
        self._log = log
        self._mark = len(log)
        self._targets: list[int] = []
        self._group_path = "/"
        self._paused: Context | None = None
        self._seen: set[int] = set()
        self._stand_in: subprocess.Popen[bytes] | None = None
        self.restarts = 0
        self._feed_from = 0.0
        self.kdamond = kdamond(name=context.module.name if context.module else None)

    @property
    def context(self) -> Context:
        """What is in force, or will be."""
        return self._context

    @property
    def operations(self) -> str:
        """The operations set that is in force."""
        return self._context.operations

    def __enter__(self) -> SchemeOnProcess:
        """Make the kdamond; it does not run before `start`."""
        self.kdamond.create(about_to=lambda former: self._log.record("kdamond", **former))
        if self._recorder:
            self._recorder.prepare()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the kdamond and remove it."""
        if self._recorder:
            self._recorder.stop()
        self._log.restore(keep=self._mark)
        if self._stand_in:
            self._stand_in.wait()

    def start(self, *pids: int, group_path: str = "") -> dict[str, str]:
        """Watch processes from now on; returns what the kernel accepted.

        Parameters
        ----------
        group_path : str
            Their cgroup, as the kernel writes it; empty for that of the first.
        """
        self._targets = list(pids)
        self._group_path = group_path or cgroup.path_of(pids[0])
        self._context = located(self._context, self._group_path, span)
        self.kdamond.configure(self._context, self._targets)
        if self._recorder:
            self._recorder.start()
        self.kdamond.start()
        return self.kdamond.accepted()

    def commit(self, context: Context) -> dict[str, str]:
        """Change the schemes, and what the context says beside them, of the running kdamond."""
        context = located(context, self._group_path, span)
        self.kdamond.configure(context, self._alive_or_stand_in(self._targets))
        self.kdamond.commit()
        self._context = context
        return self.kdamond.accepted()

    def put(self, context: Context) -> dict[str, str]:
        """Commit the context, or leave that to `resume` while the schemes are paused."""
        if not self._paused:
            return self.commit(context)
        self._paused = context
        return {}

    def pause(self) -> None:
        """Have the schemes do nothing, while their kdamond goes on watching: no age is lost.

        Raises
        ------
        UnsupportedError : a module's scheme can only be taken off
        """
        context = self._context
        if context.module:
            raise UnsupportedError(f"the scheme of {context.module.name} cannot be paused")
        watching = (replace(scheme, action="stat", target_nid=None, dests=()) for scheme in context.schemes)
        self.commit(replace(context, schemes=tuple(watching)))
        self._paused = context

    def resume(self) -> None:
        """Have the schemes do again what they did before `pause`."""
        if self._paused:
            self.commit(self._paused)
            self._paused = None

    def changed_by_others(self) -> str:
        """What shows that somebody else has changed or ended the kdamond; empty if nothing does.

        It ends by itself only when all processes that it watches have ended.
        """
        if self.kdamond.is_on():
            return self.kdamond.changed_by_others()
        watched = self.operations == "paddr" or any(map(proc.rss_bytes, self._targets))
        return "the kdamond was switched off" if watched else ""

    def leave(self) -> None:
        """Leave the kdamond to whoever has changed it."""
        self._log.forget("kdamond")

    def feed(self, measured: Callable[[], Mapping[str, float]]) -> None:
        """Tell goals that are fed what their metrics are now; at most once in `FEED_S`.

        Parameters
        ----------
        measured : callable
            What is measured while the workload runs, by name; called only if a goal is fed, so that it costs the other
            runs nothing.

        Raises
        ------
        MeasurementError : a goal is to be fed with what is not measured
        """
        goals = {
            (nth, number): goal.feed
            for nth, scheme in enumerate(self._context.schemes)
            for number, goal in enumerate(scheme.quotas.goals)
            if goal.feed
        }
        if not goals or time.monotonic() < self._feed_from:
            return
        values = measured()
        for name in goals.values():
            if name not in values:
                raise MeasurementError(
                    f"feed={name}: no such metric is measured while the workload runs{nearest(name, values)}"
                )
        self._feed_from = time.monotonic() + FEED_S
        self.kdamond.feed({place: round(values[name]) for place, name in goals.items()})

    def follow(self, pids: list[int]) -> None:
        """Watch children that have come since; without a restart, so that ages are kept."""
        if self._recorder:
            self._recorder.look(self.kdamond, [] if self.operations == "paddr" else self._targets)
        if self._context.operations == "paddr":
            return
        # Only those that were there at the last look, too: a commit that names a process which has just ended kills the
        # kdamond in 6.12, so the short-lived are not named at all.
        big = {p for p in pids if p not in self._targets and proc.rss_bytes(p) >= MIN_TARGET_RSS_BYTES}
        new, self._seen = sorted(big & self._seen), big
        if not new:
            return
        kept, targets = self._positions(new)
        named = self._alive_or_stand_in(targets)
        try:
            if len(kept) < len(self._targets):  # in a step of its own, else who comes next takes over their regions
                self.kdamond.set_targets(self._alive_or_stand_in(kept))
                self.kdamond.commit()
            self.kdamond.set_targets(named)
            self.kdamond.commit()
        except MachineError:
            named_now = self._alive_or_stand_in(targets)
            if named_now == named or not any(map(proc.rss_bytes, targets)):
                raise
            if not self.kdamond.is_on():  # ages are lost, and what was counted; better than no scheme
                self.kdamond.configure(self._context, named_now)
                self.kdamond.start()
                self.restarts += 1
                self._targets = targets
            return
        self._targets = targets

    def _positions(self, new: list[int]) -> tuple[list[int], list[int]]:
        """The targets that stay at their positions, and all of them with new ones behind."""
        ended = [pid for pid in self._targets if not proc.rss_bytes(pid)]
        if len(ended) <= MAX_ENDED or self._recorder:  # a recording knows its targets by their positions
            return self._targets, self._targets + new
        kept = self._targets[: max(1, self._targets.index(ended[0]))]
        alive = [pid for pid in self._targets[len(kept) :] if pid not in ended]
        return kept, kept + alive + new

    def _alive_or_stand_in(self, pids: list[int]) -> list[int]:
        """The processes, each at its position; those that have ended replaced by one that sleeps."""
        ended = [pid for pid in pids if not proc.rss_bytes(pid)]
        if ended and self._stand_in is None:
            self._stand_in = children.spawn(["sleep", "2147483647"], {}, self._log)
        stand_in = self._stand_in.pid if self._stand_in else 0
        return [stand_in if pid in ended else pid for pid in pids]

    def final(self) -> dict[str, Any]:
        """What the schemes did and what the kdamond cost, read while it still runs."""
        if not self.kdamond.is_on():
            raise MachineError("the kdamond ended before its workload did")
        stats = [scheme.as_dict() for scheme in self.kdamond.stats()]
        result = {"damos": stats, "kdamond_cpu_s": self.cpu_s(), "kdamond_restarts": self.restarts}
        return result | self.tuned() | self.recorded()

    def tuned(self) -> dict[str, Any]:
        """The monitoring intervals that the kernel has come to; empty where it does not tune them."""
        intervals = self.kdamond.tuned_intervals()
        return {"tuned_intervals": intervals} if intervals else {}

    def recorded(self) -> dict[str, Any]:
        """What came of the recording, which ends here; empty where there is none."""
        if not self._recorder:
            return {}
        self._recorder.stop()
        return {"record": self._recorder.result()}

    def cpu_s(self) -> float:
        """CPU time of the kdamond so far, from the scheduler's nanoseconds where it offers them."""
        pid = self.kdamond.pid
        try:
            return int(kernel_text(Path(f"/proc/{pid}/schedstat")).split()[0]) / 1e9
        except (OSError, ValueError):
            return sum(proc.cpu_times_s(pid))
