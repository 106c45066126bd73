"""Confinement of a run: the user and the network of all its programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damoos.agent.accounts import Account, account
from damoos.agent.networks import OWN, Network

# Of the agent's environment, which may have passwords in it where damoos runs on the measured machine.
_NO_SECRETS = {"PATH", "LANG", "LANGUAGE", "TZ", "TERM"}


@dataclass(frozen=True)
class Confinement:
    """Where the programs of a run are kept; ``enter`` is for a new process to call.

    Parameters
    ----------
    account : Account or None
        None for the agent's own user.
    network : Network or None
        None for that of the machine.
    """

    account: Account | None = None
    network: Network | None = None

    def enter(self) -> None:
        """From now on, for this process and those that it starts.

        Raises
        ------
        OSError : the kernel refuses
        """
        if self.network:
            self.network.enter()
        if self.account:  # last, because only root enters a network
            self.account.enter()

    def env(self, folder: Path | None) -> Mapping[str, str]:
        """The environment of its programs: the agent's, or what another user may know of it.

        Files with names that are known beforehand, as fio's, lie in the run's own folder and not in /tmp.
        """
        temporary = {"TMPDIR": str(folder)} if folder else {}
        if not self.account:
            return {**os.environ, **temporary}
        told = {name: value for name, value in os.environ.items() if name in _NO_SECRETS or name.startswith("LC_")}
        return {**told, **self.account.env(folder or Path("/")), **temporary}

    @property
    def key(self) -> tuple[str, bool]:
        """Tells confinements apart that make different things of the same commands."""
        return (self.account.name if self.account else "", self.network is not None)

    def close(self) -> None:
        """Let go of the network."""
        if self.network:
            self.network.close()


UNCONFINED = Confinement()
"""The agent's own user, in the machine's network."""


def confinement(spec: Mapping[str, Any]) -> Confinement:
    """The confinement that a run asks for.

    Parameters
    ----------
    spec : mapping
        ``user`` (name of an account, or None for the agent's own user) and ``network`` ("own", or "host" for the
        machine's); each may be missing.

    Raises
    ------
    UnsupportedError : this machine has no free user id, or refuses the network
    """
    user = account(spec.get("user"))
    return Confinement(user, Network() if spec.get("network") == OWN else None)
