"""What guests are booted with, and what they leave behind; no guest is booted here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from damoos.machines.clock import KEEPS_STEP, Clock
from damoos.machines.guest.kernels import Kernel
from damoos.machines.guest.qemu import Accelerator, sweep


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
