"""Programs of the host run where no other user can have put files for them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import damoos
from damoos.common import host_programs
from damoos.errors import MachineError

PACKAGE = Path(damoos.__file__).parent
# Pythons, which look for no modules in the current folder (tests/adversary/test_current_folder.py), a program of the
# user's own that belongs there, and git, which is told its folder.
ELSEWHERE = {
    "machines/local.py", "dispatch/cluster.py", "service/keeper.py", "common/programs.py", "common/paths.py",
}  # fmt: skip


def starts(path: Path) -> Iterator[ast.Call]:
    """Where a module starts a program."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen"):
            yield node


@pytest.mark.slow
def test_every_program_is_given_a_folder() -> None:
    """The agent starts what a run names, in the folder of the run."""
    files = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "agent" not in path.parents]
    started = {(str(path.relative_to(PACKAGE)), call.lineno, "cwd" in {word.arg for word in call.keywords})
               for path in files for call in starts(path)}  # fmt: skip
    assert len(started) > len(ELSEWHERE)
    assert not [(file, line) for file, line, has_folder in started if not has_folder and file not in ELSEWHERE]


def test_a_program_finds_nothing_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "true"
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in ("", ":/usr/bin:/bin", ".:/usr/bin:/bin"):
        monkeypatch.setenv("PATH", path)
        assert host_programs.run(["true"]).stdout == ""
    assert host_programs.run(["pwd"]).stdout == "/\n"
    assert host_programs.run(["pwd"], tmp_path).stdout == f"{tmp_path}\n"
    assert host_programs.run(["printenv", "A"], more={"A": "b"}).stdout == "b\n"


def test_root_s_programs_are_found_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    assert host_programs.search_path() == os.pathsep.join([*os.defpath.split(os.pathsep), "/usr/sbin", "/sbin"])


@pytest.mark.parametrize("end", [1, 2])
def test_of_what_a_program_prints_without_end_the_end_is_kept(end: int) -> None:
    nr_bytes = 64 << 20
    done = host_programs.run(["sh", "-c", f"head -c {nr_bytes} /dev/zero >&{end}; echo last >&{end}"])
    text = done.stdout if end == 1 else done.stderr
    assert text.endswith("\0last\n")
    assert len(text) == host_programs.KEPT_BYTES


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"^sh did not end in 0\.1 s$"):
        host_programs.run(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"], limit_s=0.1)
    pid = (tmp_path / "pid").read_text().strip() if (tmp_path / "pid").exists() else ""
    assert not pid or not Path(f"/proc/{pid}").exists()
