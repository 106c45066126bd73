from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from damoos.common import paths
from damoos.errors import MachineError, UnsupportedError
from damoos.workloads.tools import TOOLS, tool


def test_a_program_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    program = tool("mempat")
    made = program.stat().st_mtime_ns
    assert subprocess.run([program], capture_output=True, check=False).returncode != 0  # it wants a pattern
    assert tool("mempat") == program
    assert program.stat().st_mtime_ns == made
    assert [path.name for path in program.parent.iterdir()] == ["mempat"]


def test_every_program_has_its_source() -> None:
    for name in TOOLS:
        assert (paths.data("workloads") / name / f"{name}.c").is_file()


def test_without_a_compiler_it_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"kvload is compiled when it is wanted first.*apt-get install gcc"):
        tool("kvload")


def test_what_the_compiler_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "kvload").mkdir()
    (tmp_path / "kvload/kvload.c").write_text("int main(void) { return nothing; }")
    monkeypatch.setattr(paths, "data", lambda name: tmp_path)
    with pytest.raises(MachineError, match=r"kvload\.c: cc ended with 1: .*nothing.*"):
        tool("kvload")
