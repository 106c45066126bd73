"""What a command reads and prints over SSH, as streams for an `AgentLink`.

Paramiko's own files of a channel flush themselves when they are collected. Where the collector has come to their buffer
first, that prints a traceback behind damoos's last line. These have nothing to do when they are collected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paramiko import Channel

_CHUNK_BYTES = 64 << 10


class ChannelInput:
    """What a command reads."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def write(self, data: bytes) -> None:
        """Send all of it.

        Raises
        ------
        OSError : the channel is closed
        """
        self._channel.sendall(data)

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """Tell the command that no more comes."""
        self._channel.shutdown_write()


class ChannelOutput:
    """What a command prints, line by line."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pending = bytearray()

    def readline(self, most_bytes: int) -> bytes:
        """The next line, or as much of it as is asked for; what is left at the end; then nothing.

        Raises
        ------
        OSError : nothing came for as long as the channel waits, or the connection has ended
        """
        searched = 0
        while (end := self._pending.find(b"\n", searched) + 1) == 0 and len(self._pending) < most_bytes:
            searched = len(self._pending)
            chunk = self._received()
            if not chunk:
                break
            self._pending += chunk
        end = min(end or len(self._pending), most_bytes)
        line = bytes(self._pending[:end])
        del self._pending[:end]
        return line

    def _received(self) -> bytes:
        from paramiko import SSHException

        try:
            return self._channel.recv(_CHUNK_BYTES)
        except (EOFError, SSHException) as error:  # Paramiko tells the host that it may send more
            raise OSError(f"the connection has ended: {error}") from error

    def close(self) -> None:
        """Nothing is held here: the connection's end ends it."""


def beginning(receive: Callable[[int], bytes], most_bytes: int) -> bytes:
    """How something begins that comes in parts.

    Parameters
    ----------
    receive : callable
        Gives at most so many bytes, and nothing at the end.
    """
    content = bytearray()
    while len(content) < most_bytes and (chunk := receive(most_bytes - len(content))):
        content += chunk
    return bytes(content)
