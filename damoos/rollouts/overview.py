"""What each host of a rollout has, since when, and what it saves, as it is now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from damoos.rollouts.conduct import fleet
from damoos.rollouts.rollout import Part, Rollout
from damoos.statistics.sequential import LEAST_VALUES

# A host is unlike the others if its change is further from their median than this many times their usual distance from
# it, and by more than this share of the memory; of fewer hosts nothing can be said.
_FAR, _LEAST_SHARE, _LEAST_HOSTS = 4.5, 0.03, 4


@dataclass(frozen=True)
class Host:
    """One host.

    Parameters
    ----------
    machine : str
    part : Part or None
        What it is to have.
    state : str
        How that is, in a word or a line.
    since : str
        When it got it; empty if it has nothing.
    before_bytes, now_bytes : float or None
        Net memory: the mean of all windows before the policy, and of the last ones under it.
    watched : dict
        The guard's last window.
    times : list of tuple of float, float
        Net memory window by window: seconds since 1970, bytes.
    is_unlike : bool
        Whether the policy does something else to it than to the others.
    """

    machine: str
    part: Part | None
    state: str
    since: str
    before_bytes: float | None
    now_bytes: float | None
    watched: dict[str, float]
    times: list[tuple[float, float]]
    is_unlike: bool = False

    @property
    def saved_bytes(self) -> float | None:
        """What it has less than before; None where that is not known."""
        return None if self.before_bytes is None or self.now_bytes is None else self.before_bytes - self.now_bytes

    @property
    def saving(self) -> float | None:
        """The same as a share."""
        return self.saved_bytes / self.before_bytes if self.before_bytes and self.saved_bytes is not None else None


def hosts(rollout: Rollout) -> list[Host]:
    """All hosts, in the order in which they get the policy.

    Raises
    ------
    ConfigError : the cluster whose nodes keep them is not there
    """
    parts = rollout.parts()
    with fleet(rollout.plan, rollout.cluster) as machines:
        states = machines.states()
        windows = machines.windows([(machine, part) for machine in parts for part in Part])
    found = []
    for machine, part in parts.items():
        before, under = (
            [window for window in windows[machine, one] if window["net_bytes"]] for one in (Part.WATCHED, Part.POLICY)
        )
        state = states.get((machine, part), {}) if part else {}
        found.append(_host(rollout, machine, part, state, before, under))
    return _compared(found)


def _host(
    rollout: Rollout,
    machine: str,
    part: Part | None,
    state: dict[str, Any],
    before: Sequence[dict[str, Any]],
    under: Sequence[dict[str, Any]],
) -> Host:
    progress = rollout.progress
    words = f"may be in force: {progress.not_off[machine]}" if machine in progress.not_off else _words(state, part)
    return Host(
        machine, part, progress.left.get(machine) or words, state.get("since", ""),
        _mean(before), _mean(under[-LEAST_VALUES:]) if part is Part.POLICY else None, state.get("watched", {}),
        sorted((one["at_s"], float(one["net_bytes"])) for one in [*before, *under]),
    )  # fmt: skip


def _words(state: dict[str, Any], part: Part | None) -> str:
    if part is None:
        return "has nothing"
    for key, words in (("unconfirmed", "may be in force"), ("failed", "failed"), ("out_of_reach", "out of reach")):
        if key in state:
            return f"{words}: {state[key]}"
    if not state:
        return "on its way"
    acts = "in force" if part is Part.POLICY else "watched"
    return "paused by its guard" if state.get("paused") else acts if state.get("in_force") else "waits for processes"


def _mean(windows: Sequence[dict[str, Any]]) -> float | None:
    return fmean(one["net_bytes"] for one in windows) if windows else None


def _compared(found: list[Host]) -> list[Host]:
    savings = {host.machine: host.saving for host in found if host.saving is not None}
    if len(savings) < _LEAST_HOSTS:
        return found
    middle = median(savings.values())
    usual = median(abs(saving - middle) for saving in savings.values())
    unlike = {machine for machine, saving in savings.items() if abs(saving - middle) > max(_FAR * usual, _LEAST_SHARE)}
    return [replace(host, is_unlike=host.machine in unlike) for host in found]
