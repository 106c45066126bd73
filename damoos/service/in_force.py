"""What a journal may have in force on its machine, by all that is known without asking the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from damoos.machines.base import DEAD_MAN_S
from damoos.machines.patience import MOVING_S
from damoos.service.guard import WATCHED_ONLY
from damoos.service.journal import KEEP, Journal

OFF_BY_ITSELF_S = MOVING_S + 2 * DEAD_MAN_S
"""A machine that no keeper has had for so long has taken off what does not stay: the longest call may have been under
way, and then the agent's time ends, and it undoes what it has done."""


class InForce:
    """What may be in force of what is wanted, of what is to be off, and of what has failed.

    Nothing is called off because it should be: only what its machine has confirmed, or what has had the time to end by
    itself. Who asks later makes a new one.

    Parameters
    ----------
    journal : Journal
    """

    def __init__(self, journal: Journal) -> None:
        self.stopping, self.wanted = journal.stopping(), journal.wanted()  # first: of what is damaged, the state tells
        self.states, self.unread = journal.states(), journal.unread()
        self._is_silent = journal.keeper.silent_s >= OFF_BY_ITSELF_S

    def may_be(self, name: str) -> bool:
        """Whether it may be in force as far as its files tell; if no keeper has it, only its machine knows better."""
        spec, state = {**self.wanted, **self.stopping}.get(name, {}), self.states.get(name, {})
        if "unconfirmed" in state or name in self.unread:
            return True
        is_live = _is_live(state)
        if spec.get("on_exit") == KEEP or (is_live and state.get("on_exit") == KEEP):
            return True
        has_begun = is_live or spec.get("begun") or spec.get("confirmed")
        return bool(has_begun) and not self._is_silent and {**state, **spec}.get("arm") != WATCHED_ONLY

    def to_be_off(self) -> set[str]:
        """Names of what is not wanted, and of which the journal does not say yet that it is off."""
        told = {name for name, state in self.states.items() if _is_live(state) or "unconfirmed" in state}
        return ((told - self.wanted.keys()) | self.stopping.keys()) - self.unread.keys()

    def left_in_force(self) -> dict[str, dict[str, Any]]:
        """What is to be off, and may be in force until an agent on its machine says that it is not."""
        return {name: self.specification(name) for name in self.to_be_off() if self.may_be(name)}

    def specification(self, name: str) -> dict[str, Any]:
        """What is known of something to be off; if its file cannot be read, only the machine that it is on."""
        machine = self.states.get(name, {}).get("machine", "")
        return self.stopping.get(name) or {"run": {"command": "true", "machine": machine}, "machine": machine}


def _is_live(state: Mapping[str, object]) -> bool:
    """Whether a state is of something that has not ended."""
    return bool(state) and not state.keys() & {"failed", "error"}


def host_of(facts: Mapping[str, object]) -> dict[str, str]:
    """What a machine calls itself: its name, and what tells one boot of one machine from all others."""
    return {key: str(facts[key]) for key in ("hostname", "boot_id") if key in facts}


def is_of_another(begun_on: Mapping[str, str], host: Mapping[str, str]) -> bool:
    """Whether the file of a machine leads to another host than before; one that has booted has its name still."""
    return len(begun_on) == len(host) == 2 and all(begun_on[key] != host[key] for key in host)
