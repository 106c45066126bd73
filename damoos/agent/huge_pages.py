"""Transparent huge pages: their mode, and the sizes that newer kernels choose for themselves (mTHP, 6.8 and newer).

References
----------
Documentation/admin-guide/mm/transhuge.rst
"""

from __future__ import annotations

from pathlib import Path

from damoos.agent.undo import UndoLog, chosen
from damoos.damon.files import read
from damoos.errors import UnsupportedError, nearest

MODES = ("always", "madvise", "never")
FOLDER = Path("/sys/kernel/mm/transparent_hugepage")


def usable(folder: Path = FOLDER) -> bool:
    """Whether this kernel has transparent huge pages."""
    return (folder / "enabled").exists()


def set_mode(mode: str, log: UndoLog, folder: Path = FOLDER) -> None:
    """Bring a mode into force for huge pages of the processor's size (2 MiB on x86), and for no other size.

    Where the machine's owner has turned other sizes on, ``never`` would be untrue, and two machines would differ.

    Raises
    ------
    UnsupportedError : there is no such mode, or there are no huge pages in this kernel
    """
    if mode not in MODES:
        raise UnsupportedError(f"no THP mode '{mode}'{nearest(mode, MODES)}")
    if not usable(folder):
        raise UnsupportedError(f"this kernel has no transparent huge pages, so THP mode '{mode}' cannot be set")
    for size, enabled in _sizes(folder).items():
        log.set_file(enabled, "inherit" if size == _processor_size(folder) else "never")
    log.set_file(folder / "enabled", mode)


def settings(folder: Path = FOLDER) -> dict[str, str]:
    """What is in force: ``mode``, and each size's own where the kernel has such, such as ``64kB``; else empty."""
    if not usable(folder):
        return {}
    files = {"mode": folder / "enabled", **_sizes(folder)}
    return {name: chosen(read(file)) for name, file in files.items()}


def _sizes(folder: Path) -> dict[str, Path]:
    paths = sorted(folder.glob("hugepages-*kB/enabled"), key=lambda path: (len(path.parent.name), path))
    return {path.parent.name.removeprefix("hugepages-"): path for path in paths}


def _processor_size(folder: Path) -> str:
    """Its huge page, which the mode has meant since before there were other sizes."""
    return f"{int(read(folder / 'hpage_pmd_size')) // 1024}kB"
