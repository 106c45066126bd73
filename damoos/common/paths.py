"""Where things lie: data that ships with damoos, the cache of kernels and images, the results."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache as cached
from pathlib import Path

from damoos.common import git, own_file
from damoos.common.terminal import printable
from damoos.errors import ConfigError
from damoos.ownership import make_folders, objection_to_use

PACKAGE = Path(__file__).resolve().parents[1]
_SUITE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def checkout() -> Path | None:
    """The repository that damoos runs from; None for an installed package."""
    folder = PACKAGE.parent
    return folder if (folder / "pyproject.toml").is_file() and (folder / "kernel").is_dir() else None


def data(name: str) -> Path:
    """A folder of shipped data (``workloads``, ``machines``): of the checkout, or of an installed package."""
    return (checkout() or PACKAGE / "shipped") / name


@cached
def commit() -> str | None:
    """The checkout's git commit, ``+`` behind it if files have changed since; None for an installed package."""
    folder = checkout()
    if folder is None or not (folder / ".git").exists():
        return None
    try:
        has_changed = git.output(folder, "status", "--porcelain", "--untracked-files=no")
        return git.output(folder, "rev-parse", "HEAD")[:12] + ("+" if has_changed else "")
    except OSError:
        return None


def cache() -> Path:
    """Folder of what can be made again: ``DAMOOS_CACHE``, by default ``~/.cache/damoos``; made if it can be.

    Programs in it are run, so it must be root's or this user's own. The path is absolute, also where the variable's
    is not: programs get it that run elsewhere.

    Raises
    ------
    ConfigError : it, or a folder or link on the way to it, is another user's, or every user may write to it
    """
    folder = Path(os.environ.get("DAMOOS_CACHE") or Path.home() / ".cache/damoos").absolute()
    _check(folder)
    return folder


def program(*names: str) -> Path:
    """Path of a program in the cache, or of another part of it that is trusted; it may not have been made yet.

    Parameters
    ----------
    *names : str
        Its folders in the cache, and its name.

    Raises
    ------
    ConfigError : another user can have made or changed it, as one of the cache's files or folders is open to all users
    """
    base = cache()
    path = base.joinpath(*names)
    with suppress(FileNotFoundError):
        is_shared = base.stat().st_mode & stat.S_IWGRP
        for part in (*reversed(path.parents[: len(names) - 1]), path):
            status = part.stat()
            if status.st_mode & stat.S_IWOTH or not (is_shared or status.st_uid in (0, os.geteuid())):
                raise ConfigError(
                    f"{part}: another user can have written to it, so damoos does not use what is there; remove it, and"
                    " damoos makes it again"
                )
    return path


def file(*names: str) -> Path:
    """Path of a file in the cache that QEMU or a guest gets; it may not have been made yet.

    Parameters
    ----------
    *names : str
        Its folders in the cache, and its name.

    Raises
    ------
    ConfigError : it is a link or no file, or another user can have made or changed it (`program`)
    """
    path = program(*names)
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise ConfigError(f"{path}: not a regular file, so no guest gets it; remove it, and damoos makes it again")
    return path


# Folders that have been looked at, and by which user: once is enough for a process.
_checked: set[tuple[Path, int]] = set()


def _check(folder: Path) -> None:
    """Refuse a cache that another user can have written to."""
    if (folder, os.geteuid()) in _checked and folder.is_dir():  # and has not been removed since
        return
    _refuse_if_foreign(folder, may_be_made=True)
    with suppress(OSError):  # where it cannot be made, nothing can be in it
        make_folders(folder)
    is_there = folder.exists()
    _refuse_if_foreign(folder)  # another user may have made it in between
    if is_there:
        _checked.add((folder, os.geteuid()))


def _refuse_if_foreign(folder: Path, may_be_made: bool = False) -> None:
    if objection := objection_to_use(folder, may_be_made=may_be_made):
        raise ConfigError(
            f"the cache {folder} {objection}, and programs in it are run; set DAMOOS_CACHE to a folder of your own"
        )


def check_suite_name(name: str) -> str:
    """Return the name of a suite, which is a folder of the cache.

    Raises
    ------
    ValueError : it is none, but a path, say
    """
    if not _SUITE.fullmatch(name):
        raise ValueError(
            f"'{printable(name)}' is not the name of a suite, such as splash3: write the one that 'damoos workloads"
            " install' was given"
        )
    return name


def tree(name: str) -> Path | None:
    """Folder of a suite that ``damoos workloads install`` has built: its ``about.json`` and ``overlay.ext4``.

    None if there is none.

    Raises
    ------
    ConfigError : this is no name of a suite
    """
    try:
        folder = cache() / "trees" / check_suite_name(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return folder.resolve() if (folder / "about.json").is_file() else None


def overlay(tree: Path) -> Path:
    """The disk of a suite, which a guest gets as a whole.

    Parameters
    ----------
    tree : Path
        As `tree` gives it.

    Raises
    ------
    ConfigError : it is a link or no file, or another user can have made or changed it
    """
    disk = program("trees", tree.name, "overlay.ext4")
    if disk.is_symlink() or not disk.is_file():
        raise ConfigError(f"{disk}: not a regular file, so no guest gets it; install the suite again")
    return disk


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder of the cache against other processes that would fill it; makes it if need be.

    Only a group that may write to the folder can open its lock: whoever may read a file may lock it.

    Raises
    ------
    OSError : the lock is a link or a pipe, or cannot be made
    """
    make_folders(folder)
    around = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mode = 0o660 if os.fstat(around).st_mode & stat.S_IWGRP else 0o600
        lock = own_file.descriptor_in(around, folder / "lock", os.O_RDWR | os.O_CREAT, mode, is_shared=True)
        if os.fstat(lock).st_uid == os.geteuid():
            os.fchmod(lock, mode)  # one of an earlier version, or of another umask
    finally:
        os.close(around)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
