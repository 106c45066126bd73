"""What is to be in service on a machine, what is, and what has happened: plain files that outlive every process.

    service/MACHINE/NAME.json     what is wanted; there until `damoos stop`, or until it fails
    service/MACHINE/NAME.stopping the same file, renamed by `damoos stop`; there until nothing of it is in force
    service/MACHINE/NAME.state    how it is, as the machine's keeper has last seen it
    service/MACHINE/NAME.windows  what its guard measured, a line for each window
    service/MACHINE/audit.log     a line for each thing that was done, and why
    service/MACHINE/keeper.log    what the keeper said beyond that
    service/MACHINE/metrics.prom  numbers of all of it, in the text format of Prometheus

A keeper of another process id reads them all, and goes on where the former one was. A file that is damaged is renamed
to ``NAME.json.bad``, named on standard error and in the audit log, and the others are read all the same. Of a
``NAME.state``, which its keeper writes again, the last damaged one is kept.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from damoos import regular_file
from damoos.common import own_file
from damoos.common.appended import append
from damoos.common.atomic_file import fill, sync_names
from damoos.common.json_file import Damage, JsonForm, path_aside
from damoos.common.terminal import printable
from damoos.errors import MOST_CHARS, ConfigError, MachineError
from damoos.ownership import trusted_folder
from damoos.service.forms import COMPUTED, MOST_S, STATE, WANTED
from damoos.service.liveness import KeeperFile, Liveness
from damoos.service.windows import MOST_BYTES_OF_WINDOWS, Windows
from damoos.store.studies import slug

# What becomes of a policy whose keeper ends: its machine is as it was before, or it stays in force without a guard.
UNDO, KEEP = "undo", "keep"
AUDIT_LOG = "audit.log"
# Its last thousands of lines.
_TAIL_BYTES = 1 << 20
# A file is written in less; a draft that is older was left by a power failure.
_DRAFT_S = 3600.0
# A keeper goes on where the disk fails, and not where a file is another user's.
_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
# Names stand in command lines, units of systemd and logs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:+-]{0,199}")
# A folder's name cannot have more.
_MOST_LETTERS = 255
NAME_RULE = "use letters, digits and the signs _ . @ : + - only, and begin with a letter or digit"


def is_name(name: str) -> bool:
    """Whether something in service can have this name; it may come from the file of another person."""
    return _NAME.fullmatch(name) is not None


class Journal:
    """That of one machine in a results folder.

    Parameters
    ----------
    folder : Path
        Made if need be. What stands in it is done, so nobody but root and this user may write to it.

    Raises
    ------
    MachineError : it is another user's, others may write to it, or it lies in a link
    """

    def __init__(self, folder: Path) -> None:
        if folder.parent.is_symlink():
            raise MachineError(f"{folder.parent} is a link, which damoos does not follow; remove it")
        self.folder = trusted_folder(folder)
        self._keeper = KeeperFile(folder)
        self._named: set[str] = set()
        self._unread: dict[str, str] = {}

    @classmethod
    def of(cls, results: Path, machine: str) -> Self:
        """The journal of a machine, by its name or file.

        Raises
        ------
        ConfigError : no folder can be called after the path of its file
        MachineError : see `Journal`
        """
        if len(name := slug(machine)) > _MOST_LETTERS:
            raise ConfigError(
                f"machine '{machine}' has a path of more than {_MOST_LETTERS} letters, and no folder of services can be"
                " called after it; move its file to a shorter one"
            )
        return cls(results.resolve() / "service" / name)

    @classmethod
    def all(cls, results: Path) -> list[Self]:
        """Journals of all machines, by name.

        A folder that others can write to, or whose name is that of no machine, is named on standard error.
        """
        found, odd, untrusted = cls._sorted(results)
        for why in (*odd, *untrusted):
            print(printable(f"damoos: {why}"), file=sys.stderr)
        return found

    @classmethod
    def left_out(cls, results: Path) -> list[str]:
        """Why journals of machines are not among `all`; what is in force by these, nobody can say."""
        return cls._sorted(results)[2]

    @classmethod
    def _sorted(cls, results: Path) -> tuple[list[Self], list[str], list[str]]:
        """Journals, and why other folders are none, or are not used."""
        found: list[Self] = []
        odd, untrusted = list[str](), list[str]()
        service = results.resolve() / "service"
        try:
            folders = [service / entry.name for entry in os.scandir(service) if entry.is_dir()]
        except FileNotFoundError:
            folders = []
        except OSError as error:
            return [], [], [f"{service}: {error.strerror}"]
        for folder in sorted(folders):
            if folder.name != slug(folder.name):
                odd.append(f"{folder}: this is no name of a machine's folder, so it is left out; remove it")
                continue
            try:
                journal = cls(folder)
                os.listdir(folder)
                found.append(journal)
            except MachineError as error:
                untrusted.append(str(error))
            except OSError as error:
                untrusted.append(f"{folder}: {error.strerror}")
        return found, odd, untrusted

    @property
    def log_file(self) -> Path:
        """What the keeper said, should it fail."""
        return self.folder / "keeper.log"

    @property
    def metrics_file(self) -> Path:
        """Numbers in the text format of Prometheus."""
        return self.folder / "metrics.prom"

    def wanted(self) -> dict[str, dict[str, Any]]:
        """What is to be in service, by name, the oldest first."""
        specs = self._read(".json", WANTED)
        return dict(sorted(specs.items(), key=lambda item: (item[1]["wanted_s"], item[0])))

    def stopping(self) -> dict[str, dict[str, Any]]:
        """What is to be taken off, by name; it may be in force until its keeper, or `damoos stop`, says `stopped`."""
        return self._read(".stopping", WANTED)

    def unread(self) -> dict[str, str]:
        """Why `wanted` and `stopping` could not read files when they were last asked, by name.

        What these files are of may be wanted or to be off, and in force.
        """
        return {Path(file).stem: why for file, why in self._unread.items() if not file.endswith(".state")}

    def want(self, name: str, spec: dict[str, Any]) -> None:
        """Have something in service from now on; of what is wanted already, what may be in force stays so.

        Raises
        ------
        ConfigError : this folder is of another machine
        MachineError : there is a file of this name that cannot be read now
        """
        self.check_machine(spec["machine"])
        if name in (unread := self.unread()):
            raise MachineError(f"{unread[name]}; nothing is written over it")
        before = self.wanted().get(name, {})
        if before.get("begun") or before.get("confirmed"):
            stays = ["on_exit"] if before.get("on_exit") == KEEP else []
            spec = {**spec, **{key: before[key] for key in ("begun", "confirmed", "host", *stays) if key in before}}
        latest_s = max((spec["wanted_s"] for spec in self.wanted().values()), default=0.0)
        wanted_s = min(max(time.time(), latest_s + 1e-3), MOST_S)  # the clock may have been set back
        self._write(self._file(name, "json"), {**spec, "wanted_s": wanted_s}, sync=True)

    def check_machine(self, machine: str) -> None:
        """Refuse a second machine in a folder, whose name does not tell all signs of a machine's name.

        Raises
        ------
        ConfigError : what is in service here is another machine's
        """
        states = {name: one for name, one in self.states().items() if "unconfirmed" in one and one.get("machine")}
        for name, one in {**states, **self.wanted(), **self.stopping()}.items():
            if (other := one["machine"]) != machine:
                raise ConfigError(
                    f"machine '{machine}' cannot have {self.folder}, the folder of machine '{other}', where '{name}' is"
                    f" in service (says {self.wish_file(name).name}); rename one of the two machines, give another"
                    f" folder with --results, or run 'damoos stop {name}'"
                )

    def begin(self, name: str, host: Mapping[str, str] = MappingProxyType({})) -> None:
        """Say that it is put into force now, so that it may be, whatever happens from here on.

        Parameters
        ----------
        host : mapping
            What the machine calls itself (`damoos.service.in_force.host_of`): its file may lead to another one later.
        """
        self._update(name, {"begun": True, "host": dict(host)})

    def confirm(self, name: str, on: dict[str, Any] | None) -> None:
        """Say that it has been in force, so that it is wanted whatever happens to its keeper and its machine.

        Parameters
        ----------
        on : dict or None
            The processes, as they were found.
        """
        self._update(name, {"on": on, "confirmed": True})

    def adapt(self, name: str, context: dict[str, Any], scheme: str) -> None:
        """Have the next keeper go on with schemes to which it has been adapted.

        Parameters
        ----------
        context : dict
            In damo's JSON.
        scheme : str
            The same as people write it.
        """
        if spec := self.wanted().get(name):
            self._update(name, {"policy": {**spec["policy"], "context": context}, "scheme": scheme})

    def _update(self, name: str, changes: dict[str, Any]) -> None:
        """Change what is wanted, unless a person has just stopped it."""
        with self.changing():
            if spec := self.wanted().get(name):
                self._write(self._file(name, "json"), {**spec, **changes}, sync=True)

    def forget(self, name: str) -> None:
        """Have it in service no longer."""
        self._remove(self._file(name, "json"))

    def take_off(self, name: str, spec: Mapping[str, object]) -> None:
        """Have something taken off of which the journal has no specification any more; see `stop`."""
        self._write(self._file(name, "stopping"), dict(spec), sync=True)

    def stop(self, name: str) -> None:
        """Have it taken off; nothing happens if it is not wanted. Its specification stays, in `stopping`.

        Raises
        ------
        MachineError : the disk does not let it
        """
        file = self._file(name, "json")
        try:
            file.replace(self._file(name, "stopping"))  # a full disk takes a new name, and no new file
            sync_names(self.folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise MachineError(f"{file}: {error.strerror}, so '{name}' is not stopped") from None

    def wish_file(self, name: str) -> Path:
        """The file that says what is to be in service, or to be taken off; that of its state where there is neither."""
        files = [self._file(name, ending) for ending in ("stopping", "json", "state")]
        return next((file for file in files if os.path.lexists(file)), files[1])

    def stopped(self, name: str) -> None:
        """Say that nothing is in force any more of what was to be taken off."""
        self._remove(self._file(name, "stopping"))

    def _remove(self, file: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
            sync_names(self.folder)

    def states(self) -> dict[str, dict[str, Any]]:
        """How each is, by name; with ``failed`` or ``error``, what is no longer wanted.

        Of one whose file is there and cannot be read, nothing is known but why: it is ``unconfirmed``.
        """
        states = self._read(".state", STATE)
        unread = {Path(file).stem: why for file, why in self._unread.items() if file.endswith(".state")}
        told = {name: {key: state[key] for key in state if key not in COMPUTED} for name, state in states.items()}
        return {**{name: {"unconfirmed": why} for name, why in unread.items()}, **told}

    def tell(self, name: str, state: dict[str, Any] | None) -> None:
        """Say how one is; None for one of which there is nothing more to say."""
        if state is None:
            self._remove(self._file(name, "state"))
        else:
            self._write(self._file(name, "state"), state, sync="failed" in state or "unconfirmed" in state)

    def audit(self, name: str, what: str) -> None:
        """Write a line of what has been done."""
        self._append_to_audit(audit_line(name, what))

    def _append_to_audit(self, line: str) -> None:
        append(self.folder / AUDIT_LOG, line)

    def last_words(self, name: str) -> str:
        """What the audit log says last of one, as far as that is not long ago."""
        with contextlib.suppress(OSError):
            with regular_file.opened(self.folder / AUDIT_LOG) as file:
                lines = regular_file.tail(file, 0, _TAIL_BYTES)[1].decode(errors="replace").splitlines()
            return next((line.partition(": ")[2] for line in reversed(lines) if f" {name}: " in line), "")
        return ""

    def add_window(self, name: str, window: dict[str, Any]) -> None:
        """Write down what was measured of one in a window; the oldest go when there are too many."""
        self._append_window(name, json.dumps(window))

    def _append_window(self, name: str, line: str) -> None:
        file = self._file(name, "windows")
        if file.exists() and file.stat().st_size > MOST_BYTES_OF_WINDOWS:
            file.replace(file.with_suffix(".windows-before"))
        append(file, line)

    def windows(self, name: str) -> list[dict[str, Any]]:
        """What was measured of one, the oldest first; see `damoos.service.kept.Kept`."""
        return Windows(self.folder, name).read()

    def _file(self, name: str, ending: str) -> Path:
        """A file of one in service; its name may come from a file of another person, such as that of a rollout.

        Raises
        ------
        MachineError : nothing in service can have this name
        """
        if not is_name(name):
            raise MachineError(f"'{printable(name)}' cannot be a name in service: {NAME_RULE}")
        return self.folder / f"{name}.{ending}"

    def _write(self, file: Path, value: dict[str, Any], *, sync: bool = False) -> None:
        fill(file, [json.dumps(value).encode()], sync=sync)

    def _read(self, suffix: str, form: JsonForm) -> dict[str, dict[str, Any]]:
        """The content of all files of a kind, by name; a damaged one is set aside, and the others are read."""
        found = {}
        self._unread = {name: why for name, why in self._unread.items() if not name.endswith(suffix)}
        for file in self._files(suffix):
            if not is_name(file.stem):
                self._name_broken(file)
                continue
            with contextlib.suppress(FileNotFoundError):
                content = form.read(file)
                if isinstance(content, Damage) and self._is_set_aside(file.stem, content):
                    content = form.read(file)  # what has taken its place, if it was a state
                if not isinstance(content, Damage):
                    found[file.stem] = content
                elif content.may_pass and (known := self._unreadable(file)):
                    found[file.stem] = known
                else:
                    self._unread[file.name] = str(content)
        return found

    def _files(self, suffix: str) -> list[Path]:
        """The files of a kind, by their ending.

        Raises
        ------
        OSError : the folder cannot be read, so nobody knows; it was removed, if there is none
        """
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        return sorted(self.folder / name for name in names if name.endswith(suffix) and not name.startswith("."))

    def _unreadable(self, file: Path) -> dict[str, Any] | None:
        """What is known of a file that the disk does not give."""
        return None

    def _name_broken(self, file: Path) -> None:
        """Say once that a file counts for nothing, whose name nothing in service can have."""
        if file.name not in self._named:
            self._named.add(file.name)
            why = "this is no name of anything in service, so it is left out; remove it"
            print(printable(f"damoos: {file}: {why}"), file=sys.stderr)

    def _is_set_aside(self, name: str, damage: Damage) -> bool:
        """Put a damaged file out of the way, and say so; say it once if the file has to stay.

        A file that is out of the way tells nothing any more, so its state says first that its policy may be in force.
        """
        aside = self._moved_aside(name, damage)
        if aside is None and damage.path.name in self._named:
            return False
        self._named.add(damage.path.name)
        fate = f"set aside as {aside.name}" if aside else "left out until it can be read"
        print(printable(f"damoos: {damage}; {fate}"), file=sys.stderr)
        if aside:
            with contextlib.suppress(OSError):  # it has been said already
                self.audit(name, f"{damage.path.name} is damaged, {fate}: {damage.why}")
        return aside is not None

    def _moved_aside(self, name: str, damage: Damage) -> Path | None:
        """The new path of a damaged file; None if it stays, as it does where its state cannot be written."""
        is_state = damage.path.suffix == ".state"
        if (aside := path_aside(damage, is_made_again=is_state)) is None:
            return None
        why = f"{damage.path.name} was damaged ({damage.why[:MOST_CHARS]}) and is {aside.name} now"
        try:
            if not is_state:
                self._tell_now(name, self._state_of_damaged(name, why))
                damage.path.rename(aside)
                return aside
            damage.path.rename(aside)
            try:
                self._tell_now(name, {"unconfirmed": why})
            except OSError:
                aside.rename(damage.path)
                raise
        except OSError:
            return None
        return aside

    def _state_of_damaged(self, name: str, why: str) -> dict[str, Any]:
        """How one is whose specification is damaged: it has failed.

        It may be in force, unless it does not stay without a keeper, and none has had the machine for long enough.
        """
        state = {key: value for key, value in self.states().get(name, {}).items() if key != "error"}
        is_off = bool(state) and state.get("on_exit") != KEEP and self.keeper.is_off_by_itself
        doubt = {} if is_off else {"unconfirmed": "nobody has confirmed that it is off"}
        return {"failed": f"{why}; apply it again", **doubt, **state, "in_force": False}

    def _tell_now(self, name: str, state: dict[str, Any]) -> None:
        """Say how one is, on the disk.

        Raises
        ------
        OSError : the disk does not let it
        """
        self.tell(name, state)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """While something is added, and while a keeper decides to end: one at a time."""
        lock = lock_in(self.folder, ".changing")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def new_log(self) -> int:
        """Descriptor of an empty `log_file`, for a keeper that begins.

        Raises
        ------
        MachineError : it is a link, no regular file, or another user's
        """
        log = _opened(self.log_file, lambda file: own_file.descriptor(file, os.O_RDWR | os.O_CREAT, 0o666))
        os.ftruncate(log, 0)
        return log

    def take(self) -> bool:
        """Become the machine's keeper for as long as this process lives; False if there is one."""
        if not self._keeper.take():
            return False
        with contextlib.suppress(OSError):
            for draft in self.folder.glob(".[0-9]*.*"):
                if draft.lstat().st_mtime < time.time() - _DRAFT_S:
                    draft.unlink()
        return True

    def leave(self) -> None:
        """Be its keeper no longer."""
        self._keeper.leave()

    @property
    def keeper(self) -> Liveness:
        """Whether there is a keeper, and when it has looked last."""
        return self._keeper.liveness()

    def wake_keeper(self) -> None:
        """Have the keeper look at the journal now; nothing happens if there is none."""
        self._keeper.send(signal.SIGUSR1)

    @property
    def keeper_pid(self) -> int:
        """The process that keeps this machine's; 0 if there is none on this computer."""
        return self.keeper.pid

    @property
    def has_keeper(self) -> bool:
        """Whether a process keeps this machine's, wherever that is."""
        return self.keeper.lives


def lock_in(folder: Path, name: str) -> int:
    """Descriptor of a file of this user's that is to be locked.

    Raises
    ------
    MachineError : it is a link, no regular file, or another user's
    OSError : the disk fails
    """
    return _opened(folder / name, own_file.lock)


def _opened(file: Path, open_it: Callable[[Path], int]) -> int:
    try:
        return open_it(file)
    except OSError as error:
        if error.errno in _OF_DISK:
            raise
        raise MachineError(f"{file}: {error.strerror}") from None


def audit_line(name: str, what: str) -> str:
    """A line of the audit log, of now; nothing in it steers a terminal."""
    return printable(f"{clock(time.time())} {name}: {' '.join(what.split())[:MOST_CHARS]}")


def clock(at_s: float) -> str:
    """A time as people read it, with this computer's zone; for one that no clock shows, the nearest that one does."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(min(max(at_s, 0.0), MOST_S)))
