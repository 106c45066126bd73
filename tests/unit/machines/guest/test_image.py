"""The guest's image: who may build it, and the key by which it is known."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from damoos.errors import ConfigError, UnsupportedError
from damoos.machines.guest.image import Image

image_module = importlib.import_module("damoos.machines.guest.image")  # its function hides it


def test_where_user_namespaces_are_forbidden_root_builds_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "_NAMESPACE", ("sh", "-c", "echo Operation not permitted >&2; exit 1"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert image_module._as_root() == ()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnsupportedError, match=r"forbids \(Operation not permitted\); allow them .* as root"):
        image_module._as_root()


def test_the_host_key_is_pinned_to_the_forwarded_port(tmp_path: Path) -> None:
    (tmp_path / "host_key.pub").write_text("ssh-ed25519 AAAA damoos\n")
    assert Image(tmp_path).known_hosts(2222) == "[127.0.0.1]:2222 ssh-ed25519 AAAA\n"


@pytest.mark.parametrize(
    "word", ["-oAPT::Get::Simulate=true", "./mine.deb", "~nredis", "redis-server,purge", "a\n-b", ""]
)
def test_a_word_that_is_no_package_never_reaches_apt(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such words are options of an apt-get that runs on this host, as root: of its hooks, say."""
    built: list[object] = []
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    monkeypatch.setattr(image_module, "_build", lambda *words: built.append(words))
    with pytest.raises(ConfigError, match=r"the guest image: '.*' is not the name of a Debian package"):
        image_module.image(packages=("redis-server", word))
    assert not built


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an image in a cache of its own."""
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    name = f"{image_module.SUITE}-{image_module._recipe_hash((), image_module.host())}"
    folder = tmp_path / "cache/guest" / name
    folder.mkdir(0o755, parents=True)
    for part in ("root.ext4", "busybox", "sources.list", "user_key", "host_key.pub", "done"):
        (folder / part).write_text(part)
    assert image_module.image().path == folder
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("part", ["..", ".", "root.ext4", "busybox", "user_key"])
def test_an_image_that_another_user_can_have_changed_is_not_used(built: Path, part: str) -> None:
    os.chown(built / part, 61235, 61235)
    with pytest.raises(ConfigError, match="another user can have written to it"):
        image_module.image()


def test_only_a_file_is_a_disk_of_an_image(built: Path, tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("SECRET")
    (built / "root.ext4").unlink()
    (built / "root.ext4").symlink_to(tmp_path / "id_rsa")
    with pytest.raises(ConfigError, match=r"root\.ext4: not a regular file, so no guest gets it"):
        image_module.image()
