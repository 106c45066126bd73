"""Whether a step has shown what it must: no harm to any limit, and memory saved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from damoos.rollouts.effect import Effect, Track, Window, effect
from damoos.rollouts.plan import RISK, Plan
from damoos.scorers.terms import Limit
from damoos.service import guard

SAVING = "saving"


class Standing(StrEnum):
    """What a step has shown of one metric."""

    SHOWN = "shown"
    UNCLEAR = "unclear"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """One metric in one step.

    Parameters
    ----------
    metric : str
    standing : Standing
    effect : Effect
        What the policy adds to the metric; of the saving, the share of the memory.
    bound : float
        What the effect must be shown to stay below; for the saving, above.
    """

    metric: str
    standing: Standing
    effect: Effect
    bound: float

    def __str__(self) -> str:
        if self.effect.nr_windows == 0:
            return f"{self.metric}: nothing is known"
        if math.isinf(self.effect.lower):
            return f"{self.metric}: unclear: its {self.effect.nr_windows} windows differ too slowly to say anything yet"
        low, high = self.effect.lower, self.effect.upper
        if self.metric == SAVING:
            shown = f"{self.effect.mean:.1%} [{low:.1%}, {high:.1%}] of the memory, must be more than {self.bound:.1%}"
        else:
            shown = f"{self.effect.mean:+.4g} [{low:+.4g}, {high:+.4g}], may be at most {self.bound:+.4g}"
        return f"{self.metric}: {self.standing}: {shown}"


def judge(plan: Plan, policy: Sequence[Track], control: Sequence[Track]) -> list[Finding]:
    """What a step has shown by now.

    Parameters
    ----------
    policy, control : sequence of Track
        Of the machines with the policy, and of those without.
    """
    names = [name for name, *_ in plan.spec["metrics"]]
    limits = [guard.parse(text, names) for text in plan.spec["guards"]]
    window_s = plan.spec["window_s"]
    saved = effect(policy, control, _net_bytes, window_s, RISK, relative=True)
    saved = Effect(-saved.mean, -saved.upper, -saved.lower, saved.nr_windows)
    return [_saving(saved, plan.least_saving), *(_harm(plan, limit, policy, control) for limit in limits)]


def _net_bytes(window: Window) -> float | None:
    value: float | None = window["net_bytes"]
    return value


def _saving(saved: Effect, least: float) -> Finding:
    standing = Standing.SHOWN if saved.lower > least else Standing.UNCLEAR
    return Finding(SAVING, Standing.BROKEN if saved.upper < least else standing, saved, least)


def _harm(plan: Plan, limit: Limit, policy: Sequence[Track], control: Sequence[Track]) -> Finding:
    """Harm is what brings a metric nearer to its limit.

    A window beyond `guard.FAR` times the limit pauses the policy, so what is rare adds no more than that.
    """
    sign = 1.0 if limit.is_upper else -1.0

    def value(window: Window) -> float | None:
        found = window["watched"].get(limit.name)
        return None if found is None else sign * found

    most = guard.FAR * limit.bound
    harm = effect(policy, control, value, plan.spec["window_s"], RISK, relative=False, most=most)
    bound = plan.tolerance * limit.bound
    standing = Standing.SHOWN if harm.upper <= bound else Standing.UNCLEAR
    return Finding(limit.name, Standing.BROKEN if harm.lower > bound else standing, harm, bound)
