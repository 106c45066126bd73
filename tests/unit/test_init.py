"""The package's own names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import damoos


def test_every_public_name_is_there_and_known_to_type_checkers() -> None:
    stub = Path(damoos.__file__).with_suffix(".pyi").read_text()
    for name in damoos.__all__:
        assert getattr(damoos, name)
        assert f" as {name}\n" in stub or f"{name}:" in stub


def test_ctrl_c_while_the_commands_are_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-m", "damoos", "studies"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "damoos: interrupted\n")
