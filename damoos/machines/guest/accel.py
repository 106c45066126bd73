"""Which accelerator a guest runs on: KVM where a kernel has been seen to boot on it, software emulation elsewhere."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

from pydantic import RootModel

from damoos.common import atomic_file, paths
from damoos.common.json_file import JsonForm
from damoos.errors import ConfigError, MachineLost, UnsupportedError, nearest
from damoos.machines.guest.architecture import Architecture, host
from damoos.machines.guest.image import Image
from damoos.machines.guest.kernels import DEBIAN, Kernel, kernel
from damoos.machines.guest.qemu import Accelerator, QemuProcess

# Of silence. A KVM that cannot run the kernel says so at once; hosts that are virtual themselves take their time.
BOOT_TEST_S = 60.0
BOOT_TEST_OK = "damoos-boot-test-ok"
DEVICE, CPUINFO = Path("/dev/kvm"), Path("/proc/cpuinfo")

KVM = Accelerator("kvm", emulated=False)
TCG = Accelerator("tcg", emulated=True)

_ANSWERS = JsonForm(RootModel[dict[str, bool]], 1 << 20)

ACCELERATORS = {"kvm": KVM, "tcg": TCG}


def choose(
    wanted: str, image: Image, say: Callable[[str], None], architecture: Architecture | None = None
) -> Accelerator:
    """The accelerator for a machine file's word: ``auto``, ``kvm`` or ``tcg``.

    Parameters
    ----------
    architecture : Architecture or None
        The guest's; this host's where it is None.

    Raises
    ------
    UnsupportedError : ``kvm`` was asked for and does not boot a kernel here
    """
    if wanted == "tcg":
        return TCG
    if wanted not in ("auto", "kvm"):
        raise ConfigError(f"unknown accel '{wanted}'{nearest(wanted, ['auto', *ACCELERATORS])}")
    if architecture is not None and architecture != host():
        objection = f"KVM runs only guests of this host's architecture, {host().name}"
    else:
        objection = _access(DEVICE) or ("" if kvm_boots(image, say) else "KVM does not boot a kernel on this host")
    if not objection:
        return KVM
    if wanted == "kvm":
        raise UnsupportedError(f'{objection}; accel = "tcg" runs anywhere')
    say(f"software emulation (TCG) is used: {objection}")
    return TCG


def _access(device: Path) -> str:
    """What keeps this user from using KVM, and what to do about it; empty where nothing does."""
    if device.exists():
        if os.access(device, os.R_OK | os.W_OK):
            return ""
        return f"this user may not open {device}: run 'sudo usermod -aG kvm $USER' and log in again"
    flags = CPUINFO.read_text().split()
    module = "kvm_intel" if "vmx" in flags else "kvm_amd" if "svm" in flags else None
    todo = f"run 'sudo modprobe {module}'" if module else "turn on virtualisation in its firmware, or in its own host"
    return f"this host has no {device}: {todo}"


def kvm_boots(image: Image, say: Callable[[str], None]) -> bool:
    """Whether Debian's kernel boots under KVM here; tried once per guest kernel and host kernel, then remembered."""
    memory = paths.program("guest", "kvm.json")
    boots = kernel(DEBIAN, say)
    key = f"{boots.identity} {platform.release()} {platform.node()}"
    answers: dict[str, bool] = _ANSWERS.read_if_good(memory) or {}
    if key not in answers:
        answers = {**answers, key: _boots(image, boots, say)}
        atomic_file.fill(memory, [json.dumps(answers).encode()], mode=0o644)
    return answers[key]


def _boots(image: Image, boots: Kernel, say: Callable[[str], None]) -> bool:
    guest = QemuProcess(image, boots, KVM, vcpus=1, mem_bytes=256 << 20, extra_cmdline="damoos.boot_test", say=say)
    try:
        guest.wait_for(BOOT_TEST_OK, BOOT_TEST_S)
        return True
    except MachineLost:
        return False
    finally:
        guest.end()
