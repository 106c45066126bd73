"""Folders that a program has filled, of which none may stay."""

from __future__ import annotations

import os
from pathlib import Path

from damoos.agent.removal import remove_tree


def test_more_folders_in_each_other_than_python_calls_functions(tmp_path: Path) -> None:
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        os.mkdir("run")
        os.chdir("run")
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    remove_tree(tmp_path / "run")
    assert not (tmp_path / "run").exists()
