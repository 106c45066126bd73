"""The guest's image: who may build it, and the key by which it is known."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from damoos.errors import UnsupportedError
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
