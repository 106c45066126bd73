"""The folder of a suite that a user names, copied so that it can be built in; it may be another person's.

Only files, folders and links are copied, and no more than fits: a file with a hole can claim any size, and a copy has
no holes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from damoos import regular_file
from damoos.errors import ConfigError

MOST_BYTES = 64 << 30
"""All files of a suite together: PARSEC with its largest inputs has a quarter of it."""
MOST_ENTRIES = 1_000_000
_LEFT_OUT = ".git"
_CHUNK_BYTES = 1 << 20


def copy(folder: Path, target: Path) -> None:
    """Copy a suite without its Git repository; links stay links.

    Parameters
    ----------
    folder : Path
    target : Path
        Made; not there yet, and on the disk that has the cache.

    Raises
    ------
    ConfigError : it has something that is no file, folder or link, is too large for the disk or for any suite, or
        cannot be read
    """
    _check(folder, shutil.disk_usage(target.parent).free)
    try:
        shutil.copytree(
            folder, target, symlinks=True, copy_function=_copy_file, ignore=shutil.ignore_patterns(_LEFT_OUT)
        )
    except shutil.Error as error:  # a list of (source, target, why)
        path, _, why = error.args[0][0]
        raise ConfigError(f"--from {folder}: {path} cannot be copied: {why}") from None


def content_hash(folder: Path) -> str:
    """Name of the files of a folder by their paths and contents; the links in it are known by their paths."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(os.fsencode(path.relative_to(folder)) + b"\0")
        if path.is_file() and not path.is_symlink():
            digest.update(_content_digest(path))
    return digest.hexdigest()[:12]


def _content_digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with regular_file.opened(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()


def _check(folder: Path, free_bytes: int) -> None:
    total_bytes, most_bytes = 0, min(MOST_BYTES, free_bytes)
    for nr_entries, path in enumerate(_entries(folder), start=1):
        status = path.lstat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise ConfigError(f"--from {folder}: {path} is no file, folder or link; remove it")
        total_bytes += status.st_size
        if total_bytes > most_bytes:
            whose = "free for the cache" if most_bytes == free_bytes else "of any suite"
            raise ConfigError(
                f"--from {folder}: larger than the {most_bytes >> 20} MiB {whose} (from {path} on); give the folder of"
                " the suite alone"
            )
        if nr_entries > MOST_ENTRIES:
            raise ConfigError(f"--from {folder}: more than {MOST_ENTRIES} files; give the folder of the suite alone")


def _entries(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != _LEFT_OUT]
        yield from (Path(place, name) for name in (*folders, *files) if name != _LEFT_OUT)


def _copy_file(source: str, target: str) -> None:
    """Copy a file that has not become a pipe or a link since it was looked at, and no more than it claims to have."""
    with open(regular_file.descriptor(source, os.O_NOFOLLOW), "rb") as file, open(target, "wb") as copied:
        left_bytes = os.fstat(file.fileno()).st_size
        if left_bytes > MOST_BYTES:
            raise regular_file.TooLargeError(source, MOST_BYTES)
        while left_bytes > 0 and (chunk := file.read(min(left_bytes, _CHUNK_BYTES))):
            left_bytes -= copied.write(chunk)
    shutil.copystat(source, target, follow_symlinks=False)
