"""What is done when a machine fails: the same job again after a while, or no more of it; by error class, counted."""

from __future__ import annotations

from damoos.errors import MachineBusy, MachineError, MachineTransientError
from damoos.machines.base import DEAD_MAN_S

# A machine that fails so often in a row is given up.
STRIKES = 3
BACKOFF_S = 1.0


class Strikes:
    """Failures in a row of one machine."""

    def __init__(self) -> None:
        self._count = 0
        self._was_lost = False

    def success(self) -> None:
        """It did a job: all is forgotten."""
        self._count, self._was_lost = 0, False

    def failure(self, error: MachineError) -> float | None:
        """Seconds after which the job should be tried again; None if it should not, as trying cannot help.

        A machine that was lost with our agent on it may say that it is busy, with that very agent, until the dead-man
        timer has ended it.
        """
        self._count += 1
        transient = isinstance(error, MachineTransientError)
        left_over = isinstance(error, MachineBusy) and self._was_lost
        self._was_lost = self._was_lost or transient
        if self.out or not (transient or left_over):
            return None
        return DEAD_MAN_S if left_over else BACKOFF_S * 2 ** (self._count - 1)

    @property
    def out(self) -> bool:
        """Whether the machine is to be given up."""
        return self._count >= STRIKES
