"""Files of the cache that a guest gets, and its locks: none is a link to another file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from damoos.common import paths
from damoos.errors import ConfigError
from damoos.machines import guest
from damoos.machines.guest import kernels

OTHER = 61235  # a user that no system has


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def suite(cache: Path) -> Path:
    """A suite as it is installed: a folder named by its content, and a link with its name."""
    folder = cache / "trees/splash3-abc"
    folder.mkdir(parents=True)
    (folder / "about.json").write_text("{}")
    (folder / "overlay.ext4").write_text("disk")
    (cache / "trees/splash3").symlink_to("splash3-abc")
    return folder


def test_a_suite_is_found_by_its_name(suite: Path) -> None:
    assert paths.tree("splash3") == suite
    assert paths.overlay(suite) == suite / "overlay.ext4"
    assert paths.tree("parsec3") is None


@pytest.mark.parametrize(
    "name", ["{}/theirs", "../../theirs", "..", ".", "", ".hidden", "-x", "a,b", "a\nb", "splash3/"]
)
def test_a_path_is_no_name_of_a_suite(tmp_path: Path, suite: Path, name: str) -> None:
    """What a machine file named was a disk of the guest, in which a program of the same hand read it."""
    for folder in (tmp_path / "theirs", suite.parent):
        folder.mkdir(exist_ok=True)
        (folder / "about.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"'.*' is not the name of a suite, such as splash3") as told:
        paths.tree(name.format(tmp_path))
    assert str(told.value).isprintable()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
def test_only_a_file_is_a_disk(tmp_path: Path, suite: Path, kind: str) -> None:
    disk = suite / "overlay.ext4"
    disk.unlink()
    if kind == "link":
        (tmp_path / "id_rsa").write_text("SECRET")
        disk.symlink_to(tmp_path / "id_rsa")
    elif kind == "pipe":
        os.mkfifo(disk)
    elif kind == "folder":
        disk.mkdir()
    with pytest.raises(ConfigError, match=r"overlay\.ext4: not a regular file, so no guest gets it; install the suite"):
        paths.overlay(suite)


def test_a_guest_is_not_booted_with_another_file_for_a_disk(
    tmp_path: Path, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "id_rsa").write_text("SECRET")
    (suite / "overlay.ext4").unlink()
    (suite / "overlay.ext4").symlink_to(tmp_path / "id_rsa")
    boots = kernels.Kernel("debian", tmp_path, "6.12.0", flush_tlb=False)
    monkeypatch.setattr(guest, "kernel", lambda *_: boots)
    monkeypatch.setattr(guest, "image", lambda *_: None)
    monkeypatch.setattr(guest, "check_tools", lambda *_: None)
    monkeypatch.setattr(guest, "QemuProcess", lambda *_: pytest.fail("it is booted"))
    monkeypatch.setattr(guest, "choose", lambda *_: guest.Accelerator("kvm", emulated=False))
    machine = guest.GuestMachine("guest", "", 1, 1 << 30)
    machine.provide((), ["splash3"])
    with pytest.raises(ConfigError, match=r"overlay\.ext4: not a regular file"):
        machine.open()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_disk_of_another_user_s_is_not_taken(cache: Path, suite: Path) -> None:
    os.chown(suite / "overlay.ext4", OTHER, OTHER)
    with pytest.raises(ConfigError, match=r"overlay\.ext4: another user can have written to it"):
        paths.overlay(suite)
    cache.chmod(0o775)  # of a group that shares it by choice
    assert paths.overlay(suite) == suite / "overlay.ext4"


def test_a_suite_that_leads_out_of_the_cache_has_no_disk(tmp_path: Path, suite: Path) -> None:
    elsewhere = suite.rename(tmp_path / "splash3-abc")
    (suite.parent / "splash3").unlink()
    (suite.parent / "splash3").symlink_to(elsewhere)
    found = paths.tree("splash3")
    assert found is not None
    with pytest.raises(ConfigError, match="not a regular file"):
        paths.overlay(found)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path, cache: Path, is_there: bool) -> None:
    """The file to which it led was emptied, or made."""
    cache.mkdir()
    victim = tmp_path / "victim"
    if is_there:
        victim.write_text("precious")
    (cache / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="a symbolic link, which damoos does not follow; remove it"), paths.locked(cache):
        pass
    assert victim.read_text() == "precious" if is_there else not victim.exists()


def test_a_lock_that_is_a_pipe_is_not_waited_for_and_nothing_is_written_to_one(tmp_path: Path, cache: Path) -> None:
    (cache / "pipe").mkdir(parents=True)
    os.mkfifo(cache / "pipe/lock")
    with pytest.raises(OSError, match="not a regular file; remove it"), paths.locked(cache / "pipe"):
        pass
    (tmp_path / "victim").write_text("precious")
    (cache / "lock").hardlink_to(tmp_path / "victim")
    with paths.locked(cache):
        assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize(("folder", "lock"), [(0o755, 0o600), (0o775, 0o660)])
def test_only_those_who_may_write_to_a_cache_can_open_its_locks(cache: Path, folder: int, lock: int) -> None:
    cache.mkdir()
    cache.chmod(folder)
    (cache / "lock").touch(0o664)
    with paths.locked(cache):
        assert (cache / "lock").stat().st_mode & 0o777 == lock


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_group_shares_the_locks_of_its_cache(cache: Path) -> None:
    for _ in range(2):
        with paths.locked(cache):
            os.chown(cache / "lock", OTHER, OTHER)


def test_the_cache_has_a_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that run in other folders get its files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAMOOS_CACHE", "cache")
    assert paths.cache() == tmp_path / "cache"
