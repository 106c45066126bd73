"""QEMU's stub for debuggers, spoken to over a pair of sockets of which QEMU inherits one.

References
----------
GDB, Remote Serial Protocol: packets are $TEXT#CHECKSUM, each of them acknowledged by +
"""

from __future__ import annotations

import socket
from types import TracebackType

from damoos.errors import MachineLost

# Of the host's time, for what a kernel does within a second of it. One that never gets there would wait for ever.
_STOPPED_S = 120.0
_MOST_BYTES = 1 << 16


class Debugger:
    """A guest that has not begun yet, to be stopped once on its way."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.settimeout(_STOPPED_S)
        self._read = b""

    def __enter__(self) -> Debugger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for end in (self._ours, self.theirs):
            end.close()

    def options(self) -> tuple[str, ...]:
        """QEMU's options, which must inherit `theirs`; the guest does not begin before `run_to` or `leave`."""
        number = self.theirs.fileno()
        return ("-chardev", f"socket,id=debugger,fd={number}", "-gdb", "chardev:debugger", "-S")

    def handed_over(self) -> None:
        """QEMU has been started and has its end now."""
        self.theirs.close()

    def run_to(self, address: int) -> None:
        """Let the guest run until it is about to execute an instruction.

        Raises
        ------
        MachineLost : it ended before, or did not get there
        """
        self._expect("OK", f"Z1,{address:x},1")
        self._expect("T", "c")
        self._expect("OK", f"z1,{address:x},1")

    def read(self, address: int, nr_bytes: int) -> int:
        """A number in its memory.

        Raises
        ------
        MachineLost : there is no memory at the address, or QEMU is gone
        """
        answer = self._asked(f"m{address:x},{nr_bytes:x}")
        try:
            return int.from_bytes(bytes.fromhex(answer), "little")
        except ValueError:
            raise MachineLost(f"QEMU's debugger stub cannot read address {address:#x}: '{answer}'") from None

    def write(self, address: int, number: int, nr_bytes: int) -> None:
        """Put a number into its memory.

        Raises
        ------
        MachineLost : there is no memory at the address, or QEMU is gone
        """
        self._expect("OK", f"M{address:x},{nr_bytes:x}:{number.to_bytes(nr_bytes, 'little').hex()}")

    def leave(self) -> None:
        """Let the guest run on, without a debugger.

        Raises
        ------
        MachineLost : QEMU is gone
        """
        self._expect("OK", "D")

    def _expect(self, beginning: str, command: str) -> None:
        answer = self._asked(command)
        if not answer.startswith(beginning):
            raise MachineLost(f"QEMU's debugger stub answers '{command}' by '{answer[:80]}'")

    def _asked(self, command: str) -> str:
        try:
            self._ours.sendall(b"$%s#%02x" % (command.encode(), sum(command.encode()) & 0xFF))
            return self._packet()
        except TimeoutError:
            raise MachineLost(f"the guest did not get to '{command}' in {_STOPPED_S:g} s") from None
        except OSError as error:
            raise MachineLost(f"QEMU's debugger stub broke during '{command}': {error}") from None

    def _packet(self) -> str:
        while (end := self._read.find(b"#")) < 0 or len(self._read) < end + 3:
            more = self._ours.recv(4096)
            if not more or len(self._read) > _MOST_BYTES:
                raise MachineLost("QEMU ended, or its debugger stub says what is no answer")
            self._read += more
        packet, self._read = self._read[:end], self._read[end + 3 :]
        self._ours.sendall(b"+")
        return packet.partition(b"$")[2].decode(errors="replace")
