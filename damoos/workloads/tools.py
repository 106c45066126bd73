"""Programs of damoos's own that machines run."""

from __future__ import annotations

from pathlib import Path

from damoos.common import paths
from damoos.common.compiled import LIBRARY_FLAGS, PROGRAM_FLAGS, compiled
from damoos.errors import nearest

TOOLS = ("mempat", "kvload")
"""mempat makes accesses after a pattern; kvload asks key-value servers."""
PROTECT = "protect"
"""A library that is loaded into programs and locks parts of their memory."""


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
    source = paths.data("workloads") / name / f"{name}.c"
    return compiled(source, LIBRARY_FLAGS if name == PROTECT else PROGRAM_FLAGS, arch)


if __name__ == "__main__":  # make build
    for name in (*TOOLS, PROTECT):
        print(tool(name))
