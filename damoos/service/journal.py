"""What is to be in service on a machine, what is, and what has happened: plain files that outlive every process.

    service/MACHINE/NAME.json     what is wanted; there until `damoos stop`, or until it fails
    service/MACHINE/NAME.state    how it is, as the machine's keeper has last seen it
    service/MACHINE/NAME.windows  what its guard measured, a line for each window
    service/MACHINE/audit.log     a line for each thing that was done, and why
    service/MACHINE/keeper.log    what the keeper said beyond that
    service/MACHINE/metrics.prom  numbers of all of it, in the text format of Prometheus

A keeper of another process id reads them all, and goes on where the former one was.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from damoos.common.atomic_file import fill
from damoos.common.terminal import printable
from damoos.store.studies import slug

# What becomes of a policy whose keeper ends: its machine is as it was before, or it stays in force without a guard.
UNDO, KEEP = "undo", "keep"
# Some days of windows of 10 s; twice as much is kept at most.
MOST_BYTES_OF_WINDOWS = 4 << 20


class Journal:
    """That of one machine in a results folder.

    Parameters
    ----------
    folder : Path
        Made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = -1

    @classmethod
    def of(cls, results: Path, machine: str) -> Journal:
        """The journal of a machine, by its name or file."""
        return cls(results.resolve() / "service" / slug(machine))

    @classmethod
    def all(cls, results: Path) -> list[Journal]:
        """Those of all machines, by name."""
        folders = sorted((results.resolve() / "service").glob("*/"))
        return [cls(folder) for folder in folders]

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
        specs = {file.stem: json.loads(file.read_text()) for file in self.folder.glob("[!.]*.json")}
        return dict(sorted(specs.items(), key=lambda item: (item[1]["wanted_s"], item[0])))

    def want(self, name: str, spec: dict[str, Any]) -> None:
        """Have something in service from now on."""
        self._write(f"{name}.json", {**spec, "wanted_s": time.time()})

    def confirm(self, name: str, on: dict[str, Any] | None) -> None:
        """Say that it has been in force, so that it is wanted whatever happens to its keeper and its machine.

        Parameters
        ----------
        on : dict or None
            The processes, as they were found.
        """
        with self.changing():
            if spec := self.wanted().get(name):  # else somebody has just stopped it
                self._write(f"{name}.json", {**spec, "on": on, "confirmed": True})

    def adapt(self, name: str, context: dict[str, Any], scheme: str) -> None:
        """Have the next keeper go on with schemes to which it has been adapted.

        Parameters
        ----------
        context : dict
            In damo's JSON.
        scheme : str
            The same as people write it.
        """
        with self.changing():
            if spec := self.wanted().get(name):
                policy = {**spec["policy"], "context": context}
                self._write(f"{name}.json", {**spec, "policy": policy, "scheme": scheme})

    def forget(self, name: str) -> None:
        """Have it in service no longer."""
        (self.folder / f"{name}.json").unlink(missing_ok=True)

    def states(self) -> dict[str, dict[str, Any]]:
        """How each is, by name; with ``failed`` or ``error``, what is no longer wanted."""
        found = {}
        for file in sorted(self.folder.glob("[!.]*.state")):
            with contextlib.suppress(FileNotFoundError):
                found[file.stem] = json.loads(file.read_text())
        return found

    def tell(self, name: str, state: dict[str, Any] | None) -> None:
        """Say how one is; None for one of which there is nothing more to say."""
        if state is None:
            (self.folder / f"{name}.state").unlink(missing_ok=True)
        else:
            self._write(f"{name}.state", state)

    def audit(self, name: str, what: str) -> None:
        """Write a line of what has been done."""
        with open(self.folder / "audit.log", "a") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {name}: {printable(' '.join(what.split()))}\n")

    def add_window(self, name: str, window: dict[str, Any]) -> None:
        """Write down what was measured of one in a window; the oldest go when there are too many."""
        file = self.folder / f"{name}.windows"
        if file.exists() and file.stat().st_size > MOST_BYTES_OF_WINDOWS:
            file.replace(file.with_suffix(".windows-before"))
        with open(file, "a") as out:
            out.write(json.dumps(window) + "\n")

    def windows(self, name: str) -> list[dict[str, Any]]:
        """What was measured of one, the oldest first; see `damoos.service.kept.Kept`."""
        return Windows(self, name).read()

    def _write(self, name: str, value: dict[str, Any]) -> None:
        fill(self.folder / name, [json.dumps(value).encode()])

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """While something is added, and while a keeper decides to end: one at a time."""
        with open(self.folder / ".changing", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def take(self) -> bool:
        """Become the machine's keeper for as long as this process lives; False if there is one."""
        fd = os.open(self.folder / ".keeper", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._fd = fd
        return True

    def leave(self) -> None:
        """Be its keeper no longer."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    @property
    def keeper_pid(self) -> int:
        """The process that keeps this machine's; 0 if there is none."""
        try:
            pid = int((self.folder / ".keeper").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return 0
        return pid if str(self.folder).encode() in words else 0


class Windows:
    """What was measured of one policy, for whoever looks again and again: only what is new is read.

    Parameters
    ----------
    journal : Journal
    name : str
    """

    def __init__(self, journal: Journal, name: str) -> None:
        self._file = journal.folder / f"{name}.windows"
        self._before = self._file.with_suffix(".windows-before")
        self._inode = self._offset = 0
        self._found: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """All of them that there were at any look, the oldest first."""
        with contextlib.suppress(FileNotFoundError), open(self._file, "rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            if inode != self._inode:  # the first look, or another file has taken its place
                self._read_before()
                self._inode, self._offset = inode, 0
            file.seek(self._offset)
            self._add(file.read())
        return self._found

    def _read_before(self) -> None:
        """What the former file has beyond the last look."""
        with contextlib.suppress(FileNotFoundError), open(self._before, "rb") as file:
            if self._inode not in (0, os.fstat(file.fileno()).st_ino):
                return  # two files have gone since, which takes days
            file.seek(self._offset)
            self._add(file.read())

    def _add(self, text: bytes) -> None:
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
        self._offset += len(whole)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):  # its writer was killed in the middle of one
                self._found.append(json.loads(line))
