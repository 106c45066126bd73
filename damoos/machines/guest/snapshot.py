"""Snapshots of booted guests: one that has been booted before goes on from there, for a third of the CPU time or less.

One is made when a guest is booted for the second time, once its agent waits (`damoos.agent.standby`): it takes longer
than a boot to make, and many guests are booted once. Guests that go on from one differ in their random numbers (a
device tells the kernel to seed them anew) and in nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from damoos import regular_file
from damoos.common import atomic_file, own_file, paths
from damoos.common.cache import mark_used
from damoos.errors import MachineLost
from damoos.machines.guest.console import KEPT_BYTES
from damoos.ownership import make_folders

PART = "snapshots"
_STATE, _CONSOLE, _BOOTED = "state.zst", "console", "booted"


class Snapshot:
    """Where the snapshot of one kind of guest lies, whether it is there or not.

    Parameters
    ----------
    kind : sequence of str
        QEMU's whole command line, without what differs between guests of one kind, and what else they have in them.

    Raises
    ------
    ConfigError : another user can have made or changed its folder
    """

    def __init__(self, kind: Sequence[str]) -> None:
        emulator = Path(shutil.which(kind[0]) or kind[0]).resolve()
        version = [str(emulator), emulator.stat().st_mtime_ns]  # whose state another version may not read
        name = hashlib.sha256(json.dumps([version, *kind]).encode()).hexdigest()[:16]
        self._folder = paths.program(PART, name)

    def options(self) -> tuple[str, ...]:
        """Options by which QEMU goes on from it; none where it is not there.

        Raises
        ------
        ConfigError : another user can have made or changed it, or a link lies in its place
        """
        try:
            state, console = (paths.file(PART, self._folder.name, part) for part in (_STATE, _CONSOLE))
            if not (state.exists() and console.exists()):
                return ()
        except PermissionError:  # in a cache that a group shares, each user has made others
            return ()
        mark_used(self._folder)
        # QEMU waits for ever for a state that ends before it begins, and ends at one that is none.
        return ("-incoming", f"exec:zstd -dcq {shlex.quote(str(state))} || echo damaged")

    def console(self) -> str:
        """What the guest had written to its console by then."""
        with open(regular_file.descriptor(self._folder / _CONSOLE, os.O_NOFOLLOW), "rb") as file:
            return file.read(KEPT_BYTES).decode(errors="replace")

    def remove(self) -> None:
        """Forget one that QEMU cannot read."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def consider(self, save: Callable[[str], None], console: str) -> None:
        """Note that a guest of this kind has been booted, and make the snapshot if it is the second one.

        Parameters
        ----------
        save : callable
            Writes a guest's state to where QEMU's migration is told.
        console : str
            What the guest has written so far.
        """
        with contextlib.suppress(OSError):  # a cache that is full or read only makes boots longer, and nothing else
            make_folders(self._folder.parent)
            self._folder.mkdir(exist_ok=True, mode=0o700)
            booted = own_file.descriptor(self._folder / _BOOTED, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(booted, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else another guest is making it
                if not os.fstat(booted).st_size:
                    os.write(booted, b"once\n")
                elif not (self._folder / _STATE).exists():
                    self._make(save, console)
            finally:
                os.close(booted)

    def _make(self, save: Callable[[str], None], console: str) -> None:
        with tempfile.TemporaryDirectory(prefix="draft-", dir=self._folder) as name:
            draft = Path(name)
            with contextlib.suppress(MachineLost):
                save(f"exec:umask 077; zstd -1q > {shlex.quote(str(draft / _STATE))}")
                atomic_file.fill(draft / _CONSOLE, [console.encode(errors="replace")])
                (draft / _CONSOLE).replace(self._folder / _CONSOLE)
                (draft / _STATE).replace(self._folder / _STATE)
