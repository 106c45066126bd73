"""The choice between KVM and emulation; no guest is booted here."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.errors import ConfigError, MachineError, UnsupportedError
from damoos.machines.guest import accel, features, symbols
from damoos.machines.guest.image import Image
from damoos.machines.guest.kernels import Kernel


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    (tmp_path / "guest").mkdir()
    monkeypatch.setattr(accel, "DEVICE", tmp_path / "kvm")
    (tmp_path / "kvm").touch()
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


@pytest.mark.parametrize(
    ("flags", "todo"),
    [("fpu vmx", "sudo modprobe kvm_intel"), ("svm npt", "sudo modprobe kvm_amd"), ("fpu", "turn on virtualisation")],
)
def test_a_host_without_the_device_is_told_what_to_do(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, todo: str
) -> None:
    (tmp_path / "kvm").unlink()
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr(accel, "CPUINFO", tmp_path / "cpuinfo")
    said: list[str] = []
    assert accel.choose("auto", image, said.append) is accel.TCG
    assert todo in said[0]
    with pytest.raises(UnsupportedError, match=f"has no .*kvm: .*{todo}"):
        accel.choose("kvm", image, print)


def test_a_user_without_permission_is_told_what_to_do(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel.os, "access", lambda path, mode: False)
    with pytest.raises(UnsupportedError, match=r"may not open .*kvm: run 'sudo usermod -aG kvm \$USER'"):
        accel.choose("kvm", image, print)


NO_JSON = pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b"[[1, 2, 3]]", b"5", b'{"agent": 5}', b"\xff", b"9" * 5000, b"[" + b"{}," * 500_000 + b"{}]"],
    ids=["deep", "list", "number", "types", "bytes", "digits", "many"],
)


@NO_JSON
@pytest.mark.slow
def test_what_the_cache_has_of_a_kernel_is_asked_anew_where_it_is_damaged(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    def boots(*words: object, **more: object) -> None:
        raise MachineError("it is asked")

    debian = Kernel("debian", tmp_path, "6.12.0", flush_tlb=False)
    monkeypatch.setattr(accel, "_boots", lambda built, kernel, say: True)
    monkeypatch.setattr(features, "GuestMachine", boots)
    monkeypatch.setattr(symbols, "_asked", boots)
    for name in ("guest/kvm.json", "features.json", "symbols.json"):
        (tmp_path / name).write_bytes(content)
    assert accel.choose("auto", image, print).name == "kvm"
    assert accel.choose("auto", image, print).name == "kvm"
    with pytest.raises(MachineError, match="it is asked"):
        features._features(debian, print)
    with pytest.raises(MachineError, match="it is asked"):
        symbols.addresses(debian, ["wanted"], tmp_path)
