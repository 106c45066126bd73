"""Snapshots of booted guests: QEMU runs what is in one, so it is this user's own and no link; no guest is booted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.errors import ConfigError
from damoos.machines.guest.snapshot import Snapshot

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def snapshot() -> Snapshot:
    return Snapshot(["/bin/true", "a guest"])


def saved(command: str) -> None:
    """QEMU's part: it writes a state to where it is told."""
    Path(command.rpartition("> ")[2]).write_bytes(b"state")


@pytest.fixture
def folder(cache: Path) -> Path:
    """A snapshot, made when its guest has been booted for the second time."""
    made = snapshot()
    for _ in range(2):
        assert not made.options()
        made.consider(saved, "console \N{SNOWMAN}")
    return next((cache / "snapshots").iterdir())


def test_a_guest_goes_on_from_its_snapshot(folder: Path) -> None:
    assert str(folder / "state.zst") in snapshot().options()[1]
    assert snapshot().console() == "console \N{SNOWMAN}"


@only_root
@pytest.mark.parametrize("part", ["..", ".", "state.zst", "console"])
def test_one_that_another_user_can_have_written_is_not_used(folder: Path, part: str) -> None:
    os.chown(folder / part, 61235, 61235)
    with pytest.raises(ConfigError, match="another user can have written to it, so damoos does not use what is there"):
        snapshot().options()


@pytest.mark.parametrize("part", ["state.zst", "console"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_files_are_read(folder: Path, tmp_path: Path, part: str, kind: str) -> None:
    (tmp_path / "shadow").write_text("SECRET")
    make: dict[str, Callable[[], None]] = {
        "link": lambda: (folder / part).symlink_to(tmp_path / "shadow"),
        "pipe": lambda: os.mkfifo(folder / part),
    }
    (folder / part).unlink()
    make[kind]()
    with pytest.raises(ConfigError, match=f"{part}: not a regular file, so no guest gets it; remove it"):
        snapshot().options()


def test_a_console_that_has_become_a_link_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("SECRET")
    (folder / "console").unlink()
    (folder / "console").symlink_to(tmp_path / "shadow")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        snapshot().console()


def test_it_is_closed_to_others_whatever_the_umask(cache: Path) -> None:
    before = os.umask(0)
    try:
        for _ in range(2):
            snapshot().consider(saved, "")
    finally:
        os.umask(before)
    folder = next((cache / "snapshots").iterdir())
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o755, 0o700]
    assert (folder / "console").stat().st_mode & 0o777 == 0o600
