"""Files of a folder that another user writes to: the agent, which may read everything, reads nothing else for it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from damoos.errors import WorkloadError


def open_inside(folder: Path, path: Path) -> IO[bytes]:
    """Open a file to read it, if it lies in a folder once all links are followed.

    Raises
    ------
    WorkloadError : it lies elsewhere, or it is no regular file
    OSError : it cannot be opened
    """
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)  # found and not opened yet: to open a pipe or a device has an effect
    try:
        found = Path(f"/proc/self/fd/{fd}")
        where = Path(os.readlink(found))  # of what was found, whatever becomes of the links
        if folder.resolve() not in where.parents:
            raise WorkloadError(f"file '{path.name}' leads out of the run's folder, to {where}; keep it in the folder")
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise WorkloadError(f"'{path.name}' in the run's folder is no regular file")
        return open(found, "rb")
    finally:
        os.close(fd)
