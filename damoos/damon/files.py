"""Reading and writing the kernel's small files, with errors that name the file and the value."""

from __future__ import annotations

from pathlib import Path

from damoos.errors import MachineError, UnsupportedError


def write(path: Path, value: object) -> None:
    """Write one kernel file; what the kernel refuses is an error that names the file and the value."""
    try:
        path.write_text(f"{value}\n")
    except FileNotFoundError:
        raise UnsupportedError(f"this kernel has no {path}") from None
    except OSError as error:
        raise MachineError(f"{path}: the kernel refused '{value}': {error.strerror}") from None


def read(path: Path) -> str:
    """One kernel file without its line end."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise UnsupportedError(f"this kernel has no {path}") from None
    except OSError as error:
        raise MachineError(f"{path}: cannot be read: {error.strerror}") from None
