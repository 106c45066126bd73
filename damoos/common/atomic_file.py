"""A file that is put in its place in one step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from damoos.ownership import make_folders


def fill(path: Path, parts: Iterable[bytes], last: Callable[[], bytes] = bytes, mode: int = 0o600) -> None:
    """Write parts, then what ``last`` returns, into a file that by default only its owner may read.

    Parameters
    ----------
    mode : int
        Permissions, from which the umask is taken away; 0o644 for a file of the cache, which users may share.

    Raises
    ------
    OSError : it cannot be written; what was there stays, and nothing is left beside it
    """
    make_folders(path.parent)
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    draft.unlink(missing_ok=True)
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
            for part in parts:
                out.write(part)
            out.write(last())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
