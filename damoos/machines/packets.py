"""Packets of SSH, of which none is larger than a host may send. This file imports Paramiko, and is imported late."""

from __future__ import annotations

from paramiko import SSHException, Transport
from paramiko.packet import Packetizer

# RFC 4253, 6.1 has every program take 35 000 bytes. Paramiko asks hosts for no more than 32 KiB of a channel at a time.
MOST_BYTES = 256 << 10


class BoundedPacketizer(Packetizer):
    """Reads packets, also from a host that has not shown its key yet: it says how long each is.

    Attributes
    ----------
    refused : str
        Why the connection ended, if the host has sent a packet that is too large; Paramiko tells no channel of it.
    """

    refused = ""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read that many bytes of a packet.

        Raises
        ------
        SSHException : no packet has so many
        """
        if n > MOST_BYTES:
            self.refused = f"the host sent an SSH packet of {n} bytes, and {MOST_BYTES} are allowed"
            raise SSHException(self.refused)
        return super().read_all(n, check_rekey)


def refusal(transport: Transport | None) -> str:
    """Why a connection ended, if that was for a packet that is too large; else empty."""
    # Transport keeps its packetizer where its type stubs do not tell of it.
    return str(getattr(getattr(transport, "packetizer", None), "refused", ""))
