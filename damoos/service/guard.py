"""The guard of a policy in service: limits, judged window by window, and what is to be done when one is broken.

- A window far beyond a limit pauses the policy. If the limit is kept while it is paused, it goes on; the next such
  window within an hour ends it.
- A mean that is shown to be beyond a limit ends it: a sequential test, at a risk of 5 % for each limit.
- A limit that stays broken while the policy is paused ends it, too, although it may not be the policy's doing.
- A window without a value ends it: what cannot be seen cannot be guarded.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from damoos.errors import ConfigError, nearest
from damoos.scorers.terms import Limit, parse_limit
from damoos.statistics.sequential import ConfidenceSequence

WINDOW_S = 10.0
# A window beyond the limit by this factor is no noise.
FAR = 2.0
# Windows by the keeper's clock in which a machine's goes on by one: an emulated guest on a busy host is slow.
STILL_WINDOWS = 100
# Windows without a broken limit before a paused policy goes on, and with one before it ends.
CALM_WINDOWS, STUCK_WINDOWS = 3, 3
# What is adapted comes back more careful than it was before.
PAUSES_AN_HOUR, PAUSES_AN_HOUR_ADAPTED = 1, 8
DEFAULT = "memory_pressure<=10%"
# The word for no policy at all: the processes are only watched, as those are beside which others are judged.
WATCHED_ONLY = "none"

Reading = Mapping[str, Any]


def _share(kind: str) -> Callable[[Reading, Reading, float], float]:
    return lambda now, before, s: (now["psi_us"][kind] - before["psi_us"][kind]) / 1e6 / s


def _rate(*names: str) -> Callable[[Reading, Reading, float], float]:
    return lambda now, before, s: sum(now["counters"][name] - before["counters"][name] for name in names) / s


@dataclass(frozen=True)
class Watched:
    """Something that a guard can watch of any processes: its meaning, and its value between two readings."""

    meaning: str
    of: Callable[[Reading, Reading, float], float]


WATCHED: Mapping[str, Watched] = {
    "memory_pressure": Watched("share of the time in which some task waits for memory", _share("some")),
    "full_memory_pressure": Watched("share of the time in which all tasks wait for memory", _share("full")),
    "io_pressure": Watched("share of the time in which some task waits for IO", _share("io_some")),
    "cpu_pressure": Watched("share of the time in which some task waits for a CPU", _share("cpu_some")),
    "refaults_per_s": Watched(
        "pages a second that come back soon after they were reclaimed",
        _rate("workingset_refault_anon", "workingset_refault_file"),
    ),
    "major_faults_per_s": Watched("accesses a second that wait for a page to be read", _rate("pgmajfault")),
    "swap_ins_per_s": Watched("pages a second that the machine reads from swap", _rate("pswpin")),
    "swap_written_bytes_per_s": Watched("bytes a second written to swap, zram left out", _rate("swap_written_bytes")),
}


def parse(text: str, metrics: Sequence[str] = ()) -> Limit:
    """A limit of a guard: ``memory_pressure<=1%``, ``p99_ms<=20``.

    Parameters
    ----------
    metrics : sequence of str
        Names of the metrics that are read of this service.

    Raises
    ------
    ConfigError : not of this form, or on what is not watched
    """
    try:
        limit = parse_limit(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace("--limit", "--guard", 1)) from None
    known = [*WATCHED, *metrics]
    if limit.name not in known:
        raise ConfigError(f"--guard '{text}': '{limit.name}' is not watched in service{nearest(limit.name, known)}")
    if limit.of_baseline or limit.every:
        raise ConfigError(f"--guard '{text}': in service there is no baseline; write a plain number, without 'every'")
    return limit


class Action(StrEnum):
    """What the guard asks for at the end of a window."""

    NONE = "none"
    PAUSE = "pause"
    RESUME = "resume"
    UNDO = "undo"


@dataclass(frozen=True)
class Decision:
    """An action, and why."""

    action: Action
    why: str = ""


class Guard:
    """Watches one policy in service.

    Parameters
    ----------
    limits : sequence of Limit
        Of `parse`.
    window_s : float, seconds
    judges : bool
        False where there is no policy to pause: it measures, and asks for nothing unless there is no value.
    pauses_an_hour : int
        With one more, the policy ends.
    clock : callable
        The keeper's own, in seconds.
    """

    def __init__(
        self,
        limits: Sequence[Limit],
        window_s: float = WINDOW_S,
        judges: bool = True,
        pauses_an_hour: int = PAUSES_AN_HOUR,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.limits = limits
        self.window_s = window_s
        self._judges = judges
        self._pauses_an_hour = pauses_an_hour
        self.forget()
        self.restart()
        self._paused_at_s: list[float] = []
        self._calm = self._stuck = 0
        self.values: dict[str, float] = {}
        """The last window's, by the name of what is watched."""
        self.rates: dict[str, float] = {}
        """All of `WATCHED` that the machine tells, of the last window."""
        self.nr_windows = 0

    def forget(self) -> None:
        """The policy is another now: what its means were so far says nothing of it."""
        self._sequences = {limit.text: ConfidenceSequence() for limit in self.limits}

    def restart(self) -> None:
        """Begin a new window: the processes are others now, or the policy has just been put on."""
        self._begin(None)

    def _begin(self, reading: Reading | None) -> None:
        self._begun = reading
        self._read: dict[str, list[float]] = {limit.name: [] for limit in self.limits if limit.name not in WATCHED}
        self._waited_s, self._looked_s = 0.0, self._clock()

    def add(self, reading: Reading, is_paused: bool) -> Decision:
        """Take a reading into account; decides at the end of each window.

        Parameters
        ----------
        reading : mapping
            The ``reading`` of `damoos.agent.service.Service.status`.
        is_paused : bool
            Whether the policy is paused by now.
        """
        begun = self._begun
        if begun is None or reading["is_group"] != begun["is_group"]:
            self._begin(reading)
            return Decision(Action.NONE)
        for name, read in self._read.items():
            if name in reading["metrics"]:
                read.append(reading["metrics"][name])
        elapsed_s = reading["at_s"] - begun["at_s"]
        if elapsed_s < self.window_s:
            return self._while_it_lasts()
        values, missing = self._values(begun, reading, elapsed_s)
        self.rates = _rates(reading, begun, elapsed_s)
        self._begin(reading)
        self.values = values
        self.nr_windows += 1
        if missing:
            return Decision(Action.UNDO, f"no data for {missing}")
        if not self._judges:
            return Decision(Action.NONE)
        broken = [limit for limit in self.limits if beyond(limit, values[limit.name]) > 1]
        if is_paused:
            return self._while_paused(broken)
        return self._in_force(reading["at_s"])

    def _while_it_lasts(self) -> Decision:
        """Nothing yet, unless the machine's clock stands still, by which the window would never end."""
        now_s = self._clock()
        # Of a longer pause, the keeper or the machine was asleep.
        self._waited_s += min(now_s - self._looked_s, self.window_s)
        self._looked_s = now_s
        if self._waited_s < STILL_WINDOWS * self.window_s:
            return Decision(Action.NONE)
        return Decision(
            Action.UNDO, f"the machine's clock has not gone on by {self.window_s:g} s in {self._waited_s:.0f} s"
        )

    def _values(self, begun: Reading, last: Reading, elapsed_s: float) -> tuple[dict[str, float], str]:
        """What is watched in this window, and what of it has no value and why."""
        values: dict[str, float] = {}
        for limit in self.limits:
            name = limit.name
            try:
                if name in WATCHED:
                    values[name] = WATCHED[name].of(last, begun, elapsed_s)
                else:
                    values[name] = math.fsum(self._read[name]) / len(self._read[name])
            except (KeyError, ZeroDivisionError):
                return values, f"{name}: {last['missing'].get(name) or _why_missing(name, last)}"
        return values, ""

    def _while_paused(self, broken: Sequence[Limit]) -> Decision:
        if broken:
            self._calm, self._stuck = 0, self._stuck + 1
            if self._stuck >= STUCK_WINDOWS:
                why = f"{self._said(broken[0])} while the policy is paused, so it may not be the policy's doing"
                return Decision(Action.UNDO, why)
            return Decision(Action.NONE)
        self._calm += 1
        if self._calm < CALM_WINDOWS:
            return Decision(Action.NONE)
        self._calm = self._stuck = 0
        return Decision(Action.RESUME, "all limits are kept while the policy is paused")

    def _in_force(self, now_s: float) -> Decision:
        for limit in self.limits:
            value, sequence = self.values[limit.name], self._sequences[limit.text]
            sequence.add(value)
            if beyond(limit, value) > FAR:
                return self._far(limit, now_s)
            is_shown = sequence.lower > limit.bound if limit.is_upper else sequence.upper < limit.bound
            if is_shown:
                why = f"the mean of {limit.name} in {sequence.n} windows is {sequence.mean:.4g}, shown to break"
                return Decision(Action.UNDO, f"{why} {limit.text}")
        return Decision(Action.NONE)

    def _far(self, limit: Limit, now_s: float) -> Decision:
        self._paused_at_s = [at_s for at_s in self._paused_at_s if now_s - at_s < 3600]
        if len(self._paused_at_s) >= self._pauses_an_hour:
            return Decision(Action.UNDO, f"{self._said(limit)}, again within an hour")
        self._paused_at_s.append(now_s)
        return Decision(Action.PAUSE, self._said(limit))

    def _said(self, limit: Limit) -> str:
        return f"{limit.name} is {self.values[limit.name]:.4g} in a window of {self.window_s:g} s, limit {limit.text}"


def _rates(now: Reading, before: Reading, elapsed_s: float) -> dict[str, float]:
    found = {}
    for name, one in WATCHED.items():
        with contextlib.suppress(KeyError):
            found[name] = one.of(now, before, elapsed_s)
    return found


def _why_missing(name: str, reading: Reading) -> str:
    if name.endswith("pressure") and not reading["psi_us"]:
        return "PSI is off on this machine; boot it with psi=1"
    if not reading["is_group"]:
        return "the kernel tells it of a cgroup only, and the processes share theirs with others"
    return "this kernel does not tell it"


def beyond(limit: Limit, value: float) -> float:
    """How far a value is beyond a limit: 1 on it, `FAR` and more far beyond."""
    if limit.is_upper:
        return value / limit.bound if limit.bound > 0 else (math.inf if value > limit.bound else 0.0)
    return limit.bound / value if value > 0 else (math.inf if limit.bound > 0 else 0.0)
