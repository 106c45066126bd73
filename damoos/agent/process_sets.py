"""Which processes a policy in service is on: those of a program, of a cgroup or systemd unit, those that match, or all.

A program has ended once its processes have. A service restarts and its processes come back under other ids, so the
other sets last for as long as they are asked for; for a while, nobody may be in them.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from damoos import regular_file
from damoos.agent import cgroup, proc
from damoos.damon.files import kernel_text
from damoos.errors import MachineError, UnsupportedError

_UNIT_S = 10.0
# What is read of a pid file: a number and a line feed, and what PostgreSQL writes behind them.
_PID_FILE_BYTES = 256


class ProcessSet(ABC):
    """Some processes of this machine."""

    lasts = True
    """Whether it goes on without a process."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Processes that are in the set now."""

    @property
    @abstractmethod
    def group(self) -> Path | None:
        """The cgroup that these processes, and no others, are in; None where there is none."""

    @property
    def group_path(self) -> str:
        """The path of that group as the kernel writes it; of the first process's group where there is none."""
        if group := self.group:
            return "/" + str(group.relative_to(cgroup.CGROUPS))
        return next((cgroup.path_of(pid) for pid in self.pids()), "/")


class ProgramProcesses(ProcessSet):
    """A program and its children.

    Parameters
    ----------
    pid : int
    started : int or None
        When that process began, see `proc.start_ticks`, where it was in the set before.

    Raises
    ------
    MachineError : there is no such process, or another one has its id now
    """

    lasts = False

    def __init__(self, pid: int, started: int | None = None) -> None:
        self.pid = pid
        self.started = proc.start_ticks(pid)
        if self.started is None:
            raise MachineError(f"there is no process {pid} on this machine")
        if started not in (None, self.started):
            raise MachineError(f"process {pid} has ended, and another one has its id now")

    def pids(self) -> list[int]:
        """The program first; none once it has ended, even if another one has its id."""
        return proc.descendants(self.pid) if proc.start_ticks(self.pid) == self.started else []

    @property
    def group(self) -> Path | None:
        """The group that they have to themselves."""
        return cgroup.own_group(self.pid)


class PidFileProcesses(ProcessSet):
    """The program whose process id a file holds, and its children; another one once the file holds another id.

    The account of a server may write the file: it is read as a file that may be anything, and if it is neither root's
    nor this agent's, it leads to processes of its owner only. One that others may write to, too, leads to none.

    Parameters
    ----------
    path : str

    Raises
    ------
    MachineError : the file holds no process id, or that of another user's process
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._found()

    def _found(self) -> list[int]:
        """The program first; none where there is no such process."""
        try:
            with open(regular_file.descriptor(self._path, os.O_NOFOLLOW), "rb") as file:
                status, words = os.fstat(file.fileno()), file.read(_PID_FILE_BYTES).split()
            pid = int(words[0])
            if status.st_nlink > 1:  # whoever may write to the folder can give a file of root's a name in it
                raise ValueError("it has a second name (a hard link)")
            if status.st_mode & 0o022:  # whoever may write to it chooses the process
                raise ValueError("others than its owner may write to it")
        except (OSError, ValueError, IndexError) as error:
            raise MachineError(f"{self._path} holds no process id: {error}") from None
        pids = proc.descendants(pid)
        if status.st_uid in (0, os.geteuid()):
            return pids
        if pids and not _is_of(pid, status.st_uid):
            raise MachineError(f"{self._path} is of user {status.st_uid}, and process {pid} is not")
        return [one for one in pids if _is_of(one, status.st_uid)]

    def pids(self) -> list[int]:
        """The program first; none while there is no such file, or no such process."""
        try:
            return self._found()
        except MachineError:
            return []

    @property
    def group(self) -> Path | None:
        """The group that they have to themselves."""
        pids = self.pids()
        group = cgroup.own_group(pids[0]) if pids else None
        return group if group and set(cgroup.pids(group)) <= set(pids) else None


def _is_of(pid: int, user: int) -> bool:
    """Whether a process has the rights of a user, and no others."""
    return set(proc.uids(pid)) == {user}


class GroupProcesses(ProcessSet):
    """A cgroup and those below it.

    Parameters
    ----------
    path : str
        As the kernel writes it, from the root of the hierarchy: ``/system.slice/redis.service``.

    Raises
    ------
    MachineError : it is the root group, or no group
    """

    def __init__(self, path: str) -> None:
        parts = Path(path.lstrip("/")).parts
        if not parts or ".." in parts:
            raise MachineError(f"'{path}' is not the path of a cgroup below the root; see /sys/fs/cgroup")
        self._path = cgroup.CGROUPS.joinpath(*parts)

    def pids(self) -> list[int]:
        """Processes of the group and of all groups below it; none while the group is not there."""
        pids: dict[int, None] = {}
        for file in sorted(self._path.rglob("cgroup.procs"), key=lambda file: (len(file.parts), file)):
            try:
                pids |= dict.fromkeys(map(int, kernel_text(file).split()))
            except OSError:  # a group that has just been removed, or that holds threads only
                continue
        return list(pids)

    @property
    def group(self) -> Path | None:
        """The group; None while it is not there."""
        return self._path if (self._path / "cgroup.procs").exists() else None


class UnitProcesses(ProcessSet):
    """A unit of systemd's, through all of its restarts.

    Parameters
    ----------
    name : str
        ``redis-server.service``.

    Raises
    ------
    MachineError : systemd has no such unit here
    UnsupportedError : systemd does not run here
    """

    def __init__(self, name: str) -> None:
        if not Path("/run/systemd/system").exists():
            raise UnsupportedError("systemd does not run on this machine; use cgroup:, match: or pid:")
        self._name = name
        state = _property(name, "LoadState")
        if state != "loaded":
            raise MachineError(f"systemd has no unit '{name}' on this machine ({state or 'it does not answer'})")
        self._processes = self._found()

    def _found(self) -> GroupProcesses | None:
        """Its group; None while it has none, before it is started."""
        path = _property(self._name, "ControlGroup")
        return GroupProcesses(path) if path.strip("/") else None

    def pids(self) -> list[int]:
        """Processes of the unit's group and of all groups below it."""
        if not self.group:
            self._processes = self._found()
        return self._processes.pids() if self._processes else []

    @property
    def group(self) -> Path | None:
        """Its group; None while the unit does not run."""
        return self._processes.group if self._processes else None


def _property(unit: str, name: str) -> str:
    """What systemd says of a unit; nothing if it says nothing."""
    argv = ["systemctl", "show", f"--property={name}", "--value", "--", unit]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_UNIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


class MatchingProcesses(ProcessSet):
    """Processes of a program's name, and their children.

    Parameters
    ----------
    what : {"exe", "name", "user"}
        The name of the file that they execute, what the kernel calls them (``comm``), or their user.
    value : str

    Raises
    ------
    MachineError : this machine has no such user
    """

    def __init__(self, what: str, value: str) -> None:
        self._what = what
        self._value = value
        if what == "user" and not value.isdigit():
            try:
                self._value = str(pwd.getpwnam(value).pw_uid)
            except KeyError:
                raise MachineError(f"this machine has no user '{value}'") from None

    def pids(self) -> list[int]:
        """Processes that match now, each before its children; this agent's own are left out."""
        own = set(proc.descendants(os.getpid()))
        # One without memory is a kernel thread, or has ended and nobody has asked how.
        matching = [pid for pid in proc.all_pids() if pid not in own and self._matches(pid) and proc.rss_bytes(pid)]
        return list(dict.fromkeys(pid for each in matching for pid in proc.descendants(each) if pid not in own))

    def _matches(self, pid: int) -> bool:
        folder = Path(f"/proc/{pid}")
        try:
            if self._what == "exe":
                return Path(os.readlink(folder / "exe").removesuffix(" (deleted)")).name == self._value
            if self._what == "name":
                return kernel_text(folder / "comm").removesuffix("\n") == self._value
            return folder.stat().st_uid == int(self._value)
        except OSError:  # it has just ended
            return False

    @property
    def group(self) -> Path | None:
        """The group that all of them share with nobody else."""
        pids = self.pids()
        groups = {cgroup.path_of(pid) for pid in pids}
        if len(groups) != 1 or groups == {"/"}:
            return None
        group = cgroup.cgroup_of(pids[0])
        return group if group and set(cgroup.pids(group)) <= set(pids) else None


class WholeMachine(ProcessSet):
    """All processes."""

    def pids(self) -> list[int]:
        """Processes with memory of their own; the agent's are left out."""
        own = set(proc.descendants(os.getpid()))
        return [pid for pid in proc.all_pids() if pid not in own and proc.rss_bytes(pid)]

    @property
    def group(self) -> Path | None:
        """None: the root group has no files to steer it by."""
        return None

    @property
    def group_path(self) -> str:
        """The root's."""
        return "/"


def process_set(where: Mapping[str, Any]) -> ProcessSet:
    """The set that a call of the controller's names: its ``kind``, and the arguments of the class.

    Raises
    ------
    MachineError : there is no such kind, or nothing of that kind here
    """
    kinds: dict[str, type[ProcessSet]] = {
        "pid": ProgramProcesses,
        "pid_file": PidFileProcesses,
        "cgroup": GroupProcesses,
        "unit": UnitProcesses,
        "match": MatchingProcesses,
        "machine": WholeMachine,
    }
    if where["kind"] not in kinds:
        raise MachineError(f"there are no processes of the kind '{where['kind']}'")
    return kinds[where["kind"]](**{name: value for name, value in where.items() if name != "kind"})
