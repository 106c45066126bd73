"""Programs of damoos's own that machines run: compiled where they are wanted first, and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from damoos.common import paths
from damoos.common.cache import mark_used
from damoos.errors import MachineError, UnsupportedError, nearest

TOOLS = ("mempat", "kvload")
"""mempat makes accesses after a pattern; kvload asks key-value servers."""
PROTECT = "protect"
"""A library that is loaded into programs and locks parts of their memory."""
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-s")
# The machine that runs them may have another libc, or none that the compiler's knows.
PROGRAM_FLAGS = (*_FLAGS, "-static")
LIBRARY_FLAGS = (*_FLAGS, "-shared", "-fPIC")
LIBRARIES = ("-lm",)


def tool(name: str, arch: str = "") -> Path:
    """Path of a program, or of the library `PROTECT`, on this machine; compiled if need be.

    Parameters
    ----------
    name : str
    arch : str
        ``uname -m`` of the machine that runs it; this host's if it is empty.

    Raises
    ------
    UnsupportedError : there is no C compiler, or no static libc for it
    """
    assert name in (*TOOLS, PROTECT), nearest(name, TOOLS)
    flags = LIBRARY_FLAGS if name == PROTECT else PROGRAM_FLAGS
    arch = arch or platform.machine()
    source = paths.data("workloads") / name / f"{name}.c"
    key = hashlib.sha256(source.read_bytes() + repr((arch, flags, LIBRARIES)).encode()).hexdigest()[:16]
    program = paths.cache() / "programs" / key / name
    if not program.is_file():
        _compile(source, program, arch, flags)
    mark_used(program.parent)
    return program


def _compile(source: Path, program: Path, arch: str, flags: tuple[str, ...]) -> None:
    if arch == platform.machine():
        compiler, packages = shutil.which("cc") or shutil.which("gcc"), "gcc libc6-dev"
    else:
        triple = f"{arch}-linux-gnu"
        compiler, packages = shutil.which(f"{triple}-gcc"), f"gcc-{triple.replace('_', '-')}"
    if compiler is None:
        where = "no cc" if arch == platform.machine() else f"no compiler for {arch}"
        raise UnsupportedError(
            f"{program.name} is compiled when it is wanted first, and there is {where}: apt-get install {packages}"
        )
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        draft = Path(folder) / program.name
        argv = [compiler, *flags, "-o", str(draft), str(source), *LIBRARIES]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = " | ".join(done.stderr.strip().splitlines()[-3:])
            raise MachineError(f"{source}: cc ended with {done.returncode}: {last}")
        os.replace(draft, program)


if __name__ == "__main__":  # make build
    for name in (*TOOLS, PROTECT):
        print(tool(name))
