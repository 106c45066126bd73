"""The agent as one file."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from damoos.machines.bundle import agent_bundle


def test_the_agents_bundle_is_the_same_for_the_same_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "a"))
    first = agent_bundle()
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "b"))
    second = agent_bundle()
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_a_python_of_another_version_passes_over_the_agents_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "import sys; sys.path.insert(0, sys.argv[1]); import damoos.agent.run as one; print(one.__file__)"

    def imported() -> str:
        argv = [sys.executable, "-S", "-c", where, agent_bundle()]
        return Path(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()).name

    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    assert imported() == "run.pyc"
    magic = bytes([importlib.util.MAGIC_NUMBER[0] ^ 1]) + importlib.util.MAGIC_NUMBER[1:]
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", magic)
    monkeypatch.setattr("importlib._bootstrap_external.MAGIC_NUMBER", magic)
    assert imported() == "run.py"
