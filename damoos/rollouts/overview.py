"""What each host of a rollout has, since when, and what it saves, as it is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from damoos.rollouts.conduct import fleet
from damoos.rollouts.kept_fleet import Key
from damoos.rollouts.rollout import Part, Rollout
from damoos.service.listing import standing
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
        How that is, in a word or a line; if it is to have nothing, how what it has still is.
    since : str
        When it got it; empty if it does not have it.
    before_bytes, now_bytes : float or None
        Net memory: the mean of all windows before the policy, and of the last ones under it.
    watched : dict
        The guard's last window.
    times : list of tuple of float, float
        Net memory window by window: seconds since 1970, bytes.
    has_policy : bool
        Whether it is to have the policy, and a keeper has it in force or tries to.
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
    has_policy: bool
    is_unlike: bool = False

    @property
    def saved_bytes(self) -> float | None:
        """What it has less than before; None where that is not known."""
        return None if self.before_bytes is None or self.now_bytes is None else self.before_bytes - self.now_bytes

    @property
    def saving(self) -> float | None:
        """What is saved, as a share."""
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
        found.append(_host(rollout, machine, part, _shown(states, machine, part), before, under))
    return _compared(found)


def without(rollout: Rollout) -> dict[str, str]:
    """Machines that are to have the policy and do not, or that have it without a keeper, and why.

    Raises
    ------
    ConfigError : the cluster whose nodes keep them is not there
    """
    if not (wanted := rollout.machines_with_policy()):
        return {}
    with fleet(rollout.plan, rollout.cluster) as machines:
        states = machines.states()
    shown = {machine: _shown(states, machine, Part.POLICY) for machine in wanted}
    is_driven = rollout.driven()
    return {machine: _words(state, Part.POLICY, is_driven) for machine, state in shown.items() if not _is_kept(state)}


def _shown(states: Mapping[Key, dict[str, Any]], machine: str, part: Part | None) -> dict[str, Any]:
    """The state of what a machine is to have; if it is to have nothing, of what it has still. Empty for nothing."""
    parts = (part,) if part else tuple(Part)
    return next((states[machine, one] for one in parts if (machine, one) in states), {})


def _is_kept(state: Mapping[str, object]) -> bool:
    """Whether a keeper that works has it in force, or tries to; of a node that does not answer nobody knows it."""
    return "in_force" in state and not state.keys() & {"failed", "late", "lost", "unconfirmed"}


def _host(
    rollout: Rollout,
    machine: str,
    part: Part | None,
    state: dict[str, Any],
    before: Sequence[dict[str, Any]],
    under: Sequence[dict[str, Any]],
) -> Host:
    progress = rollout.progress
    words = _words(state, part, rollout.driven())
    if not state:
        words = progress.left.get(machine, words)
    if machine in progress.not_off:
        words = f"may be in force: {progress.not_off[machine]}"
    is_kept = _is_kept(state)
    has_policy = part is Part.POLICY and is_kept
    return Host(
        machine, part, words, state.get("since", "") if is_kept else "",
        _mean(before), _mean(under[-LEAST_VALUES:]) if has_policy else None, state.get("watched", {}),
        sorted((one["at_s"], float(one["net_bytes"])) for one in [*before, *under]), has_policy,
    )  # fmt: skip


def _words(state: Mapping[str, Any], part: Part | None, is_driven: bool) -> str:
    if not state:
        return "on its way" if part and is_driven else "has nothing"
    return standing(state, "watched" if part is Part.WATCHED else "in force")


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
