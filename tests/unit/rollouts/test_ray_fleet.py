"""What a rollout tells and asks the nodes of a cluster; with a real one: tests/integration/test_rollout.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from damoos.dispatch.ray_address import RayCluster
from damoos.dispatch.ray_nodes import Remote
from damoos.rollouts import ray_fleet
from damoos.rollouts.kept_fleet import KeptFleet
from damoos.rollouts.overview import hosts, without
from damoos.rollouts.ray_fleet import RayFleet
from damoos.rollouts.rollout import Part, Phase, Rollout, State
from damoos.service import keeper
from damoos.service.journal import Journal
from damoos.testing.rollout_fleet import fake_plan, spec


class Nodes:
    """Two nodes in this process, each with half of the machines; one of them may be away."""

    def __init__(self, address: str, make: Callable[[tuple[str, ...]], KeptFleet], machines: Iterable[str]) -> None:
        self._make = make
        names = sorted(machines)
        self._places = {"n0": tuple(names[::2]), "n1": tuple(names[1::2])}
        self._objects: dict[str, KeptFleet] = {}
        self.away: set[str] = set()
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def check_offered(self) -> None:
        """All are."""

    def objects(self) -> list[Remote]:
        there = {node: machines for node, machines in self._places.items() if node not in self.away}
        found = [Remote(machines, node not in self._objects, node) for node, machines in there.items()]
        self._objects = {node: self._objects.get(node) or self._make(machines) for node, machines in there.items()}
        return found

    def ask(self, questions: Mapping[Remote, tuple[str, tuple[Any, ...]]]) -> dict[Remote, Any]:
        self.asked += questions.values()
        return {one: getattr(self._objects[one.handle], method)(*args) for one, (method, args) in questions.items()}

    tell = ask

    def close(self) -> None:
        """Nothing to do."""


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> RayFleet:
    """Four machines on two nodes; their keepers are not started."""
    monkeypatch.setattr(ray_fleet, "RayNodes", Nodes)
    monkeypatch.setattr(keeper, "wake", lambda journal, start=True: None)
    return RayFleet(fake_plan(4, [2, 4], spec=spec(results=str(tmp_path)), ray="auto"), RayCluster("auto"), said.append)


def nodes(fleet: RayFleet) -> Nodes:
    return fleet._nodes  # type: ignore[return-value]


def test_each_node_is_told_of_its_own_machines(fleet: RayFleet, tmp_path: Path) -> None:
    fleet.begin()
    fleet.settle({"m0": Part.POLICY, "m1": Part.POLICY, "m2": Part.WATCHED, "m3": None})
    assert nodes(fleet).asked[-2:] == [
        ("settle", ({"m0": Part.POLICY, "m2": Part.WATCHED},)),
        ("settle", ({"m1": Part.POLICY, "m3": None},)),
    ]
    wanted = {machine: list(Journal.of(tmp_path, machine).wanted()) for machine in ("m0", "m1", "m2", "m3")}
    assert wanted == {"m0": ["redis-m0"], "m1": ["redis-m1"], "m2": ["redis-m2-watched"], "m3": []}


def test_a_node_that_was_away_hears_what_is_wanted_by_now(fleet: RayFleet, tmp_path: Path, said: list[str]) -> None:
    fleet.settle(dict.fromkeys(("m0", "m1", "m2", "m3"), Part.WATCHED))
    nodes(fleet).away = {"n1"}
    fleet.settle(dict.fromkeys(("m0", "m1", "m2", "m3"), Part.POLICY))
    assert list(Journal.of(tmp_path, "m1").wanted()) == ["redis-m1-watched"]
    assert said == ["no node answers for m1, m3; what they have stays while their keepers live"]
    assert fleet.remaining() == ["m0", "m2", "m1", "m3"]
    nodes(fleet).away = set()
    assert fleet.troubles() == []
    assert list(Journal.of(tmp_path, "m1").wanted()) == ["redis-m1"]
    assert said[1:] == ["a node answers for m1, m3 again"]
    fleet.settle(dict.fromkeys(("m0", "m1", "m2", "m3")))
    assert fleet.remaining() == []


def test_what_has_ended_on_any_node_is_told(fleet: RayFleet, tmp_path: Path) -> None:
    for machine in ("m0", "m3"):
        Journal.of(tmp_path, machine).tell(f"redis-{machine}", {"failed": f"its guard has taken it off {machine}"})
    assert {trouble.machine: trouble.why for trouble in fleet.troubles()} == {
        "m0": "its guard has taken it off m0",
        "m3": "its guard has taken it off m3",
    }
    assert fleet.states().keys() == {("m0", Part.POLICY), ("m3", Part.POLICY)}
    nodes(fleet).away = {"n1"}
    assert fleet.states()["m3", Part.POLICY] == {"out_of_reach": "no node answers for it"}


def test_hosts_whose_node_does_not_answer_are_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in force, and not in the way of the others."""

    class HalfAway(Nodes):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            self.away = {"n1"}

    monkeypatch.setattr(ray_fleet, "RayNodes", HalfAway)
    monkeypatch.setattr(keeper, "wake", lambda journal, start=True: None)
    plan = fake_plan(4, [2, 4], spec=spec(results=str(tmp_path)), ray="10.0.0.1:6379")
    rollout = Rollout.create(tmp_path, plan, RayCluster("10.0.0.1:6379"))
    rollout.progress = replace(rollout.progress, state=State.DONE, step=1, phase=Phase.BAKE, findings=[[], []])
    found = {host.machine: host for host in hosts(rollout)}
    silent = {"m1": "out of reach: no node answers for it", "m3": "out of reach: no node answers for it"}
    assert {name: host.state for name, host in found.items()} == {"m0": "has nothing", "m2": "has nothing", **silent}
    assert not any(host.has_policy for host in found.values())
    assert without(rollout).keys() == {"m0", "m1", "m2", "m3"}


def test_a_node_sends_each_window_once(fleet: RayFleet, tmp_path: Path) -> None:
    """Also after it was away, and its object is another one that has read all of them anew."""
    journal = Journal.of(tmp_path, "m1")
    for at_s in (50, 110, 190):
        journal.add_window("redis-m1-watched", {"at_s": at_s})
    (before,) = fleet.tracks(["m1"], Part.WATCHED, 100, 0)
    assert [one["at_s"] for one in before.before] == [110, 190]
    nodes(fleet).away = {"n1"}
    assert fleet.tracks(["m1"], Part.WATCHED, 100, 0) == [before]
    nodes(fleet).away = set()
    for at_s in (195, 210):
        journal.add_window("redis-m1-watched", {"at_s": at_s})
    journal.add_window("redis-m1", {"at_s": 205})
    (after,) = fleet.tracks(["m1"], Part.POLICY, 100, 200)
    assert [one["at_s"] for one in after.before] == [110, 190, 195]
    assert [one["at_s"] for one in after.after] == [205]
    sent = [args[0] for method, args in nodes(fleet).asked if method == "windows_since" and args[0]]
    assert sent[-1] == {("m1", Part.WATCHED): 190, ("m1", Part.POLICY): 0.0}
