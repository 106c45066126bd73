"""The machines of a rollout, each with a keeper of its own, as `damoos apply` has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from damoos.rollouts.driver import Part, Trouble
from damoos.rollouts.effect import Track
from damoos.rollouts.plan import Plan
from damoos.service import keeper
from damoos.service.journal import Journal, Windows
from damoos.service.specification import watched_only
from damoos.store.studies import slug


def name_of(label: str, machine: str, part: Part = Part.POLICY) -> str:
    """Under which name it is in service on a machine."""
    return f"{label}-{slug(machine)}" + ("-watched" if part is Part.WATCHED else "")


class KeptFleet:
    """Through the journals of a results folder.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        results = Path(plan.spec["results"])
        self._journals = {machine: Journal.of(results, machine) for machine in plan.machines}
        self._windows: dict[tuple[str, Part], Windows] = {}

    def want(self, machine: str, part: Part | None) -> None:
        """Have this on a machine, and nothing else of the rollout; what has ended by itself is not begun again."""
        journal = self._journals[machine]
        with journal.changing():
            wanted, states = journal.wanted(), journal.states()
            changes = False
            for one in Part:
                name = self._name(machine, one)
                if one is not part and name in wanted:
                    journal.forget(name)
                    changes = True
                elif one is not part and "failed" in states.get(name, {}):
                    journal.tell(name, None)
                elif one is part and name not in wanted and "failed" not in states.get(name, {}):
                    journal.want(name, self._spec(machine, one))
                    changes = True
            if changes or part is not None:
                keeper.wake(journal, start=part is not None)

    def _name(self, machine: str, part: Part) -> str:
        return name_of(self._plan.spec["name"], machine, part)

    def _spec(self, machine: str, part: Part) -> dict[str, Any]:
        """Confirmed, so that its keeper waits for a machine that is out of reach at first."""
        spec = watched_only(self._plan.spec) if part is Part.WATCHED else self._plan.spec
        where = {"machine": machine, "run": {**spec["run"], "machine": machine}}
        return {**spec, **where, "name": self._name(machine, part), "confirmed": True}

    def troubles(self) -> Iterator[Trouble]:
        """What has ended by itself; a keeper that was killed is started again."""
        for machine, part, state in self._states():
            journal = self._journals[machine]
            if not journal.keeper_pid and self._name(machine, part) in journal.wanted():
                with journal.changing():
                    keeper.wake(journal)
            if "failed" in state:
                yield Trouble(machine, part, state["failed"], state.get("stood_down", False))

    def _states(self) -> Iterator[tuple[str, Part, Mapping[str, Any]]]:
        for machine, journal in self._journals.items():
            states = journal.states()
            for part in Part:
                if (name := self._name(machine, part)) in states:
                    yield machine, part, states[name]

    def remaining(self) -> list[str]:
        """Machines on which there is still something of it; where no keeper runs any more, there is nothing."""
        found = []
        for machine, part, state in self._states():
            journal = self._journals[machine]
            if "failed" not in state and not journal.keeper_pid:
                journal.tell(self._name(machine, part), None)
            elif "failed" not in state:
                found.append(machine)
        return found

    def track(self, machine: str, part: Part, begun_s: float, baking_s: float) -> Track:
        """Windows of a machine."""
        watched = self._windows_of(machine, Part.WATCHED)
        own = watched if part is Part.WATCHED else self._windows_of(machine, part)
        return Track(
            [one for one in watched if begun_s < one["at_s"] and (not baking_s or one["at_s"] <= baking_s)],
            [one for one in own if baking_s and one["at_s"] > baking_s],
        )

    def _windows_of(self, machine: str, part: Part) -> list[dict[str, Any]]:
        if (machine, part) not in self._windows:
            self._windows[machine, part] = Windows(self._journals[machine], self._name(machine, part))
        return self._windows[machine, part].read()
