"""Git, as damoos calls it: the settings of a repository start no program.

A repository's ``.git/config`` can name programs that git starts at ``git status`` (``core.fsmonitor``, filters) and at
a checkout (hooks). In an unpacked archive these are the words of the person who packed it, and git does not object,
since the files are those of the user who unpacked it. So git itself runs only in a repository of damoos's own. Of a
tree that another person has made, `head` reads two files.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from damoos import regular_file
from damoos.common import host_programs

# What a repository of another person could have started by.
SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_NO_SETTINGS_OF_USERS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_BRANCH = re.compile(r"refs(/[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)+")
# A line of HEAD, and the list of all branches and tags of a large repository.
_HEAD_BYTES, _PACKED_BYTES = 4096, 64 << 20


def output(folder: Path, *words: str) -> str:
    """What git says in a checkout of damoos's own; empty if it fails.

    Parameters
    ----------
    folder : Path
        The checkout. damoos runs its programs, so its owner is trusted.
    *words : str

    Raises
    ------
    OSError : git cannot be started
    """
    env = {name: value for name, value in host_programs.environment().items() if not name.startswith("GIT_")}
    argv = ["git", *SETTINGS, "-c", f"safe.directory={folder}", "-C", str(folder), *words]
    done = subprocess.run(
        argv, cwd=host_programs.FOLDER, env=env | _NO_SETTINGS_OF_USERS,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()


def clone(source: str, target: Path) -> list[str]:
    """The command that clones the newest commit of what a user names; that user's own settings of git are used.

    Parameters
    ----------
    source : str
        URL or folder.
    target : Path
    """
    return ["git", *SETTINGS, "clone", "--quiet", "--no-local", "--depth", "1", "--", source, str(target)]


def head(folder: Path) -> str | None:
    """The commit that is checked out in a folder, read without git; None if it cannot be told.

    Parameters
    ----------
    folder : Path
        Whoever has made it: nothing is started, no link is followed, and no file outside of its ``.git`` is read.
    """
    place = folder / ".git"
    if place.is_symlink() or not place.is_dir():  # of a further work tree it is a file, which leads elsewhere
        return None
    try:
        text = _line(place, "HEAD")
        branch = text.removeprefix("ref: ")
        if branch != text:
            text = _commit_of(place, branch)
    except (OSError, ValueError):
        return None
    return text if _COMMIT.fullmatch(text) else None


def _commit_of(place: Path, branch: str) -> str:
    """What a branch leads to: in a file of its own, or in the list of those that git has packed."""
    if not _BRANCH.fullmatch(branch):
        return ""
    try:
        return _line(place, branch)
    except FileNotFoundError:
        lines = _content(place, "packed-refs", _PACKED_BYTES).splitlines()
        return next((commit for commit, _, name in (line.partition(" ") for line in lines) if name == branch), "")


def _line(place: Path, name: str) -> str:
    return _content(place, name, _HEAD_BYTES).strip()


def _content(place: Path, name: str, most_bytes: int) -> str:
    """Text of a file below a folder; a link on the way to it is not followed."""
    path = place / name
    if any(part.is_symlink() for part in (path, *path.parents) if place in part.parents):
        raise ValueError(f"{path} is a link")
    return regular_file.whole(path, most_bytes).decode()
