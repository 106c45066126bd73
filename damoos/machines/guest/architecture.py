"""The CPUs that guests can have: what differs between them for packages, kernels and QEMU."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from damoos.errors import ConfigError, nearest


@dataclass(frozen=True)
class Architecture:
    """One kind of CPU.

    Parameters
    ----------
    name : str
        As Debian spells it.
    machine : str
        As ``uname -m`` and QEMU spell it.
    qemu_package : str
        Debian's, with the emulator.
    board : tuple of str
        QEMU's options for the machine.
    tcg_cpu : str
        The CPU under software emulation.
    console : str
        The kernel's name of the first serial port.
    cmdline : tuple of str
        Kernel parameters of every guest.
    isolation : str
        Kernel parameter that gives user space page tables of its own. Each return to it then empties QEMU's TLB, so
        that an access after DAMON has cleared a page's accessed bit sets it again, as on hardware.
    lone_cpu : tuple of str
        Kernel parameters of an emulated guest with one CPU.
    """

    name: str
    machine: str
    qemu_package: str
    board: tuple[str, ...]
    tcg_cpu: str
    console: str
    cmdline: tuple[str, ...]
    isolation: str
    lone_cpu: tuple[str, ...] = ()

    @property
    def qemu(self) -> str:
        """The emulator's program."""
        return f"qemu-system-{self.machine}"


AMD64 = Architecture(
    name="amd64",
    machine="x86_64",
    qemu_package="qemu-system-x86",
    # The firmware would wait for SATA disks, of which there are none.
    board=("-machine", "q35,sata=off"),
    # Without "enhanced rep movsb" (erms), which QEMU executes byte by byte, a kernel clears and copies pages by
    # 8 bytes an instruction.
    tcg_cpu="max,-erms",
    console="ttyS0",
    cmdline=("tsc=reliable",),
    isolation="pti=on",
    # Measuring the clock of the local APIC's timer takes 3 s of a host's CPU at each boot. Guests with several CPUs
    # need that timer.
    lone_cpu=("nolapic_timer",),
)
ARM64 = Architecture(
    name="arm64",
    machine="aarch64",
    qemu_package="qemu-system-arm",
    board=("-machine", "virt"),
    # Computing pointer authentication as the architecture says costs half of all time under emulation.
    tcg_cpu="max,pauth-impdef=on",
    console="ttyAMA0",
    cmdline=(),
    isolation="kpti=on",
)
ALL = {one.name: one for one in (AMD64, ARM64)}


def host() -> Architecture:
    """Architecture of this host; amd64 on a host of a third kind, which can emulate it."""
    return next((one for one in ALL.values() if one.machine == platform.machine()), AMD64)


def split(kernel: str) -> tuple[str, Architecture]:
    """Name and architecture of a kernel's ``NAME:ARCHITECTURE``; this host's where none is named.

    Raises
    ------
    ConfigError : no such architecture
    """
    name, colon, word = kernel.partition(":")
    if not colon:
        return kernel, host()
    if word not in ALL:
        raise ConfigError(f"kernel '{kernel}': unknown architecture '{word}'{nearest(word, ALL)}")
    return name, ALL[word]
