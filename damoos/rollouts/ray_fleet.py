"""The machines of a rollout through Ray: each node of a cluster has the keepers of the machines that it offers.

The driver tells a node what is wanted of its machines, and asks it what has come of it. The keepers do not need the
driver, nor Ray: they have detached themselves from both, and go on under their journals, which are on the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from damoos.dispatch.ray_address import RayCluster
from damoos.dispatch.ray_nodes import RayNodes, Remote
from damoos.rollouts.driver import Trouble, some
from damoos.rollouts.effect import Track
from damoos.rollouts.kept_fleet import KeptFleet, Key, tracks
from damoos.rollouts.plan import Plan
from damoos.rollouts.rollout import Part


class RayFleet:
    """A `KeptFleet` on each node.

    Parameters
    ----------
    plan : Plan
    cluster : RayCluster
    event : callable
        Told, in one line, when machines are out of reach because of their node, and when they are back.

    Raises
    ------
    UnsupportedError : Ray is not installed
    ConfigError : no cluster there
    """

    def __init__(self, plan: Plan, cluster: RayCluster, event: Callable[[str], Any] = lambda _: None) -> None:
        self._plan = plan
        self._event = event
        self._nodes = RayNodes(cluster, partial(KeptFleet, plan), plan.order)
        self._wanted: dict[str, Part | None] = {}
        self._windows: dict[Key, list[dict[str, Any]]] = {}
        self._silent: set[str] = set()

    def begin(self) -> None:
        """See that one node offers each machine, and that nothing of the rollout's names is in service.

        Raises
        ------
        ConfigError : none or several do, or something is
        """
        self._nodes.check_offered()
        self._ask("begin", lambda machines: ())

    def settle(self, wanted: Mapping[str, Part | None]) -> None:
        """Have this on the machines; a node that is away is told when it is back."""
        self._wanted = dict(wanted)
        self._hear(self._settled(self._nodes.objects()))

    def troubles(self) -> list[Trouble]:
        """What has ended by itself, as far as nodes answer."""
        answers = self._ask("troubles", lambda machines: ())
        return [trouble for answer in answers.values() for trouble in answer]

    def states(self) -> dict[Key, dict[str, Any]]:
        """How all that there is of it is; what no node answers for is out of reach."""
        answers = self._ask("states", lambda machines: ())
        silent = {"out_of_reach": "no node answers for it"}
        away = {(machine, part): silent for machine in self._silent for part in Part}
        return {**away, **{key: state for answer in answers.values() for key, state in answer.items()}}

    def unreachable(self) -> dict[str, str]:
        """Machines that a node could not tell what is wanted of them, and why."""
        answers = self._ask("unreachable", lambda machines: ())
        return {machine: why for answer in answers.values() for machine, why in answer.items()}

    def remaining(self) -> list[str]:
        """Machines on which there is still something of it, or whose node does not answer."""
        answers = self._ask("remaining", lambda machines: ())
        return [*(machine for answer in answers.values() for machine in answer), *sorted(self._silent)]

    def tracks(self, machines: Iterable[str], part: Part, begun_s: float, baking_s: float) -> list[Track]:
        """Windows of machines in a step; of a node that does not answer, those that it has told before."""
        return tracks(self.windows, machines, part, begun_s, baking_s)

    def windows(self, of: Iterable[Key]) -> dict[Key, list[dict[str, Any]]]:
        """All windows of some, the oldest first; a node sends only those that are new."""
        since_s = {key: known[-1]["at_s"] if (known := self._windows.setdefault(key, [])) else 0.0 for key in of}

        def question(machines: Iterable[str]) -> tuple[dict[Key, float]]:
            own = set(machines)
            return ({key: at_s for key, at_s in since_s.items() if key[0] in own},)

        for answer in self._ask("windows_since", question).values():
            for key, windows in answer.items():
                self._windows[key] += windows
        return {key: self._windows[key] for key in since_s}

    def _ask(self, method: str, args: Callable[[tuple[str, ...]], tuple[Any, ...]]) -> dict[Remote, Any]:
        """What each node answers; one that was away hears first what is wanted of its machines by now."""
        objects = self._nodes.objects()
        if self._wanted:
            self._settled([one for one in objects if one.is_new])
        answers = self._nodes.ask({one: (method, args(one.machines)) for one in objects})
        self._hear(answers)
        return answers

    def _settled(self, objects: Iterable[Remote]) -> dict[Remote, Any]:
        """Tell nodes what is wanted of their machines; returns those that have done it."""
        wanted = self._wanted
        parts = {one: {name: wanted[name] for name in one.machines if name in wanted} for one in objects}
        return self._nodes.tell({one: ("settle", (own,)) for one, own in parts.items()})

    def _hear(self, answers: Mapping[Remote, Any]) -> None:
        """Note whose node has answered, and tell what is new of that."""
        heard = {machine for one in answers for machine in one.machines}
        silent = {machine for machine in self._plan.machines if machine not in heard}
        if gone := silent - self._silent:
            self._event(f"no node answers for {some(sorted(gone))}; what they have stays while their keepers live")
        if back := self._silent - silent:
            self._event(f"a node answers for {some(sorted(back))} again")
        self._silent = silent

    def close(self) -> None:
        """Leave the cluster; the keepers go on by themselves."""
        self._nodes.close()
