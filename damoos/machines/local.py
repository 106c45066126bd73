"""The machine that damoos runs on: the same agent as everywhere, as a child process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from damoos.common import interpreter
from damoos.machines.base import LOOK, AgentLink, Machine, Session, agent_words, looked, new_token
from damoos.machines.bundle import agent_bundle


class LocalSession(Session):
    """The agent of this machine."""

    def __init__(self) -> None:
        token = new_token()
        argv = [sys.executable, "-S", str(agent_bundle()), *agent_words(token)]
        # A session of its own: Ctrl-C on the terminal reaches damoos, which then ends the agent in good order.
        self._process = subprocess.Popen(
            argv, env=interpreter.outside(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin
        assert self._process.stdout
        self.agent = AgentLink(self._process.stdin, self._process.stdout, token)
        self.facts = {**self.agent.facts(), "accel": "none", "clock": "host"}

    def copy(self, path: Path) -> str:
        """Nothing to bring: the file is here."""
        return str(path.resolve())

    def close(self) -> None:
        """Undo everything and end the agent."""
        try:
            self.agent.close()
        finally:
            self._process.wait()


class LocalMachine(Machine):
    """The machine that damoos runs on. Its swap, THP mode and page cache are left alone.

    Never a default: it is taken when it is named, if no other kdamond is there, and if the doctor finds it fit.
    """

    name = "local"
    description = "this machine, its own kernel and memory management"
    doctor_first = True

    def open(self, say: Callable[[str], None] = lambda _: None) -> LocalSession:
        """Start the agent here."""
        return LocalSession()

    def is_here(self) -> bool:
        """Yes, always."""
        return True

    def look(self) -> dict[str, Any]:
        """Run the agent here, beside whoever works here."""
        argv = [sys.executable, "-S", str(agent_bundle()), LOOK]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return looked(done.stdout, done.stderr, self.name)
