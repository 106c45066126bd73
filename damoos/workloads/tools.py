"""Programs of damoos's own that machines run: compiled where they are wanted first, and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from damoos.common import paths
from damoos.errors import MachineError, UnsupportedError, nearest

TOOLS = ("mempat", "kvload")
"""mempat makes accesses after a pattern; kvload asks key-value servers."""
# The machine that runs them may have another libc, or none that the compiler's knows.
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s")


def tool(name: str) -> Path:
    """Path of a program on this machine; compiled if need be.

    Raises
    ------
    UnsupportedError : there is no C compiler, or no static libc for it
    """
    assert name in TOOLS, nearest(name, TOOLS)
    source = paths.data("workloads") / name / f"{name}.c"
    folder = paths.cache() / "programs" / hashlib.sha256(source.read_bytes() + repr(FLAGS).encode()).hexdigest()[:16]
    program = folder / name
    if not program.is_file():
        _compile(source, program)
    return program


def _compile(source: Path, program: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise UnsupportedError(
            f"{program.name} is compiled when it is wanted first, and there is no cc: apt-get install gcc libc6-dev"
        )
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        draft = Path(folder) / program.name
        argv = [compiler, *FLAGS, "-o", str(draft), str(source)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = " | ".join(done.stderr.strip().splitlines()[-3:])
            raise MachineError(f"{source}: cc ended with {done.returncode}: {last}")
        os.replace(draft, program)


if __name__ == "__main__":  # make build
    for name in TOOLS:
        print(tool(name))
