"""Parts of the guest machine that need no guest."""

from __future__ import annotations

import importlib
import os
import subprocess
from pathlib import Path

import pytest

from damoos.errors import ConfigError, UnsupportedError
from damoos.machines.guest import accel
from damoos.machines.guest.image import Image
from damoos.machines.guest.kernels import Kernel
from damoos.machines.guest.qemu import sweep

image_module = importlib.import_module("damoos.machines.guest.image")  # its function hides it


def test_what_a_killed_damoos_left_is_swept_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    child = subprocess.Popen(["true"])
    child.wait()
    for name in (f"damoos-guest-{child.pid}-abc", f"damoos-guest-{os.getpid()}-abc", "damoos-guest-x-abc", "other"):
        (tmp_path / name).mkdir()
    sweep()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"damoos-guest-{os.getpid()}-abc", "damoos-guest-x-abc", "other"}


def test_where_user_namespaces_are_forbidden_root_builds_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "_NAMESPACE", ("sh", "-c", "echo Operation not permitted >&2; exit 1"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert image_module._as_root() == ()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnsupportedError, match=r"forbids \(Operation not permitted\); allow them .* as root"):
        image_module._as_root()


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    (tmp_path / "guest").mkdir()
    monkeypatch.setattr(accel.os, "access", lambda path, mode: True)
    debian = Kernel("debian", Path("6.12.0-abc"), "6.12.0", flush_tlb=False)
    monkeypatch.setattr(accel, "kernel", lambda name, say: debian)
    return Image(tmp_path / "guest/image")


@pytest.mark.parametrize(("boots", "chosen"), [(True, "kvm"), (False, "tcg")])
def test_kvm_is_trusted_only_after_a_boot_and_the_answer_is_kept(
    image: Image, monkeypatch: pytest.MonkeyPatch, boots: bool, chosen: str
) -> None:
    asked: list[Image] = []
    monkeypatch.setattr(accel, "_boots", lambda built, kernel, say: asked.append(built) or boots)
    said: list[str] = []
    assert [accel.choose("auto", image, said.append).name for _ in range(3)] == [chosen] * 3
    assert len(asked) == 1
    assert bool(said) == (not boots)


def test_kvm_that_was_asked_for_is_not_replaced_in_silence(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "_boots", lambda built, kernel, say: False)
    with pytest.raises(UnsupportedError, match="KVM does not boot a kernel on this host"):
        accel.choose("kvm", image, print)
    with pytest.raises(ConfigError, match="did you mean 'tcg'"):
        accel.choose("tgc", image, print)


def test_the_host_key_is_pinned_to_the_forwarded_port(tmp_path: Path) -> None:
    (tmp_path / "host_key.pub").write_text("ssh-ed25519 AAAA damoos\n")
    assert Image(tmp_path).known_hosts(2222) == "[127.0.0.1]:2222 ssh-ed25519 AAAA\n"
