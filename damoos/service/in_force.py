"""What a journal may have in force on its machine, by all that is known without asking the machine.

This is the one place that decides whether something of a name may be in force. A file that is there and cannot be read,
or not be understood, is a reason to think so, until the machine says that nothing of it is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from damoos.errors import ConfigError, MachineError
from damoos.ownership import trusted_folder
from damoos.service.guard import WATCHED_ONLY
from damoos.service.journal import KEEP, Journal, lock_in
from damoos.store.studies import slug

# What a machine calls itself is cut to so many letters; names of hosts have 64 at most, boot ids 36.
_MOST_LETTERS = 255


class InForce:
    """What may be in force of what is wanted, of what is to be off, and of what has failed.

    Nothing is called off because it should be: only what its machine has confirmed, or what has had the time to end by
    itself. Who asks later makes a new one.

    Parameters
    ----------
    journal : Journal

    Attributes
    ----------
    wanted, stopping, states : dict of str to dict
        What `Journal` says, by name.
    unread : dict of str to str
        Why a specification that is there cannot be read, by name: whether that is wanted or to be off, nobody knows.
    """

    def __init__(self, journal: Journal) -> None:
        # In this order: `Journal.stop` renames what is wanted, and of what is damaged the state tells.
        self.wanted, self.stopping = journal.wanted(), journal.stopping()
        self.states, self.unread = journal.states(), journal.unread()
        self._is_silent = journal.keeper.is_off_by_itself
        self._folder_name = journal.folder.name

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

    def is_free(self, name: str) -> bool:
        """Whether something new can have the name: nothing of it is wanted, is to be taken off, or may be in force."""
        return name not in {**self.wanted, **self.stopping} and not self.may_be(name)

    def check_read(self, names: Iterable[str]) -> None:
        """See that what is wanted of some names is known.

        Raises
        ------
        MachineError : the specification of one cannot be read
        """
        for name in names:
            if name in self.unread:
                raise MachineError(f"'{name}' may be in force: {self.unread[name]}")

    def check_confirmed(self, name: str) -> None:
        """See that nothing may be in force by a name of which its machine has not confirmed that it is off.

        Raises
        ------
        MachineError : it may be
        """
        self.check_read([name])
        if why := self.states.get(name, {}).get("unconfirmed"):
            raise MachineError(f"'{name}' may be in force: {why}")

    def to_be_off(self) -> set[str]:
        """Names of what is not wanted, and of which the journal does not say yet that it is off."""
        told = {name for name, state in self.states.items() if _is_live(state) or "unconfirmed" in state}
        return ((told - self.wanted.keys()) | self.stopping.keys()) - self.unread.keys()

    def left_in_force(self) -> dict[str, dict[str, Any]]:
        """What is to be off, and may be in force until an agent on its machine says that it is not."""
        return {name: self.specification(name) for name in self.to_be_off() if self.may_be(name)}

    def specification(self, name: str) -> dict[str, Any]:
        """What is known of something to be off; if it has no specification any more, the machine that it is on.

        If its state does not name that either, it is the one after which the folder is called.
        """
        if name in self.stopping:
            return self.stopping[name]
        machine = self.states.get(name, {}).get("machine") or self._folder_name
        words = dict.fromkeys(("study", "scheme", "arm", "verdict", "on_text"), "unknown")
        return {**words, "guards": [], "machine": machine, "run": {"command": "true", "machine": machine}}


def _is_live(state: Mapping[str, object]) -> bool:
    """Whether a state is of something that has not ended."""
    return bool(state) and not state.keys() & {"failed", "error"}


@contextlib.contextmanager
def naming(results: Path, name: str, machine: str | None = None) -> Iterator[None]:
    """While something is given a name, one at a time, so that a name is in service once.

    Parameters
    ----------
    machine : str or None
        Where it may be wanted by the name already.

    Raises
    ------
    ConfigError : it is in service, is to be taken off, or may be in force
    MachineError : the folder is not to be trusted
    """
    lock = lock_in(trusted_folder(results.resolve() / "service"), ".naming")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for journal in Journal.all(results):
            known = InForce(journal)
            is_its = machine is not None and journal.folder.name == slug(machine)
            is_wanted = is_its and name in known.wanted and name not in {**known.stopping, **known.unread}
            stays = is_wanted and "unconfirmed" not in known.states.get(name, {})
            if not (stays or known.is_free(name)):
                raise ConfigError(
                    f"'{name}' is in service already; end that with 'damoos stop {name}', or choose another --name"
                )
        yield
    finally:
        os.close(lock)


def host_of(facts: Mapping[str, object]) -> dict[str, str]:
    """What a machine calls itself: its name, and what tells one boot of one machine from all others."""
    return {key: str(facts[key])[:_MOST_LETTERS] for key in ("hostname", "boot_id") if key in facts}


def is_of_another(begun_on: Mapping[str, str], host: Mapping[str, str]) -> bool:
    """Whether the file of a machine leads to another host than before; one that has booted has its name still."""
    keys = ("hostname", "boot_id")
    return all(key in begun_on and key in host and begun_on[key] != host[key] for key in keys)
