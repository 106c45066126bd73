"""Programs and libraries of damoos's own in C: compiled where they are wanted first, and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from damoos.common import host_programs, paths
from damoos.common.cache import mark_used
from damoos.errors import MachineError, UnsupportedError
from damoos.ownership import make_folders

_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-s")
# The machine that runs them may have another libc, or none that the compiler's knows.
PROGRAM_FLAGS = (*_FLAGS, "-static")
LIBRARY_FLAGS = (*_FLAGS, "-shared", "-fPIC")
LIBRARIES = ("-lm",)


def compiled(source: Path, flags: Sequence[str], arch: str = "") -> Path:
    """Path of what a source of one file is compiled to; made if need be.

    Parameters
    ----------
    flags : sequence of str
        `PROGRAM_FLAGS` or `LIBRARY_FLAGS`.
    arch : str
        ``uname -m`` of the machine that runs it; this host's if it is empty.

    Raises
    ------
    UnsupportedError : there is no C compiler, or no static libc for it
    MachineError : it does not compile
    """
    arch = arch or platform.machine()
    key = hashlib.sha256(source.read_bytes() + repr((arch, tuple(flags), LIBRARIES)).encode()).hexdigest()[:16]
    found = paths.program("programs", key, source.stem)
    if not found.is_file():
        _compile(source, found, arch, flags)
    mark_used(found.parent)
    return found


def _compile(source: Path, found: Path, arch: str, flags: Sequence[str]) -> None:
    search = host_programs.search_path()
    if arch == platform.machine():
        compiler, packages = shutil.which("cc", path=search) or shutil.which("gcc", path=search), "gcc libc6-dev"
    else:
        triple = f"{arch}-linux-gnu"
        compiler, packages = shutil.which(f"{triple}-gcc", path=search), f"gcc-{triple.replace('_', '-')}"
    if compiler is None:
        where = "no cc" if arch == platform.machine() else f"no compiler for {arch}"
        raise UnsupportedError(
            f"{found.name} is compiled when it is wanted first, and there is {where}: apt-get install {packages}"
        )
    make_folders(found.parent)
    with tempfile.TemporaryDirectory(dir=found.parent) as folder:
        draft = Path(folder) / found.name
        argv = [compiler, *flags, "-o", str(draft), str(source), *LIBRARIES]
        done = host_programs.run(argv)
        if done.returncode != 0:
            last = " | ".join(done.stderr.strip().splitlines()[-3:])
            raise MachineError(f"{source}: cc ended with {done.returncode}: {last}")
        draft.chmod(0o755)  # whatever the umask: it will be run
        os.replace(draft, found)
