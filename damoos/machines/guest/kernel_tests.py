"""One test of the kernel's own, as KUnit and kselftest report it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelTest:
    """One test: ``ok``, ``not ok`` or ``skip``.

    Parameters
    ----------
    suite, name : str
    state : {"ok", "not ok", "skip"}
    why : str
        Last words of one that did not pass.
    """

    suite: str
    name: str
    state: str
    why: str = ""

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.state:<7} {self.suite}: {self.name}{': ' + self.why if self.why else ''}"
