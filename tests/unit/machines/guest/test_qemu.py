"""What guests are booted with, and what they leave behind; no guest is booted here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from damoos.machines.clock import KEEPS_STEP, Clock
from damoos.machines.guest import place, symbols
from damoos.machines.guest.access_counter import AccessCounter
from damoos.machines.guest.architecture import host
from damoos.machines.guest.console import KEPT_BYTES
from damoos.machines.guest.image import Image
from damoos.machines.guest.kernels import Kernel
from damoos.machines.guest.qemu import Accelerator, QemuProcess, sweep
from damoos.machines.nodes import MemoryNode


def test_what_a_killed_damoos_left_is_swept_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    child = subprocess.Popen(["true"])
    child.wait()
    for name in (f"damoos-guest-{child.pid}-abc", f"damoos-guest-{os.getpid()}-abc", "damoos-guest-x-abc", "other"):
        (tmp_path / name).mkdir()
    sweep()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"damoos-guest-{os.getpid()}-abc", "damoos-guest-x-abc", "other"}


def test_two_that_sweep_at_once_do_not_hinder_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    child = subprocess.Popen(["true"])
    child.wait()
    folder = tmp_path / f"damoos-guest-{child.pid}-abc"
    folder.mkdir()
    exists = Path.exists

    def gone_just_now(path: Path) -> bool:
        """The other one removes the folder when this one has just seen that its process is dead."""
        if str(path) == f"/proc/{child.pid}":
            folder.rmdir()
        return exists(path)

    monkeypatch.setattr(Path, "exists", gone_just_now)
    sweep()
    assert not list(tmp_path.iterdir())


def test_parameters_of_an_emulated_guest_depend_on_its_kernel_and_cpus() -> None:
    tcg, kvm = Accelerator("tcg", emulated=True), Accelerator("kvm", emulated=False)
    fast = Clock(4000, "skip")
    plain = Kernel("debian", Path("a"), "6.12", flush_tlb=False)
    ours = Kernel("damoos", Path("b"), "6.12", flush_tlb=True)
    quick_boot = "initcall_blacklist=trace_eval_init"
    assert tcg.cmdline(plain, KEEPS_STEP, vcpus=2) == f"pti=on {quick_boot}"
    assert tcg.cmdline(plain, KEEPS_STEP, vcpus=1) == f"pti=on {quick_boot} nolapic_timer"
    assert tcg.cmdline(ours, KEEPS_STEP, vcpus=1) == f"damon.flush_tlb=1 pti=off {quick_boot} nolapic_timer"
    of_clock = "nokaslr tsc_early_khz=4000000 no_timer_check pmtmr=0"
    assert tcg.cmdline(plain, fast, vcpus=1) == tcg.cmdline(plain, fast, vcpus=2) == f"pti=on {quick_boot} {of_clock}"
    for clock in (KEEPS_STEP, fast):
        assert kvm.cmdline(plain, clock, vcpus=1) == kvm.cmdline(ours, clock, vcpus=2) == ""
        assert kvm.options(clock) == ("-accel", "kvm")


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of QEMU that writes where it runs, and its arguments; its folder has a comma."""
    folder = tmp_path / "a,b"
    folder.mkdir()
    script = folder / host().qemu
    script.write_text("#!/bin/sh\n{ pwd; ls -A; printf '%s\\n' \"$@\"; } > \"$SAID\"; echo '0000000a T wanted'\n")
    script.chmod(0o755)
    for name in ("root.ext4", "overlay", "bzImage", "busybox"):
        (folder / name).write_text(name)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.setenv(place.OWN, str(tmp_path / "reserved"))
    # As the current folder of another user's: QEMU takes this file for the firmware of its guest.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bios-256k.bin").write_text("planted")
    return folder


def said(tmp_path: Path) -> list[str]:
    return (tmp_path / "said").read_text().splitlines()


def test_qemu_runs_in_a_folder_of_its_own_and_takes_no_firmware_from_the_current_one(
    tmp_path: Path, emulator: Path
) -> None:
    kernel = Kernel("debian", emulator, "6.12", flush_tlb=False)
    accelerator = Accelerator("kvm", emulated=False)
    guest = QemuProcess(Image(emulator), kernel, accelerator, 1, 64 << 20, overlays={"suite": emulator / "overlay"})
    guest._process.wait()
    words = said(tmp_path)
    assert words[0] == str(guest.place)
    assert "bios-256k.bin" not in words
    assert guest.place.stat().st_mode & 0o777 == 0o700
    guest.end()
    doubled = str(emulator).replace(",", ",,")
    for name, how in (("root.ext4", "snapshot"), ("overlay", "readonly")):
        assert f"file={doubled}/{name},if=virtio,format=raw,{how}=on" in words


def test_the_kernel_s_symbols_are_asked_in_a_folder_of_their_own(tmp_path: Path, emulator: Path) -> None:
    kernel = Kernel("debian", emulator, "6.12", flush_tlb=False)
    assert symbols.addresses(kernel, ["wanted"], emulator / "busybox") == {"wanted": 10}
    assert Path(said(tmp_path)[0]).name.startswith("damoos-symbols-")
    assert said(tmp_path)[1] == "initrd"


def test_of_a_kernel_that_writes_without_end_the_last_words_are_kept(
    emulator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = emulator / host().qemu
    script.write_text("#!/bin/sh\nhead -c 20000000 /dev/zero; echo; echo '0000000a T wanted'\n")
    kept: list[str] = []
    said = symbols._said
    monkeypatch.setattr(symbols, "_said", lambda *words: kept.append((told := said(*words))[0]) or told)
    kernel = Kernel("debian", emulator, "6.12", flush_tlb=False)
    assert symbols.addresses(kernel, ["wanted"], emulator / "busybox") == {"wanted": 10}
    assert len(kept[0]) <= KEPT_BYTES


def test_a_comma_in_a_path_does_not_end_it(emulator: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "damoos.machines.guest.access_counter.compiled"
    monkeypatch.setattr(module, lambda *_: emulator / "counter=.so")
    words = AccessCounter((MemoryNode(1 << 20, 1),), 0).options(emulator)
    doubled = str(emulator).replace(",", ",,")
    assert any(f"mem-path={doubled}/access-counts" in word for word in words)
    assert any(word.startswith(f"file={doubled}/counter=.so,shm={doubled}/access-counts,") for word in words)
