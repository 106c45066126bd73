"""What a rollout is to do: the policy, the machines, the steps, and what each step has to show."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from damoos.errors import ConfigError
from damoos.rollouts.effect import SPAN_WINDOWS
from damoos.service.guard import FAR
from damoos.statistics.sequential import LEAST_VALUES

# A step is proven by windows before and after; those before take half as long.
BEFORE_SHARE = 0.5
LEAST_BEFORE = math.ceil(LEAST_VALUES * SPAN_WINDOWS) + 2
LEAST_WINDOWS = math.ceil(LEAST_BEFORE / BEFORE_SHARE)
# Chance for each metric and step to let a policy through that does more harm than the tolerance, or to take one back
# that does not.
RISK = 0.01
# More machines than these are not compared in a step; the guards watch all of them.
MOST_COMPARED = 200
# So few machines with the policy may be compared with more that have none, which costs those nothing.
LEAST_CONTROL = 3


@dataclass(frozen=True)
class Plan:
    """A rollout before it begins.

    Parameters
    ----------
    spec : mapping
        Of `damoos.service.specification.specification`, for any of the machines: the policy, what it is put on, limits
        and metrics.
    machines : sequence of str
        Equal ones, or nearly.
    steps : sequence of int
        How many machines have the policy after each step; the last number is that of all machines.
    bake_s : float, seconds
        For how long a step is watched before the next.
    tolerance : float
        By which share of a limit the policy may bring its metric nearer to the limit than on machines without it.
    least_saving : float
        Share of the memory that it must be shown to save more than.
    seed : int
        Of the order in which machines get the policy.
    ray : str or None
        Address of the Ray cluster whose nodes keep the machines; None for keepers on this computer. It leads nobody
        there by itself: see `damoos.rollouts.conduct.fleet`.
    """

    spec: Mapping[str, Any]
    machines: Sequence[str]
    steps: Sequence[int]
    bake_s: float
    tolerance: float = 0.1
    least_saving: float = 0.0
    seed: int = 0
    ray: str | None = None

    @cached_property
    def order(self) -> list[str]:
        """The machines in the order in which they get the policy: by chance."""
        return random.Random(self.seed).sample(list(self.machines), len(self.machines))

    def cohort(self, step: int) -> list[str]:
        """The machines that get the policy in a step."""
        before = self.steps[step - 1] if step else 0
        return self.order[before : self.steps[step]]

    def control(self, step: int) -> list[str]:
        """Machines that a step's are compared with: as many, of those that get the policy last, which are only watched.

        In the last step these are machines of the steps before, which have the policy before and after, so only the
        load changes what they do. If there is but one step, there are none.
        """
        rest = self.order[self.steps[step] :] or self.order[: self.steps[step - 1] if step else 0]
        wanted = min(max(len(self.cohort(step)), LEAST_CONTROL), MOST_COMPARED)
        return rest[max(len(rest) - wanted, 0) :]


def checked(plan: Plan) -> Plan:
    """A plan that can be carried out.

    Raises
    ------
    ConfigError : it cannot
    """
    if len(set(plan.machines)) < len(plan.machines):
        twice = next(one for one in plan.machines if list(plan.machines).count(one) > 1)
        raise ConfigError(f"--machines: '{twice}' is named twice")
    if len(plan.machines) < 2:
        raise ConfigError("--machines: a rollout takes two machines or more; for one there is 'damoos apply'")
    if plan.tolerance <= 0:
        raise ConfigError("--tolerance: a policy cannot be shown to do no harm at all; give a share above 0 %")
    least = least_windows(plan.tolerance)
    least_s = least * plan.spec["window_s"]
    if plan.bake_s < least_s:
        raise ConfigError(
            f"--bake {plan.bake_s:g}s: with --tolerance {plan.tolerance:.0%}, nothing is shown by fewer than"
            f" {least} windows of {plan.spec['window_s']:g} s; give {least_s:g}s or more, a shorter --window, or a"
            " wider --tolerance"
        )
    return plan


def least_spans(tolerance: float) -> float:
    """Spans of time of a bake that can show a limit to be kept, if there is no noise.

    What is so rare that none of n spans had it comes in less than ``log(1 / risk) / n`` of them, and adds `FAR` times
    the limit in each.
    """
    return max(LEAST_VALUES, FAR * math.log(2 / RISK) / tolerance)


def least_windows(tolerance: float) -> int:
    """Windows of a bake that has as many spans of time."""
    return max(LEAST_WINDOWS, math.ceil(least_spans(tolerance) * SPAN_WINDOWS))


def parse_steps(text: str, nr_machines: int) -> list[int]:
    """How many machines have the policy after each step.

    Parameters
    ----------
    text : str
        Numbers of machines and shares of all of them: ``1,10%,50%,100%``. Steps that add no machine fall away; one that
        takes the rest is added if the last is less than all.

    Raises
    ------
    ConfigError : not of this form, or not ever more
    """
    steps: list[int] = []
    for word in text.split(","):
        is_share = word.strip().endswith("%")
        try:
            number = float(word.strip().removesuffix("%"))
        except ValueError:
            raise ConfigError(
                f"--steps '{text}': '{word.strip()}' is neither a number of machines nor a share"
            ) from None
        nr = math.ceil(number / 100 * nr_machines - 1e-9) if is_share else number
        if not 0 < nr <= nr_machines or nr != int(nr):
            raise ConfigError(f"--steps '{text}': '{word.strip()}' is not between 1 and all {nr_machines} machines")
        if steps and nr < steps[-1]:
            raise ConfigError(f"--steps '{text}': '{word.strip()}' is less than the step before it")
        if not steps or nr > steps[-1]:
            steps.append(int(nr))
    return steps if steps[-1] == nr_machines else [*steps, nr_machines]
