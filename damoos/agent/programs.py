"""The programs of one run: started in its folder, each in a cgroup, waited for, ended with what they have started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damoos.agent import cgroup, children, proc
from damoos.agent.children import tail
from damoos.agent.confinement import UNCONFINED, Confinement
from damoos.agent.metric_files import contents
from damoos.agent.placement import Interleaving
from damoos.agent.undo import UndoLog, kill_cgroup
from damoos.errors import WorkloadError


@dataclass(frozen=True)
class Program:
    """One that was started.

    Parameters
    ----------
    name : str
        What error messages call it; its output is in files of this name.
    child : Popen
    group : Path or None
        The cgroup that it was started in.
    """

    name: str
    child: subprocess.Popen[bytes]
    group: Path | None

    @property
    def pid(self) -> int:
        """Its number."""
        return self.child.pid

    @property
    def exit_status(self) -> int:
        """How it ended; known once `Programs.end` was called."""
        return int(self.child.returncode)

    @property
    def cpu_s(self) -> tuple[float, float]:
        """User and system time that it took; known once `Programs.end` was called."""
        usage = self.child.rusage  # type: ignore[attr-defined]
        return usage.ru_utime, usage.ru_stime

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return children.has_ended(self.child)

    def pids(self) -> list[int]:
        """All processes of its group; its own descendants where it has none."""
        if self.group:
            return cgroup.pids(self.group)
        return proc.descendants(self.pid)


class Programs:
    """Starts, awaits and ends programs.

    Parameters
    ----------
    folder : Path
        Where they run.
    outputs : Path
        Where what they print goes: a folder that is not theirs, so that no link in it is of their making.
    spec : dict
        ``env`` and ``cpus`` of a run, see `damoos.agent.run.Run`.
    log : UndoLog
    interrupted : callable
        Says whether the controller has cancelled the run or vanished.
    confinement : Confinement
        As whom they run, and in which network.
    """

    def __init__(
        self,
        folder: Path,
        outputs: Path,
        spec: dict[str, Any],
        log: UndoLog,
        interrupted: Callable[[], bool],
        confinement: Confinement = UNCONFINED,
    ) -> None:
        self._folder = folder
        self._outputs = outputs
        self._confinement = confinement
        self._env = spec["env"]
        self._cpus = spec.get("cpus", ())
        self._log = log
        self._interrupted = interrupted

    def start(
        self,
        argv: Sequence[str],
        name: str,
        group: Path | None,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        interleaving: Interleaving | None = None,
    ) -> Program:
        """Start a program; ``env`` is more of the environment that only it has, as are the nodes of its new pages.

        Raises
        ------
        WorkloadError : it cannot be started
        """
        child = children.spawn(
            argv, {**self._env, **(env or {})}, self._log, self._folder, Path(stdin) if stdin else None,
            self._outputs / name, group, self._cpus, interleaving, self._confinement,
        )  # fmt: skip
        return Program(name, child, group)

    def wait(self, program: Program, limit_s: float, look: Callable[[], float]) -> bool:
        """Wait until a program ends, as `damoos.agent.children.wait` does.

        Raises
        ------
        MachineLost : the controller is gone or has cancelled
        """
        return children.wait(program.child, limit_s, self._interrupted, look)

    def check_output(self) -> None:
        """Refuse programs that print more than the machine's disk is to hold.

        Raises
        ------
        WorkloadError
        """
        for path in self._outputs.iterdir():
            if path.stat().st_size > children.PRINT_BYTES:
                limit = f"{children.PRINT_BYTES >> 20} MiB"
                raise WorkloadError(f"the {path.stem} printed more than {limit}; have it print less, or to /dev/null")

    def end(self, program: Program, keep_group: bool = False) -> None:
        """Kill what is left of a program and its group, and take its exit status and resource usage.

        Parameters
        ----------
        keep_group : bool
            Others are in its group and go on: only its own process group is killed.
        """
        child = program.child
        if child.returncode is not None:
            return
        if program.group and not keep_group:
            kill_cgroup(program.group)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        _, status, usage = os.wait4(child.pid, 0)
        self._log.forget("process_group", pgid=child.pid)  # its number may soon be another program's
        child.returncode = os.waitstatus_to_exitcode(status)
        child.rusage = usage  # type: ignore[attr-defined]

    def output(self, program: Program, files: Mapping[str, str]) -> dict[str, Any]:
        """What a program has printed, and the files of the folder that metrics are read from.

        Parameters
        ----------
        files : mapping of str to str
            Glob patterns by metrics.

        Raises
        ------
        WorkloadError : a file that matches cannot be taken, see `damoos.agent.metric_files.contents`
        """
        return {
            "stdout": tail(self._outputs / f"{program.name}.out"),
            "stderr": tail(self._outputs / f"{program.name}.err"),
            "files": contents(self._folder, files),
        }

    def said(self, name: str) -> str:
        """The last words of a program, for an error message."""
        text = tail(self._outputs / f"{name}.err").strip() or tail(self._outputs / f"{name}.out").strip()
        return " | ".join(text.splitlines()[-3:]) or f"the {name} said nothing"
