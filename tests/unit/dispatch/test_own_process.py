"""A process that a file names: it is damoos's own, and no other that has its number or its words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from damoos.agent import proc
from damoos.dispatch.own_process import OwnProcess

WORD = "/the/folder"
OTHER = 61235
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that have a word in their command line, and that SIGUSR1 ends."""
    children: list[subprocess.Popen[bytes]] = []

    def start(user: int | None = None) -> subprocess.Popen[bytes]:
        words = [os.path.realpath(sys.executable), "-S", "-c", "print(1, flush=True); input()", WORD]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        children.append(subprocess.Popen(words, user=user, cwd="/", **pipes))
        assert children[-1].stdout
        children[-1].stdout.readline()
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


def test_it_runs_until_it_ends(start: Start) -> None:
    child = start()
    own = OwnProcess(child.pid, WORD, proc.start_ticks(child.pid))
    assert own.is_running
    assert OwnProcess(child.pid, WORD).is_running  # of an older damoos
    own.send(signal.SIGUSR1)
    assert child.wait() == -signal.SIGUSR1
    assert not own.is_running
    own.send(signal.SIGUSR1)


@pytest.mark.parametrize(
    "change",
    [{"start_ticks": 1}, {"word": "/another/folder"}, {"uid": OTHER}, {"pid": 1}, {"pid": 0}, {"pid": 1 << 70}],
)
def test_another_process_is_not_taken_for_it_and_not_signalled(start: Start, change: dict[str, int]) -> None:
    child = start()
    about = {"pid": child.pid, "word": WORD, "start_ticks": proc.start_ticks(child.pid), **change}
    other = OwnProcess(**about)  # type: ignore[arg-type]
    assert not other.is_running
    other.send(signal.SIGUSR1)
    assert proc.start_ticks(child.pid)
    assert child.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_s_process_is_not_taken_for_it_whatever_its_words(start: Start) -> None:
    child = start(user=OTHER)
    for ticks in (None, proc.start_ticks(child.pid)):
        other = OwnProcess(child.pid, WORD, ticks)
        assert not other.is_running
        other.send(signal.SIGUSR1)
    assert child.poll() is None
