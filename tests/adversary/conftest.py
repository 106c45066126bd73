"""A real agent, run as another user where that is what the attack is about."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from damoos.machines.bundle import agent_bundle

# Users that no system has: the one who is attacked, and the one who attacks.
VICTIM, ATTACKER = 61234, 61235
PYTHON = os.path.realpath(sys.executable)


class AgentProcess:
    """An agent and both ends of its line, with nothing of the controller's between."""

    def __init__(self, argv: Sequence[str | Path], env: dict[str, str], user: int | None) -> None:
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        self.process = subprocess.Popen(argv, env=env, user=user, cwd="/", start_new_session=True, **pipes)

    def send(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def call(self, name: str, call_id: int = 1, **args: Any) -> Any:
        """Make a call and wait for its answer."""
        self.send(json.dumps({"id": call_id, "call": name, "args": args}).encode() + b"\n")
        return self.answer()

    def answer(self) -> Any:
        """The next line that is no event; what it says as an error is returned, too."""
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if "event" not in message:
                return message.get("error") or message["result"]
        raise EOFError(self.process.stderr.read().decode() if self.process.stderr else "")

    def ended(self) -> int:
        """Wait for its end, which is its own; pytest's timeout is the deadline."""
        return self.process.wait()


Start = Callable[..., AgentProcess]


@pytest.fixture
def home() -> Iterator[Path]:
    """A temporary folder as /tmp is: everybody's, and sticky."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o1777)
        yield Path(name)


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Starts agents whose temporary folder is `home`; as the victim where this is root, else as this user.

    Their home folder is ``own`` in it.
    """
    own = home / "own"
    own.mkdir(0o700)
    os.chown(own, uid(), -1)
    bundle = Path(shutil.copy(agent_bundle(), home / "agent.pyz"))
    bundle.chmod(0o644)
    agents: list[AgentProcess] = []

    def start(*tokens: str, dead_man_s: float = 60.0, **env: str) -> AgentProcess:
        user = VICTIM if os.geteuid() == 0 else None
        where = {"TMPDIR": str(home), "HOME": str(own), "PATH": os.environ["PATH"]}
        argv = [PYTHON, "-S", bundle, str(dead_man_s), *(tokens or ("token",))]
        agents.append(AgentProcess(argv, {**where, **env}, user))
        return agents[-1]

    yield start
    for agent in agents:
        agent.process.kill()
        agent.process.communicate()


# Leaves a file "came" beside itself where it is imported.
_PLANTED = """
import sys
with open({came!r}, "a") as came:
    came.write(__name__ + " ")
raise ImportError("planted")
"""
_PLANT = """
import pathlib, sys
folder, text = pathlib.Path(sys.argv[1]), sys.argv[2]
for name in sys.argv[3:]:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
"""
# Modules of the standard library, damoos and Ray: what is imported first where a Python process starts, and late.
_MODULES = (
    "json.py", "ctypes.py", "mmap.py", "runpy.py", "damoos/__init__.py", "multiprocessing/__init__.py",
    "ray/__init__.py", "planted_module.py",
)  # fmt: skip


def plant(folder: Path) -> Path:
    """Have the attacker put modules into a folder as /tmp is; returns the file that appears if one is imported."""
    folder.chmod(0o1777)
    came = folder / "came"
    words = [PYTHON, "-S", "-c", _PLANT, folder, _PLANTED.format(came=str(came)), *_MODULES]
    subprocess.run(words, user=ATTACKER, group=ATTACKER, extra_groups=[], cwd="/", check=True)
    return came


def uid() -> int:
    """Who the agents of `start` run as."""
    return VICTIM if os.geteuid() == 0 else os.geteuid()


needs_two_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
