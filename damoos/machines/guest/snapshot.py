"""Snapshots of booted guests: one that has been booted before goes on from there, for half of the CPU time of a boot.

One is made when a guest is booted for the second time: it takes longer than a boot to make, and many guests are booted
once. Guests that go on from one differ in their random numbers (a device tells the kernel to seed them anew) and in
nothing else.
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

from damoos.common import paths
from damoos.common.cache import mark_used
from damoos.errors import MachineLost

PART = "snapshots"
_STATE, _CONSOLE, _BOOTED = "state.zst", "console", "booted"


class Snapshot:
    """Where the snapshot of one kind of guest lies, whether it is there or not.

    Parameters
    ----------
    argv : sequence of str
        QEMU's whole command line, without what differs between guests of one kind.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        program = Path(shutil.which(argv[0]) or argv[0]).resolve()
        emulator = [str(program), program.stat().st_mtime_ns]  # whose state another version may not read
        name = hashlib.sha256(json.dumps([emulator, *argv]).encode()).hexdigest()[:16]
        self._folder = paths.cache() / PART / name

    def options(self) -> tuple[str, ...]:
        """Options by which QEMU goes on from it; none where it is not there."""
        state = self._folder / _STATE
        if not state.exists():
            return ()
        mark_used(self._folder)
        # QEMU waits for ever for a state that ends before it begins, and ends at one that is none.
        return ("-incoming", f"exec:zstd -dcq {shlex.quote(str(state))} || echo damaged")

    def console(self) -> str:
        """What the guest had written to its console by then."""
        return (self._folder / _CONSOLE).read_text(errors="replace")

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
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            booted = os.open(self._folder / _BOOTED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
                (draft / _CONSOLE).write_text(console)
                (draft / _CONSOLE).replace(self._folder / _CONSOLE)
                (draft / _STATE).replace(self._folder / _STATE)
