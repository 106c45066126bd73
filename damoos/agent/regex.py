"""Regular expressions of users, matched by a process of its own, for which the kernel bounds CPU time and memory.

What they are matched with comes from programs that may be hostile. An expression that can match a text in several ways
may try all of them, which takes longer than anybody waits, and Python has no limit for it.
"""

from __future__ import annotations

import contextlib
import json
import pkgutil
import re
import signal
import subprocess
import sys
from dataclasses import dataclass

LIMIT_S = 2.0
"""CPU time that one expression may take on one text."""
MOST_CHARS = 1000
"""How long an expression may be."""
_ATTEMPTS = 2


@dataclass(frozen=True)
class Matches:
    """What an expression matches in a text.

    Parameters
    ----------
    count : int
        How often.
    last : str
        What its group matches the last time, or all of it without a group.
    """

    count: int
    last: str


def groups_in(regex: str) -> int:
    """How many groups an expression has.

    Raises
    ------
    ValueError : it is none, counts too far, is nested too deeply, or is longer than `MOST_CHARS`
    """
    if len(regex) > MOST_CHARS:
        raise ValueError(f"it has more than {MOST_CHARS} characters")
    try:
        return re.compile(regex).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


class RegexProcess:
    """Matches expressions one after the other; started when it is first needed. A context in which it ends.

    Without `close` it ends with the process that has it. Only one thread uses it.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RegexProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def matches(self, regex: str, text: str, flags: int = 0) -> Matches:
        """What an expression matches.

        Parameters
        ----------
        flags : int
            Of `re`.

        Raises
        ------
        ValueError : it takes longer than `LIMIT_S`, or too much memory, or is no expression for this Python
        """
        question = json.dumps([regex, text, int(flags), LIMIT_S]).encode() + b"\n"
        for _ in range(_ATTEMPTS):  # others may have ended it, as a run ends all that has been started during it
            try:
                answer = self._ask(question)
            except BaseException:
                self.close()
                raise
            if answer.endswith(b"\n"):
                return _matches(regex, json.loads(answer))
            if self.close() == -signal.SIGPROF:
                raise ValueError(
                    f"{_shown(regex)} takes more than {LIMIT_S:g} s on this text; write an expression that can match it"
                    " in one way only, without a repetition in a repetition"
                )
        raise ValueError(f"{_shown(regex)} cannot be matched: the process that does it was ended")

    def _ask(self, question: bytes) -> bytes:
        """A line of its answer; nothing if it has ended."""
        if self._child is None:
            self._child = _start()
        assert self._child.stdin
        assert self._child.stdout
        try:
            self._child.stdin.write(question)
            self._child.stdin.flush()
        except BrokenPipeError:
            return b""
        return self._child.stdout.readline()

    def close(self) -> int | None:
        """End it; returns how it ended, as `subprocess` tells it."""
        child, self._child = self._child, None
        if child is None:
            return None
        child.kill()  # nothing to one that has ended
        status = child.wait()
        for stream in (child.stdin, child.stdout):
            with contextlib.suppress(BrokenPipeError):  # what it has not read is left
                assert stream
                stream.close()
        return status


def _start() -> subprocess.Popen[bytes]:
    source = pkgutil.get_data("damoos.agent", "regex_worker.py")
    assert source is not None
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source.decode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C on the terminal is not for it
    )


def _matches(regex: str, answer: dict[str, str | int]) -> Matches:
    if "error" in answer:
        raise ValueError(f"{_shown(regex)}: {answer['error']}")
    return Matches(int(answer["count"]), str(answer["last"]))


def _shown(regex: str) -> str:
    return f"'{regex if len(regex) <= 80 else regex[:77] + '...'}'"
