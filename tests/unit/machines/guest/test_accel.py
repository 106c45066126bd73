"""The choice between KVM and emulation; no guest is booted here."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.errors import ConfigError, UnsupportedError
from damoos.machines.guest import accel
from damoos.machines.guest.image import Image
from damoos.machines.guest.kernels import Kernel


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
