"""The account as which the programs of a run run where the agent is root, so that they are no other process's user."""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from damoos.agent import proc
from damoos.agent.private import state_folder
from damoos.damon.files import kernel_text
from damoos.errors import UnsupportedError

_ROOT, _NOBODY = 0, 65534
# Those that systemd keeps for DynamicUser=: no account may have one.
_FREE_IDS = range(61184, 65520)
# Numbers that were given to a run since the machine has booted, the last one last.
_USED = "used-ids"
_given: dict[str, int] = {}


@dataclass(frozen=True)
class Account:
    """A user of this machine; ``enter`` is for a new process to call.

    Parameters
    ----------
    name : str
    uid, gid : int
    """

    name: str
    uid: int
    gid: int

    def enter(self) -> None:
        """Become this user for good, in no group but its own, with the limits of memory and files that root has.

        A server that asks for more files or locks memory would else be another one than as root.

        Raises
        ------
        OSError : the kernel refuses
        """
        most_files = int(kernel_text(Path("/proc/sys/fs/nr_open")))
        files, memory = (resource.getrlimit(resource.RLIMIT_NOFILE)[0], most_files), (resource.RLIM_INFINITY,) * 2
        for limit, values in ((resource.RLIMIT_NOFILE, files), (resource.RLIMIT_MEMLOCK, memory)):
            with contextlib.suppress(ValueError):  # this root has no CAP_SYS_RESOURCE, and so no more itself
                resource.setrlimit(limit, values)
        os.setgroups([])
        os.setgid(self.gid)
        os.setuid(self.uid)

    def env(self, home: Path) -> Mapping[str, str]:
        """What the environment says of the user."""
        return {"HOME": str(home), "USER": self.name, "LOGNAME": self.name}


def account(name: str | None) -> Account | None:
    """The account of a name; a user id that nothing on this machine has where there is no such account.

    A free id stays that of its name for as long as the agent lives: what a set-up made belongs to it.

    Parameters
    ----------
    name : str or None
        None for the agent's own user.

    Returns
    -------
    Account or None
        None for the agent's own user, which all is where the agent is not root.

    Raises
    ------
    UnsupportedError : all ids that could be free are in use
    MachineError : another user made the agent's folder
    """
    if name is None or os.geteuid() != _ROOT:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return _free(name)
    if entry.pw_uid in (_ROOT, _NOBODY):  # many programs are nobody
        return _free(name)
    return Account(name, entry.pw_uid, entry.pw_gid)


def _free(name: str) -> Account:
    if name not in _given:
        _given[name] = _new_id(name)
    return Account(name, _given[name], _given[name])


def _new_id(name: str) -> int:
    """Draw an id that no program has had since the machine booted; of all that were used, the one used longest ago.

    A hostile program may leave a set-id file in a folder such as /tmp, by which any user becomes the id that it had.
    """
    taken = {*_given.values(), *(uid for pid in proc.all_pids() for uid in proc.uids(pid))}
    with open(state_folder() / _USED, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        used = {int(line): nth for nth, line in enumerate(file.read().split()) if line.isdigit()}
        fresh = [uid for uid in _FREE_IDS if uid not in used]
        SystemRandom().shuffle(fresh)
        oldest_first = sorted(set(used) & set(_FREE_IDS), key=lambda uid: used[uid])
        free = (uid for uid in (*fresh, *oldest_first) if uid not in taken and not _is_known(uid))
        uid = next(free, None)
        if uid is None:
            raise UnsupportedError(
                f"this machine has no account '{name}', and no user id from {_FREE_IDS[0]} to {_FREE_IDS[-1]} is free"
            )
        file.write(f"{uid}\n")
    return uid


def _is_known(number: int) -> bool:
    """Whether a user or a group of this machine has this number."""
    for look_up in (pwd.getpwuid, grp.getgrgid):
        try:
            look_up(number)
            return True
        except KeyError:
            continue
    return False
