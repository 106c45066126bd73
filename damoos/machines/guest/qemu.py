"""A QEMU process: started, watched on its console, and never left behind.

QEMU is told to die with the thread that started it (prctl PR_SET_PDEATHSIG), so a SIGKILL of damoos takes its guests
along. The thread that opens a guest must therefore live as long as the guest does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from damoos.errors import MachineLost
from damoos.machines.guest.image import Image

BOOT_S = 120.0
# Seen on the console when sshd has its socket; knocking earlier would only meet slow retries of QEMU's user network.
READY = "Server listening on"
_PR_SET_PDEATHSIG = 1
_PREFIX = "damoos-guest-"


@dataclass(frozen=True)
class Accelerator:
    """How the guest's instructions are executed.

    Parameters
    ----------
    name : {"kvm", "tcg"}
    options : tuple of str
        QEMU's.
    cmdline : str
        Kernel parameters that go with it.
    clock : str
        What the guest's time is, for provenance.
    note : str
        What else there is to know, for provenance.
    """

    name: str
    options: tuple[str, ...]
    cmdline: str
    clock: str
    note: str


class QemuProcess:
    """One guest, from start to end.

    Parameters
    ----------
    image : Image
    accelerator : Accelerator
    vcpus : int
    mem_bytes : int
    extra_cmdline : str
        Kernel parameters beyond those of the accelerator.
    """

    def __init__(
        self, image: Image, accelerator: Accelerator, vcpus: int, mem_bytes: int, extra_cmdline: str = ""
    ) -> None:
        sweep()
        self.place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._console = self.place / "console"
        self._console.touch()
        self.port = _free_port()
        cmdline = f"console=ttyS0 quiet panic=-1 tsc=reliable {accelerator.cmdline} {extra_cmdline}"
        argv = [
            "qemu-system-x86_64",
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35"),
            *accelerator.options,
            *("-smp", str(vcpus), "-m", f"size={mem_bytes // (1 << 20)}M"),
            *("-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", cmdline),
            *("-drive", f"file={image.disk},if=virtio,format=raw,snapshot=on"),
            *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"),
            *("-device", "virtio-net-pci,netdev=net,romfile="),
            *("-serial", f"file:{self._console}"),
        ]
        parent = os.getpid()

        def die_with_parent() -> None:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        with open(self.place / "qemu.err", "wb") as err:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                env={**os.environ, "TMPDIR": str(self.place)},
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        """Process id of QEMU."""
        return self._process.pid

    def wait_for(self, text: str, deadline_s: float) -> None:
        """Wait until the console shows a text.

        Raises
        ------
        MachineLost : QEMU ended or the deadline passed; with the tail of the console
        """
        end = time.monotonic() + deadline_s
        while text not in self._console.read_text(errors="replace"):
            if self._process.poll() is not None:
                raise MachineLost(f"QEMU ended with {self._process.returncode} while booting: {self.last_words()}")
            if time.monotonic() > end:
                raise MachineLost(f"the guest did not boot within {deadline_s:g} s: {self.last_words()}")
            time.sleep(0.02)

    def last_words(self) -> str:
        """What QEMU and the guest's console said last, in one line."""
        said = (self.place / "qemu.err").read_text(errors="replace").strip()
        console = self._console.read_text(errors="replace").strip().splitlines()[-3:]
        state = "QEMU is gone" if self._process.poll() is not None else "QEMU runs"
        return " | ".join(part for part in (state, said, *console) if part)

    def end(self) -> None:
        """Kill QEMU, which has nothing to save, and remove what it left."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        shutil.rmtree(self.place, ignore_errors=True)


def sweep() -> None:
    """Remove what guests of a damoos that was killed have left: their consoles; their processes died with it."""
    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = place.name.removeprefix(_PREFIX).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and place.stat().st_uid == os.geteuid():
            shutil.rmtree(place, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
