"""Containers of a run in a hierarchy of cgroups that is not there; in a real one: tests/guest/test_containers.py."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from damoos.agent import cgroup
from damoos.agent.containers import Containers, pids_below
from damoos.agent.meter import Meter
from damoos.agent.programs import Programs
from damoos.agent.undo import UndoLog
from damoos.errors import UnsupportedError


def container(name: str, role: str, argv: list[str] | None = None, **limits: int) -> dict[str, Any]:
    own = {file.replace("_", "."): sz_bytes for file, sz_bytes in limits.items()}
    return {"name": name, "role": role, "argv": argv, "env": {}, "memory_limits": own, "controller": None}


@pytest.fixture
def log(tmp_path: Path) -> UndoLog:
    return UndoLog(tmp_path / "undo.json")


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A group in a hierarchy that has the memory controller; as in a real one, a new group has its files at once."""
    group = tmp_path / "damoos-1"
    real = Path.mkdir

    def mkdir(path: Path, *args: Any, **options: Any) -> None:
        real(path, *args, **options)
        (path / "cgroup.controllers").write_text("cpu io memory\n")
        for file in ("cgroup.procs", "cgroup.subtree_control"):
            (path / file).write_text("")
        for file in cgroup.PROTECTIONS:
            (path / file).write_text("0\n")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    group.mkdir()
    return group


def made(specs: list[dict[str, Any]], whole: Path | None, log: UndoLog) -> Containers:
    folder = Path() if whole is None else whole.parent
    return Containers(specs, whole, None, Programs(folder, folder, {"env": {}}, log, lambda: False), log)


def test_each_container_has_a_group_below_that_of_its_role(whole: Path, log: UndoLog) -> None:
    specs = [container("redis", "application"), container("a", "tax", ["sleep"]), container("b", "tax", ["sleep"])]
    containers = made(specs, whole, log)
    groups = sorted(str(path.parent.relative_to(whole)) for path in whole.glob("**/cgroup.procs"))
    assert groups == [".", "application", "application/redis", "tax", "tax/a", "tax/b"]
    assert containers.group == whole / "application/redis"
    assert (whole / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert len(log) == 5  # each is undone, the inner ones first
    (whole / "tax/a/cgroup.procs").write_text("12\n13\n")
    (whole / "tax/b/cgroup.procs").write_text("14\n")
    assert pids_below(whole / "tax") == [12, 13, 14]


def test_groups_further_up_keep_what_those_inside_are_to_keep(whole: Path, log: UndoLog) -> None:
    limits = {"memory_min": 5, "memory_low": 7}
    made([container("redis", "application", **limits), container("a", "tax", ["x"], memory_min=3)], whole, log)

    def kept(*path: str) -> list[int]:
        return [int(whole.joinpath(*path, file).read_text()) for file in ("memory.min", "memory.low")]

    assert kept("application", "redis") == kept("application") == [5, 7]
    assert kept("tax", "a") == kept("tax") == [3, 0]
    assert kept() == [8, 7]


def test_without_containers_a_program_is_alone_in_the_group_of_the_run(whole: Path, log: UndoLog) -> None:
    assert made([], whole, log).group == whole
    assert made([], whole, log).result() == {}
    assert made([], whole, log).step() == math.inf
    assert len(log) == 0
    alone = made([], None, log)
    assert alone.group is None
    assert isinstance(alone.meter(), Meter)


def test_containers_need_cgroups(log: UndoLog) -> None:
    with pytest.raises(UnsupportedError, match="cgroup v2 is not on"):
        made([container("redis", "application")], None, log)
