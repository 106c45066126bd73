"""Where things lie: data that ships with damoos, the cache of kernels and images, the results."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache as cached
from pathlib import Path

from damoos.errors import ConfigError
from damoos.ownership import make_folders, objection_to_use

PACKAGE = Path(__file__).resolve().parents[1]


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

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD")[:12] + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except OSError:
        return None


def cache() -> Path:
    """Folder of what can be made again: ``DAMOOS_CACHE``, by default ``~/.cache/damoos``; made if it can be.

    Programs in it are run, so it must be root's or this user's own.

    Raises
    ------
    ConfigError : it, or a folder or link on the way to it, is another user's, or every user may write to it
    """
    folder = Path(os.environ.get("DAMOOS_CACHE") or Path.home() / ".cache/damoos")
    _check(folder)
    return folder


def program(*names: str) -> Path:
    """Path of a program in the cache, which may not have been made yet.

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
                    f"{part}: another user can have written to it, so damoos does not run what is there; remove it, and"
                    " damoos makes it again"
                )
    return path


# Folders that have been looked at, and by which user: once is enough for a process.
_checked: set[tuple[Path, int]] = set()


def _check(folder: Path) -> None:
    """Refuse a cache that another user can have written to."""
    if (folder, os.geteuid()) in _checked:
        return
    if objection := objection_to_use(folder):
        raise ConfigError(
            f"the cache {folder} {objection}, and programs in it are run; set DAMOOS_CACHE to a folder of your own"
        )
    with suppress(OSError):  # where it cannot be made, nothing can be in it
        make_folders(folder)
        _checked.add((folder, os.geteuid()))


def tree(name: str) -> Path | None:
    """Folder of a suite that ``damoos workloads install`` has built: its ``about.json`` and ``overlay.ext4``.

    None if there is none.
    """
    folder = cache() / "trees" / name
    return folder.resolve() if (folder / "about.json").is_file() else None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder of the cache against other processes that would fill it; makes it if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
