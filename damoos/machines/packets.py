"""What a host may send over SSH: no packet that is too large, and no more of a channel than it was asked for.

This file imports Paramiko, and is imported late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from paramiko import Channel, Message, SSHException, Transport
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA
from paramiko.packet import Packetizer

# RFC 4253, 6.1 has every program take 35 000 bytes. Paramiko asks hosts for no more than 32 KiB of a channel at a time.
MOST_BYTES = 256 << 10


class BoundedPacketizer(Packetizer):
    """Reads packets, also from a host that has not shown its key yet: it says how long each is.

    Attributes
    ----------
    refused : str
        Why the connection ended, if the host has sent what it may not; Paramiko tells no channel of it.
    """

    refused = ""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read that many bytes of a packet.

        Raises
        ------
        SSHException : no packet has so many
        """
        if n > MOST_BYTES:
            raise self.refusal(f"the host sent an SSH packet of {n} bytes, and {MOST_BYTES} are allowed")
        return super().read_all(n, check_rekey)

    def refusal(self, why: str) -> SSHException:
        """What ends the connection when it is raised in Paramiko's thread."""
        self.refused = why
        return SSHException(why)


def _bounded(feed: Callable[[Channel, Message], object]) -> Callable[[Channel, Message], None]:
    """Have a channel hold what its window lets a host send, and a packet more, of output and error output together.

    Paramiko tells the host of its window (RFC 4254, 5.2), and keeps whatever comes.
    """

    def take(channel: Channel, message: Message) -> None:
        feed(channel, message)
        unread_bytes = len(channel.in_buffer) + len(channel.in_stderr_buffer)
        most_bytes = channel.in_window_size + channel.in_max_packet_size
        if unread_bytes > most_bytes:
            packetizer = channel.get_transport().packetizer
            assert isinstance(packetizer, BoundedPacketizer)
            raise packetizer.refusal(
                f"the host sent {unread_bytes} bytes over an SSH channel that nobody has read, and {most_bytes} are"
                " allowed"
            )

    return take


class BoundedTransport(Transport):
    """Carries channels that hold no more than they have room for, each of them, whatever it is opened for."""

    # Paramiko has no other place to look at what comes for a channel before it is kept.
    _handlers: ClassVar[dict[int, Callable[..., Any]]] = getattr(Transport, "_channel_handler_table")  # noqa: B009
    _channel_handler_table: ClassVar = {
        **_handlers,
        MSG_CHANNEL_DATA: _bounded(_handlers[MSG_CHANNEL_DATA]),
        MSG_CHANNEL_EXTENDED_DATA: _bounded(_handlers[MSG_CHANNEL_EXTENDED_DATA]),
    }


def refusal(transport: Transport | None) -> str:
    """Why a connection ended, if that was for what the host may not send; else empty."""
    return str(getattr(getattr(transport, "packetizer", None), "refused", ""))
