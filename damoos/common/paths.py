"""Where things lie: data that ships with damoos, the cache of kernels and images, the results."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache as cached
from pathlib import Path

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
    """Folder of what can be made again: ``DAMOOS_CACHE``, by default ``~/.cache/damoos``."""
    return Path(os.environ.get("DAMOOS_CACHE") or Path.home() / ".cache/damoos")


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
