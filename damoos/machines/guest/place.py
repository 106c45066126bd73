"""The folder in which guests reserve memory and CPUs of this host: one for all users, where root has made it.

Nothing in it is made by its name in a folder that others may write to: the lock files are root's, and each guest's
record has a name drawn by chance.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import stat
import tempfile
from pathlib import Path

from damoos.common import paths
from damoos.ownership import is_private, private_folder

SHARED = Path("/run/damoos-guests")
OWN = "DAMOOS_RESERVATIONS"
"""Environment variable: a folder of this user's own, for guests that others are not to see."""
GATE, MEMORY, RECORDS = "gate", "memory", "records"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def place() -> Path:
    """The folder of the lock files: the host's if it is root's, else one of this user's own; made if need be.

    Raises
    ------
    MachineError : there is no folder that other users cannot change
    """
    if own := os.environ.get(OWN):
        return filled(private_folder(Path(own)))
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # a container in which not even root writes there
            _make_shared()
    return SHARED if _is_usable(SHARED) else filled(_private())


def cpu(number: int) -> str:
    """Name of a CPU's lock file."""
    return f"cpu-{number}"


def _names() -> list[str]:
    nr_cpus = max(os.cpu_count() or 1, max(os.sched_getaffinity(0)) + 1)
    return [GATE, MEMORY, *map(cpu, range(nr_cpus))]


def _make_shared() -> None:
    """Make the host's folder in one step, with all that is in it, so that nobody meets half of it."""
    if not os.path.lexists(SHARED):
        draft = Path(tempfile.mkdtemp(prefix=f".{SHARED.name}-", dir=SHARED.parent))
        try:
            filled(draft, 0o1777)
            draft.chmod(0o755)
            draft.rename(SHARED)
        except OSError:  # another damoos of root's was faster
            shutil.rmtree(draft, ignore_errors=True)
    if _is_roots(SHARED):
        filled(SHARED, 0o1777)  # CPUs may have come since


def filled(folder: Path, mode: int = 0o700) -> Path:
    """Make the lock files of a folder that nobody else may write to, and the folder of the records."""
    with contextlib.suppress(FileExistsError):
        (folder / RECORDS).mkdir()
        (folder / RECORDS).chmod(mode)  # whatever the umask
    for name in _names():
        with contextlib.suppress(FileExistsError):
            fd = os.open(folder / name, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(fd, 0o644)
            os.close(fd)
    return folder


def _is_usable(folder: Path) -> bool:
    return _is_roots(folder) and all((folder / name).exists() for name in (RECORDS, *_names()))


def _is_roots(folder: Path) -> bool:
    """Whether only root can have made what is in a folder."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and not status.st_mode & _OTHERS_WRITE


def _private() -> Path:
    """A folder of this user's own; on a file system of several hosts, one for each."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and is_private(Path(runtime)):
        return private_folder(private_folder(Path(runtime) / "damoos") / "guests")
    return private_folder(paths.cache() / f"guests-{platform.node() or 'host'}-{os.geteuid()}")
