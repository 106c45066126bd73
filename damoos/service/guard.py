"""The guard of a policy in service: limits, judged window by window, and what is to be done when one is broken.

- A window far beyond a limit pauses the policy. It goes on once the limits are kept while it is paused, and ends once
  such windows are shown to be its doing (`damoos.service.far_windows`).
- A mean that is shown to be beyond a limit ends it, after `LEAST_WINDOWS` at the earliest: a sequential test, at a risk
  of 5 % for each limit.
- A limit that stays broken while the policy is paused ends it, too, although it may not be the policy's doing.
- A window without a value, or with a stale one, pauses it: what cannot be seen cannot be guarded. If the value does not
  come back in time, the policy ends.
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
from damoos.service.far_windows import CALM_WINDOWS, FarWindows
from damoos.service.staleness import Staleness
from damoos.statistics.sequential import ConfidenceSequence

WINDOW_S = 10.0
# A window beyond the limit by this factor is no noise.
FAR = 2.0
# Windows by the keeper's clock in which a machine's goes on by one: an emulated guest on a busy host is slow.
STILL_WINDOWS = 100
# Of fewer windows no mean is judged, 20 minutes at 10 s each: a load that is high for some minutes and low for others
# would look like harm in its first high ones (tests/bench/windows.py). Far windows are judged at once.
LEAST_WINDOWS = 120
# A paused policy goes on after `CALM_WINDOWS` in a row that kept all limits, and ends if it has waited for them for so
# many windows longer than it had to: bursts of load are shorter.
STUCK_WINDOWS = 180
# For how long, by the machine's clock, a policy is paused for a value that does not come, before it ends: an exporter
# that is restarted is back by then.
GRACE_S = 120.0
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


class Reason(StrEnum):
    """Why, in one word; docs/operate.md says what each means."""

    NONE = ""
    FAR = "far"
    FAR_AGAIN = "far-again"
    MEAN = "mean"
    STUCK = "stuck"
    NO_DATA = "no-data"
    STALE = "stale-data"
    NOT_TOLD = "not-told"
    CLOCK = "clock"
    CALM = "calm"


@dataclass(frozen=True)
class Decision:
    """An action, and why: in a word, and in a line."""

    action: Action
    reason: Reason = Reason.NONE
    why: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.why}"


NOTHING = Decision(Action.NONE)


class Guard:
    """Watches one policy in service.

    Parameters
    ----------
    limits : sequence of Limit
        Of `parse`.
    window_s : float, seconds
    judges : bool
        False where there is no policy to pause: it measures, and asks for nothing unless a value does not come back.
    clock : callable
        The keeper's own, in seconds.
    """

    def __init__(
        self,
        limits: Sequence[Limit],
        window_s: float = WINDOW_S,
        judges: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.limits = limits
        self.window_s = window_s
        self._judges = judges
        self._far = FarWindows()
        self._stale = {limit.name: Staleness() for limit in limits if limit.name not in WATCHED}
        self.forget()
        self.restart()
        self._calm = self._nr_paused = 0
        self._missing_since_s: float | None = None
        self.values: dict[str, float] = {}
        """The last window's, by the name of what is watched."""
        self.rates: dict[str, float] = {}
        """All of `WATCHED` that the machine tells, of the last window."""
        self.nr_windows = 0

    def forget(self) -> None:
        """The policy is another now: what its means were so far says nothing of it."""
        self._sequences = {limit.text: ConfidenceSequence() for limit in self.limits}
        self._far.forget()

    def restart(self) -> None:
        """Begin a new window: the processes are others now, or the policy has just been put on."""
        self._begin(None)

    def _begin(self, reading: Reading | None) -> None:
        self._begun = reading
        self._read: dict[str, list[float]] = {name: [] for name in self._stale}
        self._why_stale: dict[str, str] = {}
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
            return NOTHING
        for name, read in self._read.items():
            if name in reading["metrics"]:
                self._take(name, read, reading)
        elapsed_s = reading["at_s"] - begun["at_s"]
        if elapsed_s < self.window_s:
            return self._while_it_lasts()
        values, missing = self._values(begun, reading, elapsed_s)
        self.rates = _rates(reading, begun, elapsed_s)
        self._begin(reading)
        self.values = values
        self.nr_windows += 1
        if missing:
            return self._without(missing, begun["at_s"], reading["at_s"], is_paused)
        self._missing_since_s = None
        if not self._judges:
            return NOTHING
        is_far = any(beyond(limit, values[limit.name]) > FAR for limit in self.limits)
        self._far.add(reading["at_s"], is_paused, is_far)
        return self._while_paused() if is_paused else self._in_force()

    def _take(self, name: str, read: list[float], reading: Reading) -> None:
        """Take a value of a metric into account, unless it is stale."""
        value = reading["metrics"][name]
        why = self._stale[name].add(value, reading["ages_s"].get(name), reading["at_s"])
        if why:
            self._why_stale[name] = why
        else:
            read.append(value)

    def _while_it_lasts(self) -> Decision:
        """Nothing yet, unless the machine's clock stands still, by which the window would never end."""
        now_s = self._clock()
        # Of a longer pause, the keeper or the machine was asleep.
        self._waited_s += min(now_s - self._looked_s, self.window_s)
        self._looked_s = now_s
        if self._waited_s < STILL_WINDOWS * self.window_s:
            return NOTHING
        why = f"the machine's clock has not gone on by {self.window_s:g} s in {self._waited_s:.0f} s"
        return Decision(Action.UNDO, Reason.CLOCK, why)

    def _values(self, begun: Reading, last: Reading, elapsed_s: float) -> tuple[dict[str, float], Decision | None]:
        """What is watched in this window, and what is to be done where some of it has no value."""
        values: dict[str, float] = {}
        missing: Decision | None = None
        for limit in self.limits:
            name = limit.name
            try:
                if name in WATCHED:
                    values[name] = WATCHED[name].of(last, begun, elapsed_s)
                else:
                    values[name] = math.fsum(self._read[name]) / len(self._read[name])
            except (KeyError, ZeroDivisionError):
                missing = missing or self._missing(name, last)
        return values, missing

    def _missing(self, name: str, last: Reading) -> Decision:
        """What to do without a value: a source may come back, and a kernel that does not tell it never does."""
        if name in WATCHED:
            return Decision(Action.UNDO, Reason.NOT_TOLD, f"no data for {name}: {_why_missing(name, last)}")
        if why := self._why_stale.get(name):
            return Decision(Action.PAUSE, Reason.STALE, f"stale data for {name}: {why}")
        why = last["missing"].get(name) or "its source has not told it"
        return Decision(Action.PAUSE, Reason.NO_DATA, f"no data for {name}: {why}")

    def _without(self, missing: Decision, begun_s: float, now_s: float, is_paused: bool) -> Decision:
        """Pause the policy at the first window that lacks a value; end it if there is none `GRACE_S` later either."""
        if missing.action is Action.UNDO:
            return missing
        self._calm = 0
        if self._missing_since_s is None:
            self._missing_since_s = begun_s
        missing_s = now_s - self._missing_since_s
        if missing_s >= self.window_s + GRACE_S:
            return Decision(Action.UNDO, missing.reason, f"{missing.why}, for {missing_s:.0f} s")
        if is_paused or not self._judges:
            return NOTHING
        self._nr_paused = 0
        return missing

    def _while_paused(self) -> Decision:
        broken = next((limit for limit in self.limits if beyond(limit, self.values[limit.name]) > 1), None)
        self._calm = 0 if broken else self._calm + 1
        self._nr_paused += 1
        least = self._far.calm_windows
        if self._calm >= CALM_WINDOWS and self._nr_paused >= least:
            return Decision(Action.RESUME, Reason.CALM, "all limits are kept while the policy is paused")
        if broken and self._nr_paused >= least + STUCK_WINDOWS:
            why = f"{self._said(broken)} while the policy is paused, so it may not be the policy's doing"
            return Decision(Action.UNDO, Reason.STUCK, why)
        return NOTHING

    def _in_force(self) -> Decision:
        self._calm = self._nr_paused = 0
        for limit in self.limits:
            value, sequence = self.values[limit.name], self._sequences[limit.text]
            sign = 1 if limit.is_upper else -1
            sequence.add(sign * value)
            if beyond(limit, value) > FAR:
                return self._beyond(limit)
            if sequence.n >= LEAST_WINDOWS and sequence.lower > sign * limit.bound:
                why = f"the mean of {limit.name} in {sequence.n} windows is {sign * sequence.mean:.4g}, shown to break"
                return Decision(Action.UNDO, Reason.MEAN, f"{why} {limit.text}")
        return NOTHING

    def _beyond(self, limit: Limit) -> Decision:
        if self._far.is_policys_doing:
            return Decision(Action.UNDO, Reason.FAR_AGAIN, f"{self._said(limit)}; {self._far.text}")
        return Decision(Action.PAUSE, Reason.FAR, self._said(limit))

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
