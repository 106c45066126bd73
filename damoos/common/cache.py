"""What lies in the cache, and what of it nobody needs any more. All of it can be made again."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from damoos.common import paths

# Folders of the cache, with what each entry in them is.
PARTS = {
    "guest": "image of guests",
    "kernels": "kernel",
    "kernels/build": "build of a kernel",
    "kernels/source": "kernel source",
    "snapshots": "booted guest",
    "trees": "benchmark suite",
    "programs": "helper program",
    "agent": "agent",
    "apt": "package lists",
}
_NO_ENTRIES = ("lock", "names", "build", "source")


@dataclass(frozen=True)
class Entry:
    """One thing in the cache.

    Parameters
    ----------
    part : str
        One of `PARTS`.
    path : Path
    names : tuple of str
        What it is called by people; empty where nobody names it.
    sz_bytes : int
        On disk.
    used : float, seconds of Unix time
        When it was made or used last.
    """

    part: str
    path: Path
    names: tuple[str, ...]
    sz_bytes: int
    used: float

    @property
    def is_kept(self) -> bool:
        """Whether it stays until it is removed by its name: a kernel or a suite took minutes, or its user's files."""
        return bool(self.names)


def mark_used(path: Path) -> None:
    """Note that an entry was used now; a cache that is read only needs no notes."""
    with contextlib.suppress(OSError):
        os.utime(path)


def entries() -> list[Entry]:
    """All that is in the cache, part by part."""
    return [entry for part in PARTS for entry in _entries(part)]


def unused(since_s: float) -> list[Entry]:
    """What has no name and has not been used for some time, in seconds."""
    oldest = time.time() - since_s
    return [entry for entry in entries() if not entry.is_kept and entry.used <= oldest]


def remove(entry: Entry) -> None:
    """Delete an entry with its names.

    Raises
    ------
    OSError : it cannot be deleted, as another user's cannot
    """
    for name in entry.names if entry.part == "kernels" else ():
        (paths.cache() / "kernels/names" / name).unlink(missing_ok=True)
    if entry.path.is_dir() and not entry.path.is_symlink():
        shutil.rmtree(entry.path)
    else:
        entry.path.unlink(missing_ok=True)


def users(entry: Entry) -> list[int]:
    """Processes that have a file of an entry open, as guests have their images; those that this user may look at."""
    below = f"{entry.path.resolve()}"
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if any(file == below or file.startswith(f"{below}/") for file in _open_files(process))
    ]


def _open_files(process: Path) -> Iterator[str]:
    links: list[Path] = []
    with contextlib.suppress(OSError):  # the process has ended, or is another user's
        links = list((process / "fd").iterdir())
    for link in links:
        with contextlib.suppress(OSError):  # this one file was closed in the meantime; the others are still open
            yield os.readlink(link)


def _entries(part: str) -> Iterator[Entry]:
    folder = paths.cache() / part
    if part == "apt":  # one thing, for all of its files
        yield from [_entry(part, folder)] if folder.is_dir() else []
        return
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name not in _NO_ENTRIES and path.suffix not in (".json", ".log"):
            yield _entry(part, path)


def _entry(part: str, path: Path) -> Entry:
    return Entry(part, path, _names(part, path), _size_bytes(path), path.stat().st_mtime)


def _names(part: str, path: Path) -> tuple[str, ...]:
    if part == "trees":
        return (path.name,)
    links = paths.cache() / "kernels/names"
    if part != "kernels" or not links.is_dir():
        return ()
    return tuple(sorted(link.name for link in links.iterdir() if link.resolve() == path.resolve()))


def _size_bytes(path: Path) -> int:
    """On disk: images of disks have holes."""
    found = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    sizes = [file.lstat() for file in found]
    return sum(status.st_blocks * 512 for status in sizes if stat.S_ISREG(status.st_mode))
