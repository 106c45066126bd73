"""A guest: a QEMU process on this host that yields an SSH endpoint on loopback, with a real kernel that has DAMON."""

from __future__ import annotations

from collections.abc import Callable

from damoos.machines.base import Machine, Swap, setting_of
from damoos.machines.guest.accel import choose
from damoos.machines.guest.image import check_tools, image
from damoos.machines.guest.qemu import BOOT_S, READY, QemuProcess
from damoos.machines.ssh import SshEndpoint, SshSession


class GuestSession(SshSession):
    """An SSH session to a guest that ends with it."""

    def __init__(self, qemu: QemuProcess, endpoint: SshEndpoint) -> None:
        self.qemu = qemu
        super().__init__(endpoint, why_lost=qemu.last_words)

    def close(self) -> None:
        """End the guest; there is nothing on it to undo, its disk was a throw-away."""
        self.agent.hang_up()
        self.connection.close()
        self.qemu.end()


class GuestMachine(Machine):
    """A guest described by a machine file.

    Parameters
    ----------
    name, description : str
    vcpus : int
    mem_bytes : int
    swap : Swap or None
    thp : str or None
        THP mode.
    accel : {"auto", "kvm", "tcg"}
    """

    drop_caches = True

    def __init__(
        self,
        name: str,
        description: str,
        vcpus: int,
        mem_bytes: int,
        swap: Swap | None = None,
        thp: str | None = None,
        accel: str = "auto",
    ) -> None:
        self.name = name
        self.description = description
        self.setting = setting_of(swap, thp)
        self._vcpus = vcpus
        self._mem_bytes = mem_bytes
        self._accel = accel

    def open(self, say: Callable[[str], None] = lambda _: None) -> GuestSession:
        """Build the image if need be, boot, log in."""
        check_tools()
        built = image(say)
        accelerator = choose(self._accel, built, say)
        qemu = QemuProcess(built, accelerator, self._vcpus, self._mem_bytes, self._cmdline())
        try:
            qemu.wait_for(READY, BOOT_S)
            known_hosts = qemu.place / "known_hosts"
            known_hosts.write_text(built.known_hosts(qemu.port))
            endpoint = SshEndpoint(
                host="127.0.0.1", port=qemu.port, key=str(built.user_key), known_hosts=str(known_hosts)
            )
            session = GuestSession(qemu, endpoint)
        except BaseException:
            qemu.end()
            raise
        session.facts = {
            **session.facts,
            "accel": accelerator.name,
            "clock": accelerator.clock,
            "emulation": accelerator.note,
            "image": built.identity,
        }
        return session

    def _cmdline(self) -> str:
        return "transparent_hugepage=never" if self.setting.get("thp") == "never" else ""
