"""Which guests this host has, and whether its memory is enough for one more.

Each has a file of a name drawn by chance, locked by its QEMU for as long as that lives, which holds the guest's state
(``idle`` or ``busy``), the process id of QEMU and its memory in bytes.

If the folder is shared, every user of the host can write such a file. What it says is believed as far as it can be
checked: a process id only if that process has the file open and is the file's owner's, and memory of another user's
guest only as far as its QEMU has it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from damoos.errors import MachineError, MachineTransientError
from damoos.machines.guest import locks, place

SHARE = 0.9
WAIT_S = 600.0
_PREFIX = "guest-"
_POLL_S = 0.5


class GuestRecord:
    """A guest's own file.

    The lock is QEMU's alone: `fd` is for it to inherit and is closed here by `handed_to`. So the memory counts as taken
    until QEMU is truly gone, and not longer, however damoos ends.

    Parameters
    ----------
    records : Path
        Folder of all records; other users may write to it, if it is sticky.
    mem_bytes : int
        Of the guest.
    """

    def __init__(self, records: Path, mem_bytes: int) -> None:
        self._for_writing, name = tempfile.mkstemp(prefix=_PREFIX, dir=records)
        self._path = Path(name)
        self._mem_bytes = mem_bytes
        self._pid = 0
        os.fchmod(self._for_writing, 0o644)
        # The lock belongs to a description of the file, so QEMU gets one of its own: of this very file, whatever may
        # lie at its path by now.
        self.fd = os.open(f"/proc/self/fd/{self._for_writing}", os.O_RDONLY)
        self.write("busy")
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def handed_to(self, pid: int) -> None:
        """QEMU has the lock now."""
        self._pid = pid
        os.close(self.fd)
        self.fd = -1
        self.write("busy")

    def write(self, state: str) -> None:
        """Tell whether the guest is ``idle`` or ``busy``: words of one length, so nobody reads a mixture of lines."""
        os.pwrite(self._for_writing, f"{state} {self._pid:10} {self._mem_bytes}".encode(), 0)

    def remove(self) -> None:
        """The guest is gone, or has never come to be."""
        _remove(self._path, os.fstat(self._for_writing))
        for fd in (self.fd, self._for_writing):
            if fd >= 0:
                os.close(fd)
        self.fd = self._for_writing = -1


def claim(folder: Path, mem_bytes: int, say: Callable[[str], None], host_bytes: int | None = None) -> GuestRecord:
    """Wait until the host has memory for a guest, and take it.

    Parameters
    ----------
    host_bytes : int or None
        What the host has; None to ask it. Guests get `SHARE` of it.

    Raises
    ------
    MachineError : this host can never have such a guest
    MachineTransientError : others kept the memory for `WAIT_S`
    """
    limit = int(SHARE * (host_bytes or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    if mem_bytes > limit:
        raise MachineError(
            f"the guest needs {_gib(mem_bytes)} of memory, and guests on this host may have {_gib(limit)}:"
            " take a machine with less memory, or a larger 'scale' in its file"
        )
    end, waits = time.monotonic() + WAIT_S, False
    while True:
        with locks.locked(folder / place.MEMORY):
            records = folder / place.RECORDS
            taken = sum(_alive(path) for path in records.glob(f"{_PREFIX}*"))
            if taken + mem_bytes <= limit:
                return GuestRecord(records, mem_bytes)
        what = f"{_gib(mem_bytes)} of memory: other guests have {_gib(taken)} of {_gib(limit)}"
        if time.monotonic() > end:
            raise MachineTransientError(f"waited {WAIT_S:g} s for {what}")
        if not waits:
            say(f"waiting for {what}")
        waits = True
        time.sleep(random.uniform(0.5, 1) * _POLL_S)


def idle_guests(folder: Path) -> Iterator[int]:
    """Process ids of the QEMUs that nobody waits for."""
    for path in (folder / place.RECORDS).glob(f"{_PREFIX}*"):
        state, pid, _ = _read(path)
        if state == "idle" and _is_holder(pid, path):
            yield pid


def _alive(path: Path) -> int:
    """Bytes of a guest; 0 if it is gone, and then its file goes, too."""
    state, pid, mem_bytes = _read(path)
    if not state:
        _remove_left(path)
        return 0
    with contextlib.suppress(FileNotFoundError):
        owner = path.lstat().st_uid
        return mem_bytes if owner in (0, os.geteuid()) else min(mem_bytes, _size_bytes(pid, owner))
    return 0


def _remove_left(path: Path) -> None:
    """Remove a record of this user's whose guest is gone; those of others are theirs to remove."""
    with contextlib.suppress(OSError):
        record = path.lstat()
        if stat.S_ISREG(record.st_mode) and record.st_uid == os.geteuid():
            _remove(path, record)


def _remove(path: Path, record: os.stat_result) -> None:
    """Remove a record, unless another file has its name by now."""
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.path.samestat(os.stat(path.name, dir_fd=folder, follow_symlinks=False), record):
                os.unlink(path.name, dir_fd=folder)
        finally:
            os.close(folder)


def _is_holder(pid: int, path: Path) -> bool:
    """Whether a process has a record open and is its owner's, so that nobody names processes of others."""
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        record = path.lstat()
        if os.stat(f"/proc/{pid}").st_uid != record.st_uid:
            return False
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), record):
                    return True
    return False


def _size_bytes(pid: int, owner: int) -> int:
    """Size of a process's address space; 0 for one that is not this user's."""
    with contextlib.suppress(OSError):
        if os.stat(f"/proc/{pid}").st_uid == owner:
            return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _read(path: Path) -> tuple[str, int, int]:
    content = locks.locked_content(path)
    try:
        state, pid, mem_bytes = (content or b"").decode().split()
        return state, int(pid), max(0, int(mem_bytes))
    except ValueError:
        return "", 0, 0


def _gib(sz_bytes: int) -> str:
    return f"{sz_bytes / (1 << 30):.1f} GiB"
