"""Policies of the containers of a workload: for each a rule in user space, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from damoos.errors import ConfigError
from damoos.policies import catalog
from damoos.policies.base import Policy

NONE = "none"


@dataclass(frozen=True)
class ContainersPolicy(Policy):
    """Each container under the policy of its own table in the workload file; those without one are left alone."""

    name = "containers"

    def spec(self) -> dict[str, Any]:
        """No DAMON context, and that the tables' policies are in force."""
        return {"context": None, "own_policies": True}


def rule(container: str, text: str) -> dict[str, Any] | None:
    """The rule that is the policy of one container, as the agent takes it; None for none.

    Raises
    ------
    ConfigError : there is no such policy, or it is not of one cgroup alone
    """
    if text == NONE:
        return None
    usable = [NONE, *(name for name in catalog.names() if _is_of_a_group(catalog.rule(name)()))]
    if text.partition(":")[0] not in usable:
        raise ConfigError(
            f"container '{container}': policy '{text}' is none of {', '.join(usable)}; a DAMOS scheme, or a setting of"
            " the kernel, is of the whole workload, not of one container"
        )
    found: dict[str, Any] = catalog.parse(text).spec()["controller"]
    return found


def _is_of_a_group(policy: Policy) -> bool:
    """Whether a policy is a rule that steers a cgroup, and nothing beside it."""
    spec = policy.spec()
    return "controller" in spec and spec["context"] is None and len(spec) == 2 and not policy.peak_shares


def steered(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A run of containers as the agent takes it: each with ``controller``, the rule that steers it, for its ``policy``.

    Parameters
    ----------
    spec : mapping
        Keys of the workload's `spec` and the policy's. A rule of the run steers each container that has no policy of
        its own; one that goes with DAMOS schemes, as g-swap's does, steers all of them together. Where the run's
        policy is another one, a baseline for example, no container is steered.
    """
    own_policies = spec.get("own_policies", False)
    of_each = spec.get("controller") if spec["context"] is None else None
    containers = []
    for container in spec["containers"]:
        text = container["policy"]
        own = of_each if text is None else rule(container["name"], text)
        plain = {name: value for name, value in container.items() if name != "policy"}
        containers.append({**plain, "controller": own if of_each or own_policies else None})
    gone = ("own_policies", "controller") if of_each else ("own_policies",)
    return {name: value for name, value in spec.items() if name not in gone} | {"containers": containers}
