"""The journal as its keeper writes it: a full or broken disk neither ends the keeper nor takes a policy off.

What cannot be written is kept in memory, tried again at each look, and written once that works.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from damoos.service.journal import Journal, audit_line, clock

# Lines of audit log and windows that wait for the disk. The oldest are dropped if there are more.
MOST_WAITING = 10_000


class PatientJournal(Journal):
    """The journal of one machine, in the hands of its keeper. What it says to its keeper is what it was told.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._read_last: dict[str, dict[str, dict[str, Any]]] = {}
        self._updates: dict[str, dict[str, Any]] = {}
        self._forgotten: set[str] = set()
        self._stopped: set[str] = set()
        self._states: dict[str, dict[str, Any] | None] = {}
        self._lines: deque[Callable[[], None]] = deque()
        self._nr_dropped = 0
        self._passed_over: set[str] = set()
        self._is_changing = False
        self._failing_s = 0.0
        self._why = ""

    @property
    def is_failing(self) -> bool:
        """Whether something waits for the disk."""
        return bool(self._failing_s)

    def wanted(self) -> dict[str, dict[str, Any]]:
        """What is to be in service, by name, the oldest first; what was, as long as the disk cannot be read."""
        specs = self._readable("wanted", super().wanted)
        return {
            name: {**spec, **self._updates.get(name, {})} for name, spec in specs.items() if name not in self._forgotten
        }

    def stopping(self) -> dict[str, dict[str, Any]]:
        """What is to be taken off, by name."""
        specs = self._readable("stopping", super().stopping)
        return {name: spec for name, spec in specs.items() if name not in self._stopped}

    def states(self) -> dict[str, dict[str, Any]]:
        """How each is, by name."""
        found = {**self._readable("states", super().states), **self._states}
        return {name: state for name, state in found.items() if state is not None}

    def _readable(self, what: str, read: Callable[[], dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
        try:
            self._read_last[what] = read()
        except OSError as error:
            self._failed(error)
        return self._read_last.get(what, {})

    def _unreadable(self, file: Path) -> dict[str, Any] | None:
        """What a file said before the disk failed."""
        what = {".json": "wanted", ".stopping": "stopping"}.get(file.suffix, "states")
        return self._read_last.get(what, {}).get(file.stem)

    def _update(self, name: str, changes: dict[str, Any]) -> None:
        self._updates[name] = {**self._updates.get(name, {}), **changes}
        self.retry()

    def forget(self, name: str) -> None:
        """Have it in service no longer."""
        self._updates.pop(name, None)
        self._forgotten.add(name)
        self.retry()

    def stopped(self, name: str) -> None:
        """Say that nothing is in force any more of what was to be taken off."""
        self._stopped.add(name)
        self.retry()

    def tell(self, name: str, state: dict[str, Any] | None) -> None:
        """Say how one is; None for one of which there is nothing more to say."""
        self._states[name] = state
        self.retry()

    def _tell_now(self, name: str, state: dict[str, Any]) -> None:
        self.tell(name, state)
        if self.is_failing:
            raise OSError(self._why)

    def take_off(self, name: str, spec: Mapping[str, object]) -> None:
        """Have something taken off of which the journal has no specification; on a failing disk its state says so."""
        self.attempt(lambda: super(PatientJournal, self).take_off(name, spec))

    def audit(self, name: str, what: str) -> None:
        """Write a line of what has been done, with the time at which it was done."""
        line = audit_line(name, what)
        self._wait(lambda: self._append_to_audit(line))

    def add_window(self, name: str, window: dict[str, Any]) -> None:
        """Write down what was measured of one in a window."""
        line = json.dumps(window)
        self._wait(lambda: self._append_window(name, line))

    def _wait(self, write: Callable[[], None]) -> None:
        self._lines.append(write)
        if len(self._lines) > MOST_WAITING:
            self._lines.popleft()
            self._nr_dropped += 1
        self.retry()

    def retry(self) -> None:
        """Write what waits, the oldest lines first; stop at the first that the disk refuses."""
        if self.attempt(self._write_all) and self._failing_s:
            self._recovered()

    def attempt(self, write: Callable[[], None]) -> bool:
        """Write something of the journal's; returns whether that worked. What failed is told once it works again."""
        try:
            write()
        except OSError as error:
            self._failed(error)
            return False
        return True

    def looked(self, *, has_machine: bool = False) -> None:
        """Note that the keeper has looked just now, and whether its machine has answered; and write what waits."""
        self.retry()
        self._keeper.looked(self._failing_s, has_machine=has_machine)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """While something is added or ended: one at a time. On a disk that takes no lock, nobody else can change it."""
        with contextlib.ExitStack() as stack:
            self.attempt(lambda: stack.enter_context(super(PatientJournal, self).changing()))
            self._is_changing = True
            try:
                yield
            finally:
                self._is_changing = False

    def _write_all(self) -> None:
        while self._updates and not self._is_changing:  # each takes the lock, and nobody takes it twice
            name = next(iter(self._updates))
            super()._update(name, self._updates[name])
            del self._updates[name]
        while self._forgotten:
            name = next(iter(self._forgotten))
            super().forget(name)
            self._forgotten.remove(name)
        while self._stopped:
            name = next(iter(self._stopped))
            super().stopped(name)
            self._stopped.remove(name)
        for name in list(self._states):
            with self._passing_over_folders():
                super().tell(name, self._states[name])
                del self._states[name]
        while self._lines:
            with self._passing_over_folders():
                self._lines[0]()
            self._lines.popleft()

    @contextlib.contextmanager
    def _passing_over_folders(self) -> Iterator[None]:
        """Go on with other files where a folder has the name of one; that is said once, and is no error of the disk."""
        try:
            yield
        except IsADirectoryError as error:
            name = Path(os.fsdecode(error.filename2 or error.filename)).name
            if name not in self._passed_over:
                self._passed_over.add(name)
                _say(f"{self.folder / name}: a folder, so nothing is written there; remove it")

    def _failed(self, error: OSError) -> None:
        self._why = error.strerror or str(error)
        if not self._failing_s:
            self._failing_s = time.time()
            _say(f"{self.folder}: {self._why}; the policies stay in force, and writing is tried again at each look")

    def _recovered(self) -> None:
        since_s, self._failing_s = self._failing_s, 0.0
        dropped = f"; {self._nr_dropped} lines were dropped meanwhile" if self._nr_dropped else ""
        self._nr_dropped = 0
        what = f"could not write from {clock(since_s)} to {clock(time.time())}: {self._why}{dropped}"
        _say(f"{self.folder}: {what}")
        self.audit("keeper", what)


def _say(line: str) -> None:
    """Write to the keeper's log, which may be on the same disk."""
    with contextlib.suppress(OSError):
        print(f"{clock(time.time())} damoos: {line}", file=sys.stderr, flush=True)
