"""That the work under way shall end: its controller is gone, or has cancelled it."""

from __future__ import annotations

import contextlib
import os
import threading


class Interruption:
    """Set in one thread and looked at in another, which can also wait for it with poll(2)."""

    def __init__(self) -> None:
        self._lost, self._cancelled = threading.Event(), threading.Event()
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)

    def __call__(self) -> bool:
        """Whether the work shall end."""
        return self._lost.is_set() or self._cancelled.is_set()

    def lose(self) -> None:
        """The controller is gone, for good."""
        self._lost.set()
        self._wake()

    def cancel(self) -> None:
        """The controller has cancelled the call under way."""
        self._cancelled.set()
        self._wake()

    def begin(self) -> None:
        """Another call has come, which nobody has cancelled."""
        self._cancelled.clear()

    def fileno(self) -> int:
        """What is ready to be read once it is set; `seen` takes that away."""
        return self._reader

    def seen(self) -> None:
        """Have it ready no longer."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 1 << 10)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: it is ready anyway
            os.write(self._writer, b"!")
