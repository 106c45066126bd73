"""The machines of a rollout, each with a keeper of its own, as `damoos apply` has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from damoos.errors import ConfigError, MachineError
from damoos.rollouts.driver import Trouble
from damoos.rollouts.effect import Track
from damoos.rollouts.plan import Plan
from damoos.rollouts.rollout import Part
from damoos.service import keeper
from damoos.service.in_force import InForce
from damoos.service.journal import Journal
from damoos.service.listing import of_machine
from damoos.service.specification import watched_only
from damoos.service.windows import Windows
from damoos.store.studies import slug

# A part of a rollout on a machine.
Key = tuple[str, Part]


def name_of(label: str, machine: str, part: Part = Part.POLICY) -> str:
    """Under which name it is in service on a machine; a machine with a whole path is called after its file."""
    called = slug(Path(machine).name if machine.startswith("/") else machine)
    return f"{label}-{called}" + ("-watched" if part is Part.WATCHED else "")


class KeptFleet:
    """Through the journals of a results folder of this computer.

    Parameters
    ----------
    plan : Plan
    machines : sequence of str or None
        Those whose keepers are to be on this computer; None for all.
    """

    def __init__(self, plan: Plan, machines: Sequence[str] | None = None) -> None:
        self._plan = plan
        self._journals: dict[str, Journal] = {}
        self._unreachable: dict[str, str] = {}
        for machine in machines or plan.machines:
            self._try(machine, partial(self._journal, machine))
        self._windows: dict[Key, Windows] = {}

    def _journal(self, machine: str) -> Journal:
        """The journal of a machine.

        Raises
        ------
        MachineError : its folder is not to be trusted
        """
        if machine not in self._journals:
            self._journals[machine] = Journal.of(Path(self._plan.spec["results"]), machine)
        return self._journals[machine]

    def _try(self, machine: str, what: Callable[[], Any]) -> bool:
        """Do something to one machine, and tell whether that worked; if not, the others are gone on with."""
        try:
            what()
        except (ConfigError, MachineError) as error:
            self._unreachable[machine] = str(error)
        except OSError as error:
            self._unreachable[machine] = f"{error.filename or 'its journal'}: {error.strerror or error}"
        else:
            return True
        return False

    def unreachable(self) -> dict[str, str]:
        """Machines that could not be told what is wanted of them, and why."""
        return dict(self._unreachable)

    def begin(self) -> None:
        """See that nothing of the rollout's names is in service; what failed under them once is forgotten.

        Raises
        ------
        ConfigError : something is, or two machines would have one name or folder
        MachineError : the folder of a machine's services is not to be trusted
        """
        for why in self._unreachable.values():
            raise MachineError(why)
        names: dict[str, str] = {}
        free: list[tuple[Journal, str]] = []
        for machine, journal in self._journals.items():
            journal.check_machine(machine)
            known = InForce(journal)
            name = self._name(machine, Part.POLICY)
            if (other := names.setdefault(name, machine)) != machine:
                raise ConfigError(
                    f"--machines: '{machine}' and '{other}' would both be in service as '{name}'; rename one of them"
                )
            for part in Part:
                name = self._name(machine, part)
                if not known.is_free(name):
                    raise ConfigError(
                        f"'{name}' is in service already; end that with 'damoos stop {name}', or give --name"
                    )
                free.append((journal, name))
        for journal, name in free:
            journal.tell(name, None)

    def settle(self, wanted: Mapping[str, Part | None]) -> None:
        """Have this on the machines, and nothing else of the rollout; what has ended by itself is not begun again."""
        for machine, part in wanted.items():
            if self._try(machine, partial(self._settle, machine, part)):
                self._unreachable.pop(machine, None)

    def _settle(self, machine: str, part: Part | None) -> None:
        journal = self._journal(machine)
        with journal.changing():
            known = InForce(journal)
            changes = False
            names = {one: self._name(machine, one) for one in Part}
            for one, name in names.items():
                if one is not part and name in known.wanted:
                    journal.stop(name)
                    changes = True
                elif one is part and name not in known.wanted and "failed" not in known.states.get(name, {}):
                    known.check_confirmed(name)
                    journal.want(name, self._spec(machine, one))
                    changes = True
            if changes or part is not None:
                keeper.wake(journal, start=part is not None)
        known.check_read(names.values())

    def _name(self, machine: str, part: Part) -> str:
        return name_of(self._plan.spec["name"], machine, part)

    def _spec(self, machine: str, part: Part) -> dict[str, Any]:
        """Confirmed, so that its keeper waits for a machine that is out of reach at first."""
        spec = watched_only(self._plan.spec) if part is Part.WATCHED else self._plan.spec
        where = {"machine": machine, "run": {**spec["run"], "machine": machine}}
        return {**spec, **where, "name": self._name(machine, part), "confirmed": True}

    def troubles(self) -> list[Trouble]:
        """What has ended by itself; a keeper that was killed is started again."""
        found: list[Trouble] = []
        for machine in self._journals:
            self._try(machine, partial(self._add_troubles, machine, found))
        return found

    def _add_troubles(self, machine: str, found: list[Trouble]) -> None:
        states = self._journals[machine].states()
        for part in Part:
            if (name := self._name(machine, part)) in states:
                self._have_keeper(machine, name)
                if why := states[name].get("failed"):
                    found.append(Trouble(machine, part, why, states[name].get("stood_down", False)))

    def _have_keeper(self, machine: str, name: str) -> None:
        journal = self._journals[machine]
        known = InForce(journal)
        if not journal.has_keeper and name in known.wanted.keys() | known.to_be_off():
            with journal.changing():
                keeper.wake(journal)

    def states(self) -> dict[Key, dict[str, Any]]:
        """How all that there is of it is, as `listing` says it; of what cannot be read, that it may be in force."""
        found: dict[Key, dict[str, Any]] = {}
        for machine in self._journals:
            self._try(machine, partial(self._add_states, machine, found))
        unread = {(machine, Part.POLICY): {"unconfirmed": why} for machine, why in self._unreachable.items()}
        return {**found, **unread}

    def _add_states(self, machine: str, found: dict[Key, dict[str, Any]]) -> None:
        states = of_machine(self._journals[machine])
        names = {part: self._name(machine, part) for part in Part}
        found |= {(machine, part): states[name] for part, name in names.items() if name in states}

    def remaining(self) -> list[str]:
        """Machines on which something of it may be in force; a keeper is started where none takes it off.

        What is off is forgotten, so it is asked only once it has been decided that all is to be off.
        """
        found: list[str] = []
        for machine in self._journals:
            self._try(machine, partial(self._add_remaining, machine, found))
        return list(dict.fromkeys(found))

    def _add_remaining(self, machine: str, found: list[str]) -> None:
        journal = self._journals[machine]
        known, lives = InForce(journal), journal.has_keeper
        names = {self._name(machine, part) for part in Part}
        known.check_read(names)
        to_be_off = known.to_be_off()
        for name in names & (to_be_off | known.states.keys() | known.wanted.keys()):
            if name in known.wanted or known.may_be(name) or (lives and name in to_be_off):
                found.append(machine)
                self._have_keeper(machine, name)
            else:
                journal.stopped(name)
                journal.tell(name, None)

    def tracks(self, machines: Iterable[str], part: Part, begun_s: float, baking_s: float) -> list[Track]:
        """Windows of machines in a step."""
        return tracks(self.windows, machines, part, begun_s, baking_s)

    def windows(self, of: Iterable[Key]) -> dict[Key, list[dict[str, Any]]]:
        """All windows of some, the oldest first."""
        return {key: self._reader(*key).read() if key[0] in self._journals else [] for key in of}

    def windows_since(self, since_s: Mapping[Key, float]) -> dict[Key, list[dict[str, Any]]]:
        """Windows later than some time each, for somebody who has the others already."""
        found = self.windows(since_s)
        return {key: [one for one in windows if one["at_s"] > since_s[key]] for key, windows in found.items()}

    def _reader(self, machine: str, part: Part) -> Windows:
        if (machine, part) not in self._windows:
            self._windows[machine, part] = Windows(self._journals[machine].folder, self._name(machine, part))
        return self._windows[machine, part]

    def close(self) -> None:
        """Nothing to do: the keepers go on by themselves."""


def tracks(
    windows: Callable[[Iterable[Key]], Mapping[Key, Sequence[Mapping[str, Any]]]],
    machines: Iterable[str],
    part: Part,
    begun_s: float,
    baking_s: float,
) -> list[Track]:
    """Windows since ``begun_s``, and from ``baking_s`` on those of the part, for each machine.

    A machine that has had the policy since an earlier step has it before, too.

    Parameters
    ----------
    windows : callable
        All windows of some parts of machines.
    """
    machines = list(machines)
    found = windows([(machine, one) for machine in machines for one in {Part.WATCHED, part}])
    return [
        Track(
            [
                one
                for part_before in {Part.WATCHED, part}
                for one in found[machine, part_before]
                if begun_s < one["at_s"] and (not baking_s or one["at_s"] <= baking_s)
            ],
            [one for one in found[machine, part] if baking_s and one["at_s"] > baking_s],
        )
        for machine in machines
    ]
