"""QEMU's monitor, spoken to over a pair of sockets of which QEMU inherits one.

References
----------
QEMU, docs/interop/qmp-spec: commands and answers are lines of JSON, with events between them
QEMU, migration/migration.c: migration_iteration_finish
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any

from damoos.errors import MachineLost

_POLL_S = 0.01
_MIGRATED = ("completed", "failed", "cancelled")


class Monitor:
    """One QEMU's monitor."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._lines: Any = None

    def options(self) -> tuple[str, ...]:
        """QEMU's options, which must inherit `theirs`."""
        number = self.theirs.fileno()
        return ("-chardev", f"socket,id=monitor,fd={number}", "-mon", "chardev=monitor,mode=control")

    def handed_over(self) -> None:
        """QEMU has been started and has its end now."""
        self.theirs.close()
        self._lines = self._ours.makefile("rwb")

    def __call__(self, command: str, **arguments: Any) -> Any:
        """Give a command and wait for its answer.

        Raises
        ------
        MachineLost : QEMU is gone, or refuses it
        """
        try:
            if not self._lines.readable():
                raise MachineLost("QEMU's monitor is closed")
            self._lines.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
            self._lines.flush()
            while line := self._lines.readline():
                message = json.loads(line)
                if "error" in message:
                    raise MachineLost(f"QEMU refuses '{command}': {message['error'].get('desc', '')}")
                if "return" in message:
                    return message["return"]
        except (OSError, ValueError) as error:
            raise MachineLost(f"QEMU's monitor broke during '{command}': {error}") from None
        raise MachineLost(f"QEMU ended during '{command}'")

    def greet(self) -> None:
        """Begin the talk; QEMU takes no other command before this one.

        Raises
        ------
        MachineLost : QEMU is gone
        """
        self("qmp_capabilities")

    def go_on(self) -> None:
        """Have a guest that is brought back from a snapshot, where it is stopped, run.

        Raises
        ------
        MachineLost : QEMU could not bring it back, and has ended
        """
        self._go_on_after("inmigrate")

    def _go_on_after(self, state: str) -> None:
        """Have the guest run once QEMU has left one of its states."""
        while self("query-status")["status"] == state:
            time.sleep(_POLL_S)
        self("cont")

    def save(self, to: str) -> None:
        """Stop the guest, write all of its state to where QEMU's migration is told, and let it go on.

        Raises
        ------
        MachineLost : QEMU is gone, or could not write it
        """
        self("stop")
        try:
            self("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            self("migrate", uri=to)
            while (status := self("query-migrate").get("status")) not in _MIGRATED:
                time.sleep(_POLL_S)
        finally:
            # QEMU may say "completed" while the state is still "finish-migrate" (seen once in 3600 saves of 7.2).
            # By its source it then sets a last state, which would undo a "cont" that came before; that was not seen.
            self._go_on_after("finish-migrate")
        if status != "completed":
            raise MachineLost(f"QEMU could not write the state of the guest: {status}")

    def close(self) -> None:
        """Let go of it."""
        if self._lines:
            with contextlib.suppress(OSError):
                self._lines.close()
        for end in (self._ours, self.theirs):
            end.close()
