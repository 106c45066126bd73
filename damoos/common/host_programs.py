"""Programs of this host that damoos runs; none looks into the current folder, where other users may put files.

QEMU takes its firmware from there, git its settings. Paths in a command are absolute, so that they mean the same
elsewhere and are never taken for options.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO

from damoos.errors import MachineError

FOLDER = Path("/")
"""Where a program runs that needs no folder: only root may write there."""
_OF_ROOT = ("/usr/sbin", "/sbin")
# apt prints lists of hundreds of packages; what a program complains of may have no end.
KEPT_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 16
_ENDED_S = 2.0
_PR_SET_PDEATHSIG = 1


def search_path() -> str:
    """Folders in which programs are looked for: the user's, then root's; the current folder is none of them."""
    named = (os.environ.get("PATH") or os.defpath).split(os.pathsep)
    return os.pathsep.join([*(folder for folder in named if os.path.isabs(folder)), *_OF_ROOT])


def environment(more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The user's environment variables, with a PATH that leads into no current folder, and some more."""
    return {**os.environ, "PATH": search_path(), **more}


def run(
    argv: Sequence[str],
    folder: Path = FOLDER,
    more: Mapping[str, str] = MappingProxyType({}),
    limit_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """What a program ends with; it is asked nothing. Of what it prints, the end is kept.

    Parameters
    ----------
    folder : Path
        Where it runs; one of damoos's own.
    more : mapping of str to str
        Environment variables.
    limit_s : float or None
        It is killed after this time; None for one that takes long on good grounds.

    Raises
    ------
    FileNotFoundError : this host does not have it
    MachineError : it took longer
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, cwd=folder, env=environment(more), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    ) as child:
        assert child.stdout
        assert child.stderr
        ends = _End(child.stdout), _End(child.stderr)
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise MachineError(f"{argv[0]} did not end in {limit_s:g} s") from None
        finally:
            child.kill()
        out, err = (end.text() for end in ends)
    return subprocess.CompletedProcess(argv, status, out, err)


class _End:
    """The end of what a program prints, read as it comes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._kept = b""
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True, name="output")
        self._reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed, since `text` has waited long enough
            while data := os.read(stream.fileno(), _CHUNK_BYTES):
                self._kept = (self._kept + data)[-KEPT_BYTES:]

    def text(self) -> str:
        """What is kept, once the program has ended; what it has started may still have the pipe."""
        self._reader.join(_ENDED_S)
        return self._kept.decode(errors="replace")


def dies_with_this_process() -> Callable[[], None]:
    """What a program that is about to be started must do so that it does not outlive the thread that started it."""
    parent = os.getpid()

    def enter() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return enter
