"""Programs of the user's that are asked something: what they take and print is bounded, and nothing of them stays."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

# How often it is looked whether a program has ended whose children still hold its output.
LOOK_S = 0.1


class NoAnswer(Exception):
    """A program that took too long, or printed too much; says which."""


@dataclass(frozen=True)
class Answer:
    """What a program ended with."""

    exit_status: int
    stdout: str
    stderr: str


def answer(argv: Sequence[str], text: str, limit_s: float, most_bytes: int) -> Answer:
    """What a program says to a text on its standard input; its children are killed when it ends.

    Parameters
    ----------
    limit_s : float, seconds
    most_bytes : int
        Of standard output and standard error together.

    Raises
    ------
    NoAnswer : it took or printed more
    OSError : it cannot be run
    """
    with tempfile.TemporaryFile() as asked:
        asked.write(text.encode())
        asked.seek(0)
        child = subprocess.Popen(
            argv, stdin=asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    try:
        until_s = time.monotonic() + limit_s
        said = _read(child, until_s, limit_s, most_bytes)
        child.wait(max(0.0, until_s - time.monotonic()))  # it may go on without its output
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"no answer within {limit_s:g} s") from None
    finally:
        _kill_group(child)
        child.wait()
        for pipe in (child.stdout, child.stderr):
            assert pipe is not None
            pipe.close()
    out, error = (part.decode(errors="replace") for part in said)
    return Answer(child.returncode, out, error)


def _read(child: subprocess.Popen[bytes], until_s: float, limit_s: float, most_bytes: int) -> tuple[bytes, bytes]:
    assert child.stdout is not None
    assert child.stderr is not None
    said = {child.stdout.fileno(): b"", child.stderr.fileno(): b""}
    with selectors.DefaultSelector() as waiting:
        for pipe in said:
            waiting.register(pipe, selectors.EVENT_READ)
        while waiting.get_map():
            if time.monotonic() > until_s:
                raise NoAnswer(f"no answer within {limit_s:g} s")
            for key, _ in waiting.select(LOOK_S):
                if not (chunk := os.read(key.fd, 1 << 16)):
                    waiting.unregister(key.fd)
                said[key.fd] += chunk
            if sum(map(len, said.values())) > most_bytes:
                raise NoAnswer(f"it printed more than {most_bytes} bytes")
            if child.poll() is not None:
                _kill_group(child)  # what it left behind holds its output open
    out, error = said.values()
    return out, error


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
