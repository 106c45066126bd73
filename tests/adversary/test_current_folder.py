"""A current folder in which another user has put modules: no Python process that damoos starts imports them.

Those of a Ray cluster are in test_ray.py.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from damoos.agent.probe_memory import held_memory
from damoos.common import interpreter
from damoos.errors import MachineError
from damoos.service import keeper
from damoos.service.journal import Journal
from tests.adversary.conftest import needs_two_users, plant
from tests.conftest import damoos


@pytest.fixture
def came(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has the attacker's modules; this file appears if one is imported."""
    monkeypatch.chdir(home)
    return plant(home)


@needs_two_users
def test_by_a_keeper(came: Path, tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "there")
    with contextlib.suppress(MachineError):  # it has ended already: nothing is to be in service
        keeper._start(journal)
    assert (journal.log_file.read_text(), came.exists()) == ("", False)


@needs_two_users
def test_by_the_processes_of_a_comparison(came: Path, tmp_path: Path) -> None:
    words = ("bench", "searchers", "--generate", "2", "--seeds", "1", "--searchers", "random", "--trials", "2")
    done = damoos(*words, "--results", tmp_path)
    assert (done.returncode, came.exists()) == (0, False), done.stderr


@needs_two_users
def test_by_the_agent_s_own_child(came: Path) -> None:
    with contextlib.suppress(ValueError), held_memory(4096):
        pass
    assert not came.exists()


# What a chart's picture is drawn by, and which file matplotlib has read that for.
_DRAWS = """
import os, sys
from damoos.report.charts import Axis, Chart, Panel, Points, picture
exists = os.path.exists
axis = Axis("x", "x")
picture.png(Chart("t", [Panel(axis, axis, [Points("p", [1.0], [1.0])])]))
import matplotlib
print(matplotlib.rcParams["lines.linewidth"], matplotlib.rcParams["text.usetex"], os.path.exists is exists)
"""


def test_by_matplotlib(home: Path, tmp_path: Path) -> None:
    """Nobody's style in a folder as /tmp is: it could have LaTeX run. One of the user's own is read."""
    (home / "matplotlibrc").write_text("lines.linewidth: 77\ntext.usetex: True\n")
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 5\n")
    env = {**os.environ, "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-P", "-c", _DRAWS], cwd=home, env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("5.0 False True\n", "")


def test_a_program_of_a_user_s_finds_its_modules_as_from_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"A": "b", **interpreter.SAFE_PATH})
    assert interpreter.outside() == {"A": "b"}
    monkeypatch.setattr(os, "environ", {"PYTHONSAFEPATH": "1"})
    assert interpreter.outside() == {"PYTHONSAFEPATH": "1"}
