"""A fleet that is not there: machines whose windows are drawn by chance, for rollouts that must not touch anybody's."""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from damoos.rollouts.driver import Trouble
from damoos.rollouts.effect import Track
from damoos.rollouts.plan import Plan
from damoos.rollouts.rollout import Part

WINDOW_S = 10.0
BEGIN_S = 1e9
# The noise of a machine comes again after so many windows, which are two hours and a half.
_CYCLE = 900
GIB = 1 << 30


@dataclass(frozen=True)
class Nature:
    """What machines and the policy are truly like.

    Parameters
    ----------
    saving : float
        Share of the memory that the policy saves.
    pressure : float
        What it adds to the share of the time in which a task waits for memory, on the machines that it hurts.
    hurts : float
        Share of the machines that it hurts.
    burst : float
        Share of the windows in which it hurts them, by as much more, so that its mean stays; 1 for all windows.
    noise : float
        Spread of the memory from window to window, as a share of it; of the pressure in units of its mean.
    memory_of_noise : float
        Correlation of one window with the next.
    drift : float
        By which share memory and pressure of all machines rise and fall within a day.
    lost : float
        Share of the machines that are silent at any time; which they are changes every half hour.
    lying : float
        Share of the machines that report the same numbers all the time.
    """

    saving: float = 0.2
    pressure: float = 0.0
    hurts: float = 1.0
    burst: float = 1.0
    noise: float = 0.02
    memory_of_noise: float = 0.3
    drift: float = 0.0
    lost: float = 0.0
    lying: float = 0.0


class FakeFleet:
    """A fleet of any number of machines that are not there.

    Parameters
    ----------
    plan : Plan
    nature : Nature
    seed : int

    Attributes
    ----------
    now_s : float
        The fleet's clock, which somebody has to move on.
    has : dict
        What each machine has, and since when.
    ended : dict
        Machines on which what they had has ended, and why; whoever writes into it is their admin, or their guard.
    messages : int
        How often a machine was told or asked something.
    """

    def __init__(self, plan: Plan, nature: Nature = Nature(), seed: int = 0) -> None:
        self._plan = plan
        self._nature = nature
        self._seed = seed
        self._machines: dict[str, Callable[[int, Part], Mapping[str, Any]]] = {}
        self.now_s = BEGIN_S
        self.has: dict[str, dict[Part, float]] = {}
        self.past: dict[tuple[str, Part], tuple[float, float]] = {}
        self.ended: dict[str, Trouble] = {}
        self.silent: set[str] = set()
        self.messages = 0

    def settle(self, wanted: Mapping[str, Part | None]) -> None:
        """Have this on the machines, and nothing else."""
        for machine, part in wanted.items():
            self._settle(machine, part)

    def _settle(self, machine: str, part: Part | None) -> None:
        own = self.has.setdefault(machine, {})
        for one in [one for one in own if one is not part]:
            self.past[machine, one] = (own.pop(one), self.now_s)
            self.messages += 1
        if part is not None and part not in own and machine not in self.ended:
            own[part] = self.now_s
            self.messages += 1

    def troubles(self) -> Iterable[Trouble]:
        """What has ended by itself."""
        return [trouble for trouble in self.ended.values() if trouble.part in self.has.get(trouble.machine, {})]

    def unreachable(self) -> dict[str, str]:
        """None: each can be told."""
        return {}

    def remaining(self) -> list[str]:
        """Machines that have something of it."""
        return [machine for machine, own in self.has.items() if own and machine not in self.ended]

    def tracks(self, machines: Iterable[str], part: Part, begun_s: float, baking_s: float) -> list[Track]:
        """Windows of machines, the same ones however often they are asked for."""
        return [self._track(machine, part, begun_s, baking_s) for machine in machines]

    def _track(self, machine: str, part: Part, begun_s: float, baking_s: float) -> Track:
        self.messages += 1
        end_s = baking_s or self.now_s
        before = [
            window
            for part_before in {Part.WATCHED, part}
            for window in self._windows(machine, part_before, begun_s, end_s)
        ]
        return Track(before, self._windows(machine, part, baking_s, self.now_s) if baking_s else [])

    def _windows(self, machine: str, part: Part, begin_s: float, end_s: float) -> list[Mapping[str, Any]]:
        since = self.has.get(machine, {}).get(part)
        from_s, to_s = (since, self.now_s) if since is not None else self.past.get((machine, part), (0.0, 0.0))
        first = math.ceil(max(begin_s, from_s) / WINDOW_S)
        last = math.floor(min(end_s, to_s) / WINDOW_S)
        window = self._machine(machine)
        found = (window(nth, part) for nth in range(first + 1, last + 1) if not self._is_silent(machine, nth))
        return list(found)

    def _is_silent(self, machine: str, nth: int) -> bool:
        half_hour = int(nth * WINDOW_S // 1800)
        return (
            machine in self.silent or random.Random(f"{self._seed} {machine} {half_hour}").random() < self._nature.lost
        )

    def _machine(self, machine: str) -> Callable[[int, Part], Mapping[str, Any]]:
        """The windows of a machine, by their numbers."""
        if machine in self._machines:
            return self._machines[machine]
        noise = _noise(f"{self._seed} {machine}", self._nature.memory_of_noise)
        nature, chance = self._nature, random.Random(f"{self._seed} {machine}")
        bytes_, pressure = GIB * chance.lognormvariate(0, 0.5), chance.lognormvariate(math.log(0.005), 0.5)
        is_hurt, is_lying = chance.random() < nature.hurts, chance.random() < nature.lying

        def window(nth: int, part: Part) -> Mapping[str, Any]:
            has_policy = part is Part.POLICY
            of_day = 1 + nature.drift * math.sin(2 * math.pi * nth * WINDOW_S / 86400)
            held = bytes_ * of_day * (1 + nature.noise * noise[0][nth % _CYCLE])
            waits = pressure * of_day * max(1 + 10 * nature.noise * noise[1][nth % _CYCLE], 0.0)
            if has_policy:
                held *= 1 - nature.saving
                is_in_burst = (
                    nature.burst == 1 or random.Random(f"{self._seed} {machine} {nth}").random() < nature.burst
                )
                waits += nature.pressure / nature.burst if is_hurt and is_in_burst else 0.0
            if is_lying:
                held, waits = bytes_, 0.0
            watched = {"memory_pressure": waits}
            return {"at_s": nth * WINDOW_S, "paused": False, "net_bytes": held, "watched": watched}

        self._machines[machine] = window
        return window


def _noise(seed: str, memory: float) -> np.ndarray:
    """Noise of the bytes and of the waits, with a spread of 1."""
    terms = 8 if memory < 0.4 else math.ceil(math.log(1e-3) / math.log(memory))  # what is older weighs nothing
    drawn = np.random.default_rng(zlib.crc32(seed.encode())).normal(size=(2, _CYCLE + terms))
    weights = memory ** np.arange(terms)
    return np.array([np.convolve(one, weights / np.linalg.norm(weights), "valid")[:_CYCLE] for one in drawn])


def spec(**changes: Any) -> dict[str, Any]:
    """Specification of a policy that is not there, put on processes that are not there."""
    machine = changes.get("machine", "m0")
    return {
        "name": "redis", "study": "s", "arm": "tuned", "machine": machine, "on_text": "unit:redis.service",
        "on": {"kind": "unit", "name": "redis.service"}, "guards": ["memory_pressure<=10%"], "window_s": WINDOW_S,
        "metrics": [], "results": "/nowhere", "run": {"command": "true", "machine": machine}, "policy": {},
        "scheme": "senpai", "verdict": "tuned",
        **changes,
    }  # fmt: skip


def fake_plan(nr_machines: int, steps: Iterable[int], **changes: Any) -> Plan:
    """A plan for machines that are not there, whose tolerance can be shown within a quarter of an hour."""
    names = list(itertools.islice((f"m{nth}" for nth in itertools.count()), nr_machines))
    return Plan(
        **{"spec": spec(), "machines": names, "steps": list(steps), "bake_s": 900.0, "tolerance": 0.4, **changes}
    )
