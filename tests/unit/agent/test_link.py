"""The end of an agent whose controller is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_HELD_UP = """
import sys
from damoos.agent import __main__ as agent
agent.LEAVE_S = 0.0
agent.Link(60.0)
open(sys.argv[1]).read()
"""


def test_a_call_that_does_not_end_keeps_no_agent_alive(tmp_path: Path) -> None:
    """A file system of another user's may answer nothing, whatever is asked of it; the guardian undoes all then."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    held_up = subprocess.run([sys.executable, "-P", "-c", _HELD_UP, pipe], stdin=subprocess.DEVNULL, timeout=60)
    assert held_up.returncode == 1
