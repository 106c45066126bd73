"""The Senpai of 2019: memory.high is lowered until tasks wait for a set time, and raised from there on.

References
----------
github.com/facebookincubator/senpai, senpai.py
"""

from __future__ import annotations

from pathlib import Path

from damoos.agent.controllers.base import Controller
from damoos.agent.proc import PAGE
from damoos.damon.files import kernel_text

TICK_S = 1.0


class SenpaiHigh(Controller):
    """Each second, the time that tasks have waited is added up. A change of the limit sets the sum to 0.

    Over ``pressure_us`` the limit is multiplied by ``1 + min((sum / pressure / coeff_backoff)^2 * max_backoff,
    max_backoff)``; else, once `grace_s` have passed since the last change, by ``1 - min((pressure / max(sum, 1) /
    coeff_probe)^2 * max_probe, max_probe)``. Where somebody else has changed memory.high, the limit begins anew from
    what is charged.

    Parameters
    ----------
    group : Path
    grace_s : float, seconds
    pressure_us : int, microseconds
    min_bytes, max_bytes : int, bytes
        Bounds of the limit.
    max_probe, max_backoff : float
        Shares by which the limit is lowered, and raised, at most.
    coeff_probe, coeff_backoff : float
    """

    needs = ("memory.current", "memory.high")
    writes = ("memory.high",)
    columns = ("current_bytes", "waited_us", "limit_bytes")

    def __init__(
        self,
        group: Path,
        grace_s: float,
        pressure_us: int,
        min_bytes: int,
        max_bytes: int,
        max_probe: float,
        max_backoff: float,
        coeff_probe: float,
        coeff_backoff: float,
    ) -> None:
        super().__init__(group, TICK_S)
        self._grace_ticks = max(0, round(grace_s / TICK_S) - 1)
        self._pressure_us = pressure_us
        self._bounds = min_bytes, max_bytes
        self._max_probe, self._max_backoff = max_probe, max_backoff
        self._coeff_probe, self._coeff_backoff = coeff_probe, coeff_backoff
        self._limit_bytes = self._total_us = self._waited_us = self._ticks = 0

    @property
    def name(self) -> str:
        """Its name."""
        return "senpai-high"

    def look(self) -> None:
        """Begin from what is charged."""
        self._total_us = self.stalled_us()
        self._restart()

    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Move the limit by the rule."""
        total_us = self.stalled_us()
        if self._written() != self._limit_bytes:
            self._restart()
        self._waited_us, self._total_us = self._waited_us + total_us - self._total_us, total_us
        waited_us = self._waited_us
        if waited_us > self._pressure_us:
            excess = waited_us / self._pressure_us / self._coeff_backoff
            self._move(1 + min(excess * excess * self._max_backoff, self._max_backoff))
        elif self._ticks:
            self._ticks -= 1
        else:
            room = self._pressure_us / max(waited_us, 1) / self._coeff_probe
            self._move(1 - min(room * room * self._max_probe, self._max_probe))
        return self.current_bytes(), waited_us, self._limit_bytes

    def _restart(self) -> None:
        self._limit_bytes = self.current_bytes()
        self._move(1.0)

    def _move(self, factor: float) -> None:
        low, high = self._bounds
        pages = int(min(max(self._limit_bytes * factor, low, self.kept_bytes()), high)) // PAGE
        self._limit_bytes = pages * PAGE  # the kernel counts in pages
        (self.group / "memory.high").write_text(str(self._limit_bytes))
        self._waited_us, self._ticks = 0, self._grace_ticks

    def _written(self) -> int:
        text = kernel_text(self.group / "memory.high").strip()
        return -1 if text == "max" else int(text)
