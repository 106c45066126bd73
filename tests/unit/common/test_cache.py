"""The cache: what is in it, who uses it, and what goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from damoos.common import cache
from tests.unit.cli.test_corpus import run

DAY_S = 86400


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with an old and a new image, two kernels of which one has a name, a suite and an agent."""
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    for name in ("guest/old/disk", "guest/new/disk", "kernels/1-a/bzImage", "kernels/2-b/bzImage", "trees/parsec3/x",
                 "apt/lists/all", "agent/agent.pyz", "kernels/build/6.1/vmlinux"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * 8192)
    for file in ("guest/lock", "guest/kvm.json", "cluster.json"):
        (tmp_path / file).touch()
    (tmp_path / "kernels/names").mkdir()
    (tmp_path / "kernels/names/mine").symlink_to("../1-a")
    long_ago = time.time() - 40 * DAY_S
    for name in ("guest/old", "kernels/1-a", "kernels/2-b", "trees/parsec3", "agent/agent.pyz"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    return tmp_path


def test_entries_have_their_sizes_and_names(filled: Path) -> None:
    found = {str(entry.path.relative_to(filled)): entry for entry in cache.entries()}
    assert set(found) == {
        "guest/old", "guest/new", "kernels/1-a", "kernels/2-b", "kernels/build/6.1", "trees/parsec3",
        "agent/agent.pyz", "apt",
    }  # fmt: skip
    assert {entry.sz_bytes for entry in found.values()} == {8192}
    assert found["kernels/1-a"].names == ("mine",)
    assert found["trees/parsec3"].names == ("parsec3",)


def test_a_hole_takes_no_room(filled: Path) -> None:
    with open(filled / "guest/new/disk", "r+b") as disk:
        disk.truncate(1 << 30)
    assert next(one for one in cache.entries() if one.path.name == "new").sz_bytes < 1 << 20


def test_what_is_old_and_has_no_name_is_unused(filled: Path) -> None:
    assert [one.path.name for one in cache.unused(30 * DAY_S)] == ["old", "2-b", "agent.pyz"]
    cache.mark_used(filled / "guest/old")
    assert [one.path.name for one in cache.unused(30 * DAY_S)] == ["2-b", "agent.pyz"]


def test_a_process_that_has_it_open_is_found(filled: Path) -> None:
    old = next(one for one in cache.entries() if one.path.name == "old")
    assert cache.users(old) == []
    with open(filled / "guest/old/disk"):
        assert cache.users(old) == [os.getpid()]


def test_a_file_that_is_closed_meanwhile_hides_no_other(filled: Path) -> None:
    old = next(one for one in cache.entries() if one.path.name == "old")
    lower = os.open(os.devnull, os.O_RDONLY)
    with open(filled / "guest/old/disk"):
        os.close(lower)  # the listing of the open files takes its number, and is closed when the links are read
        assert cache.users(old) == [os.getpid()]


def test_clean_deletes_what_nobody_used(filled: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    assert run(["cache", "clean", "--yes"], monkeypatch) == 0
    assert "freed: 24 KiB" in capsys.readouterr().out
    assert sorted(one.path.name for one in cache.entries()) == ["1-a", "6.1", "apt", "new", "parsec3"]
    assert run(["cache", "clean", "--yes"], monkeypatch) == 0
    assert capsys.readouterr().out == "nothing to delete\n"


def test_clean_deletes_nothing_while_a_part_of_it_is_used(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:  # type: ignore[no-untyped-def]
    before = cache.entries()
    with open(filled / "guest/old/disk"):
        assert run(["cache", "clean", "--yes"], monkeypatch) == 2
    assert f"process {os.getpid()} uses {filled / 'guest/old'}" in capsys.readouterr().err
    assert cache.entries() == before


def test_all_of_it_goes_with_its_names(filled: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    assert run(["cache", "clean", "--all"], monkeypatch) == 2  # nobody is there to be asked
    assert "give --yes" in capsys.readouterr().err
    assert run(["cache", "clean", "--all", "--yes"], monkeypatch) == 0
    assert cache.entries() == []
    assert list((filled / "kernels/names").iterdir()) == []
    assert run(["cache", "show"], monkeypatch) == 0
