"""Files that users name: regular ones, bounded, and never a pipe that is waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.common import user_file
from damoos.comparison import fleet_plan
from damoos.damon.attrs import Attrs
from damoos.errors import ConfigError
from damoos.policies.documents import scheme_text
from damoos.recordings import files, journal
from damoos.scorers import scorer
from damoos.workloads import catalog

READERS: dict[str, Callable[[Path], object]] = {
    "scheme": scheme_text,
    "fleet": fleet_plan.read,
    "prices": lambda path: scorer("cost", {"prices": str(path)}),
    "score": lambda path: scorer(str(path)),
    "score in Python": lambda path: scorer(f"{path}.py:score"),
    "recording": lambda path: files.read(path, Attrs()),
    "journal": journal.lines,
    "workload": lambda path: catalog.find(f"{path}.toml"),
}


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("reader", READERS)
def test_each_file_of_the_command_line_is_a_regular_file(reader: str, kind: str, tmp_path: Path) -> None:
    """Nobody writes to the pipe, so a reader that waits for it never returns."""
    path = tmp_path / "theirs"
    for name in (path, path.with_suffix(".py"), path.with_suffix(".toml")):
        if kind == "pipe":
            os.mkfifo(name)
        elif kind == "device":
            name.symlink_to("/dev/zero")
        else:
            name.mkdir()
    with pytest.raises(ConfigError, match=r"not a regular file|there is no such file") as refused:
        READERS[reader](path)
    assert str(path) in str(refused.value) or "/dev/zero" in str(refused.value)


def test_what_is_larger_than_its_bound_is_named(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with open(file, "wb") as out:
        out.truncate(5 << 20)
    with pytest.raises(OSError, match="larger than 4 MiB"):
        user_file.read_text(file)
    assert len(user_file.read_bytes(file)) == 5 << 20


@pytest.mark.parametrize("name", ["/dev/fd/x", "/dev/fd/", "/dev/stdinx", "/proc/1/fd/0", "./dev/stdin"])
def test_only_the_shell_s_own_names_are_those_of_a_pipe(name: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011
        user_file.regular_or_shells(name, os.O_RDONLY)
