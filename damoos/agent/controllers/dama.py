"""A min_age of DAMON_RECLAIM that follows memory pressure.

References
----------
dama, RFC on linux-mm, 2026-06-28: that min_age begins at 10 s and follows pressure. Its steps were not read; these are
those of TCP: doubled under pressure, a tenth less without.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from damoos.agent.controllers.base import Controller

RISE, FALL = 2.0, 0.9


class Dama(Controller):
    """Doubles min_age where tasks have waited for more than a share of the interval; else lowers it by a tenth.

    Parameters
    ----------
    group : Path
    interval_s : float, seconds
    pressure : float
        Share of the time, 0 to 1.
    start_s, min_age_s, max_age_s : float, seconds
    """

    needs = ("memory.current",)
    columns = ("current_bytes", "some", "min_age_s")

    def __init__(
        self, group: Path, interval_s: float, pressure: float, start_s: float, min_age_s: float, max_age_s: float
    ) -> None:
        super().__init__(group, interval_s)
        self._pressure = pressure
        self._age_s, self._bounds = start_s, (min_age_s, max_age_s)
        self._waited_us = 0

    def look(self) -> None:
        """Take note of the pressure so far."""
        self._waited_us = self.stalled_us()

    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Move min_age by the rule."""
        before = self._waited_us
        self.look()
        some = (self._waited_us - before) / 1e6 / elapsed_s
        low, high = self._bounds
        age_s = min(max(self._age_s * (RISE if some > self._pressure else FALL), low), high)
        if age_s != self._age_s:
            self._age_s = age_s
            context = self.scheme.context
            assert context.module
            parameters = {**context.module.parameters, "min_age": int(age_s * 1e6)}
            self.scheme.commit(replace(context, module=replace(context.module, parameters=parameters)))
        return self.current_bytes(), some, age_s
