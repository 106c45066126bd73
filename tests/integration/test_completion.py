"""Completion in a real bash that has sourced damoos's own script."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.conftest import DAMOOS

# Bash calls the function that `complete -p` names with these variables set, as it does when Tab is pressed.
PRESS_TAB = """
eval "$(_DAMOOS_COMPLETE=source_bash damoos)"
COMP_WORDS=({words}); COMP_CWORD={at}
$(complete -p damoos | sed 's/.* -F \\([^ ]*\\) .*/\\1/') damoos
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def press_tab(folder: Path, *words: str) -> list[str]:
    script = PRESS_TAB.format(words=" ".join(map(shlex.quote, ("damoos", *words))), at=len(words))
    environment = {**os.environ, "PATH": f"{DAMOOS.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tu"], ["tune"]),
        (["kernel", "li"], ["list"]),
        (["tune", "--sear"], ["--searcher"]),
        (["tune", "--workload", "redis/"], ["redis/cache", "redis/idle", "redis/peak", "redis/snapshots"]),
        (["sweep", "--machines", "guest,z1d."], ["guest,z1d.metal"]),
        (["show", ""], ["mine-guest-1"]),
        (["apply", "--results", "elsewhere", ""], ["theirs-guest-1"]),
        (["show", "no-such"], []),
    ],
)
def test_bash_completes(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    for study in ("results/mine-guest-1", "elsewhere/theirs-guest-1"):
        (tmp_path / study).mkdir(parents=True)
        (tmp_path / study / ".lock").touch()
    assert press_tab(tmp_path, *words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    done = subprocess.run(
        [DAMOOS], env={**os.environ, "_DAMOOS_COMPLETE": f"source_{shell}"}, capture_output=True, text=True, check=True
    )
    assert f"complete_{shell}" in done.stdout
    assert done.stderr == ""
