"""Programs that the agent starts: always in a process group of their own that the undo list names."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from damoos.agent import proc
from damoos.agent.confinement import UNCONFINED, Confinement
from damoos.agent.inside import open_inside
from damoos.agent.interruption import Interruption
from damoos.agent.placement import Interleaving
from damoos.agent.undo import UndoLog
from damoos.errors import MachineLost, WorkloadError

OUTPUT_BYTES = 64 << 10
# A program that prints more than this is ended: its output lies on the machine's disk.
PRINT_BYTES = 256 << 20
_PR_SET_CHILD_SUBREAPER = 36
_ASK_S = 0.5


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: UndoLog,
    folder: Path | None = None,
    stdin: Path | None = None,
    outputs: Path | None = None,
    group: Path | None = None,
    cpus: Sequence[int] = (),
    interleaving: Interleaving | None = None,
    confinement: Confinement = UNCONFINED,
) -> subprocess.Popen[bytes]:
    """Start a program.

    Parameters
    ----------
    argv, env
        Its words, and what its environment has beyond the agent's.
    folder : Path or None
        Where it runs.
    stdin : Path or None
        What it reads; relative to the folder, which a link must not lead out of where the program is another user.
    outputs : Path or None
        Stem of the files that its output goes to, ``.out`` and ``.err``; None drops it.
    group : Path or None
        Cgroup that it is put into.
    cpus : sequence of int
        The only CPUs that it may use; all where empty.
    interleaving : Interleaving or None
        Where its new pages go; None for the agent's own way.
    confinement : Confinement
        As whom it runs, and in which network.

    Raises
    ------
    WorkloadError : it cannot be started
    """

    def enter() -> None:
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        if cpus:
            os.sched_setaffinity(0, cpus)
        if interleaving:
            interleaving.enter()
        confinement.enter()  # last: the user may do none of the above

    nowhere = Path(os.devnull)
    source = nowhere if stdin is None else (folder or Path()) / stdin
    try:
        with (
            _input(source, folder if confinement.account and stdin and not stdin.is_absolute() else None) as read,
            open(outputs.with_suffix(".out") if outputs else nowhere, "wb") as out,
            open(outputs.with_suffix(".err") if outputs else nowhere, "wb") as err,
        ):
            child = subprocess.Popen(
                argv,
                env={**confinement.env(folder), **env},
                cwd=folder,
                stdin=read,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=enter,
            )
    except OSError as error:
        what = error.filename if stdin and str(error.filename) == str(source) else argv[0]
        raise WorkloadError(f"cannot start '{what}': {error.strerror}") from None
    except subprocess.SubprocessError as error:
        hint = f" (are there CPUs {list(cpus)}?)" if cpus else ""
        raise WorkloadError(f"cannot start '{argv[0]}': {error}{hint}") from None
    log.record("process_group", pgid=child.pid, start_ticks=proc.start_ticks(child.pid))
    return child


def _input(source: Path, folder: Path | None) -> IO[bytes]:
    """What a program reads; None for a folder lets links lead anywhere."""
    return open(source, "rb") if folder is None else open_inside(folder, source)


def wait(
    child: subprocess.Popen[bytes],
    limit_s: float,
    interrupted: Callable[[], bool],
    look: Callable[[], float] = lambda: 0.5,
) -> bool:
    """Wait until a program ends; it stays a zombie, so that a kdamond still has a target to report on.

    Parameters
    ----------
    limit_s : float
        Longest wait.
    interrupted : callable
        Whether the wait shall end. An `Interruption` wakes it; another is asked twice a second.
    look : callable
        Called again and again; returns the seconds until it wants to be called next.

    Returns
    -------
    bool : whether it has ended

    Raises
    ------
    MachineLost : the controller is gone or has cancelled
    """
    end = time.monotonic() + limit_s
    poll = select.poll()
    ended = os.pidfd_open(child.pid)
    poll.register(ended, select.POLLIN)
    wakes = interrupted if isinstance(interrupted, Interruption) else None
    if wakes:
        poll.register(wakes, select.POLLIN)
    longest_s = math.inf if wakes else _ASK_S
    try:
        while True:
            pause_s = look()
            if interrupted():
                raise MachineLost("the controller of this run is gone")
            left_s = end - time.monotonic()
            if left_s <= 0:
                return False
            ready = [fd for fd, _ in poll.poll(max(0.0, min(pause_s, left_s, longest_s)) * 1000)]
            if ended in ready:
                return True
            if ready and wakes:
                wakes.seen()
    finally:
        os.close(ended)


class Strays:
    """What programs leave behind that were started after it was made, also by a double fork and in groups of their own.

    This process becomes the parent of all descendants whose own parents end, so that none gets away.

    References
    ----------
    prctl(2), PR_SET_CHILD_SUBREAPER
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._not_ours = set(proc.children(os.getpid()))

    def end(self) -> None:
        """Kill them, and those that they make meanwhile."""
        while new := [pid for pid in proc.children(os.getpid()) if pid not in self._not_ours]:
            for pid in [pid for child in new for pid in proc.descendants(child)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                except PermissionError:  # it has become another user
                    self._not_ours.add(pid)
            for pid in new:
                if pid not in self._not_ours:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, 0)


def has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether a program has ended; it is not waited for."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def tail(path: Path) -> str:
    """The end of what a program has printed."""
    with open(path, "rb") as file:
        return end_of(file, OUTPUT_BYTES)


def end_of(file: IO[bytes], limit: int, whole_lines: bool = False) -> str:
    """The last bytes of an open file; if only whole lines are wanted, without the rest of one that is cut."""
    start = max(0, os.fstat(file.fileno()).st_size - limit)
    file.seek(start)
    if start and whole_lines:
        file.readline()
    return file.read(limit).decode(errors="replace")
