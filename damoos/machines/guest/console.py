"""What a guest writes to its console, and QEMU to its standard error: read as it arrives, and bounded.

A guest may write as much as it likes. The end of it is kept in memory, and nothing on a disk.
"""

from __future__ import annotations

import os
import threading
import time
from typing import IO

# A boot with all of the kernel's messages and its unit tests writes some 100 KB.
KEPT_BYTES = 256 << 10
# The console is written byte by byte. What comes within this time is read at once, and a guest that writes faster than
# the pipe has room for waits.
_TOGETHER_S = 0.005
_CHUNK_BYTES = 1 << 16
_LAST_BYTES = 1000


class Console:
    """The end of what somebody writes; a thread reads it from a pipe.

    Parameters
    ----------
    text : str
        What was written before.
    kept_bytes : int
        How much of it is kept.
    """

    def __init__(self, text: str = "", kept_bytes: int = KEPT_BYTES) -> None:
        self.nr_bytes = 0
        """How much has been written."""
        self._kept_bytes = kept_bytes
        self._kept = b""
        self._awaited: dict[bytes, bool] = {}
        self._lock = threading.Lock()
        self._reader: threading.Thread | None = None
        self.take(text.encode())

    def follow(self, stream: IO[bytes]) -> None:
        """Read all that comes out of a pipe from now on, in a thread that ends with it and closes it."""
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True, name="console")
        self._reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), _CHUNK_BYTES):
                self.take(data)
                time.sleep(_TOGETHER_S)

    def take(self, data: bytes) -> None:
        """Add what has been written."""
        with self._lock:
            for text in self._awaited:
                self._awaited[text] |= text in self._kept[-len(text) :] + data
            self._kept = (self._kept + data)[-self._kept_bytes :]
            self.nr_bytes += len(data)

    def has_shown(self, text: str) -> bool:
        """Whether a text is in what is kept, or has been written since this was first asked of it."""
        with self._lock:
            words = text.encode()
            return self._awaited.setdefault(words, words in self._kept)

    def text(self) -> str:
        """What is kept."""
        with self._lock:
            return self._kept.decode(errors="replace")

    def last_lines(self, count: int) -> list[str]:
        """The last lines, as an error message quotes them."""
        with self._lock:
            end = self._kept[-_LAST_BYTES:]
        return end.decode(errors="replace").strip("\0 \t\r\n").splitlines()[-count:]

    def wait(self, limit_s: float) -> None:
        """Wait until all has been read that a process wrote which has ended; a child of its may keep the pipe open."""
        if self._reader:
            self._reader.join(limit_s)
