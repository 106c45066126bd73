"""The age from which a scheme pages out: what there is to move when a workload changes.

Policies that follow a rule (senpai, gswap and others) steer themselves, and all others have no such dial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from damoos.damon.damo_json import context_from_json, context_to_json
from damoos.errors import ConfigError

# From one age to the next, and how many there are on each side of the proven one.
FACTOR, STEPS = 2, 3


def min_age_us(policy: Mapping[str, Any]) -> int:
    """The age from which a policy pages out.

    Parameters
    ----------
    policy : mapping
        As the agent takes it.

    Raises
    ------
    ConfigError : it has no such age
    """
    if policy.get("controller"):
        raise ConfigError(f"--adapt: {policy['controller']['name']} steers itself; a DAMOS scheme does not")
    document = policy["context"]
    context = document and context_from_json(document)
    ages = [one.pattern.min_age_us for one in context.schemes if one.action == "pageout"] if context else []
    if len(ages) != 1 or not ages[0] or context.module:
        raise ConfigError(
            "--adapt moves the min_age of a scheme that pages out; the policy must have one such scheme, with a min_age"
            " above 0"
        )
    return ages[0]


def with_min_age(document: dict[str, Any], age_us: int) -> dict[str, Any]:
    """A context, in damo's JSON, with another age from which it pages out."""
    context = context_from_json(document)
    schemes = (
        replace(one, pattern=replace(one.pattern, min_age_us=age_us)) if one.action == "pageout" else one
        for one in context.schemes
    )
    return context_to_json(replace(context, schemes=tuple(schemes)))


def ages_around(proven_us: int, least_us: int) -> list[int]:
    """The ages that may be in force, the lowest first.

    Parameters
    ----------
    proven_us : int, microseconds
    least_us : int, microseconds
        Lower ones make no sense: the aggregation interval.
    """
    found = [round(proven_us * FACTOR**step) for step in range(-STEPS, STEPS + 1)]
    return [age for age in found if age >= min(least_us, proven_us)]
