"""The Senpai plug-in of oomd: a share of what can be reclaimed, each interval in which nobody waits.

References
----------
github.com/facebookincubator/oomd, src/oomd/plugins/Senpai.cpp, the mode ``immediate_backoff``
"""

from __future__ import annotations

from pathlib import Path

from damoos.agent import memcg, proc
from damoos.agent.controllers.base import Controller
from damoos.agent.swap import written_bytes
from damoos.damon.files import kernel_text
from damoos.errors import UnsupportedError


class Oomd(Controller):
    """Reclaims ``(current - limit_min) * max_probe`` where the averages of pressure are below their thresholds.

    ``limit_min`` is `min_bytes` and what cannot be reclaimed, at least memory.min. What can be reclaimed is the group's
    files, and as much of its other memory as there is room for on swap.

    Parameters
    ----------
    group : Path
    interval_s : float, seconds
    min_bytes : int, bytes
    pressure, io_pressure : float
        Shares of the time, 0 to 1; the higher one of avg10 and avg60 is compared.
    max_probe : float
        Share that is reclaimed at a time.
    modulates : bool
        Whether swappiness falls as swap fills, and as more is swapped out.
    swap_threshold : float
        Share of swap in use at which nothing is swapped out.
    swapout_bytes_per_s : float, bytes a second
        Rate of swap-out at which nothing is swapped out.
    """

    columns = ("current_bytes", "pressure", "io_pressure", "limit_min_bytes", "swappiness", "asked_bytes")

    def __init__(
        self,
        group: Path,
        interval_s: float,
        min_bytes: int,
        pressure: float,
        io_pressure: float,
        max_probe: float,
        modulates: bool,
        swap_threshold: float,
        swapout_bytes_per_s: float,
    ) -> None:
        super().__init__(group, interval_s)
        self._min_bytes = min_bytes
        self._pressure, self._io_pressure = pressure, io_pressure
        self._max_probe = max_probe
        self._modulates = modulates
        self._swap_threshold = swap_threshold
        self._swapout_bytes_per_s = swapout_bytes_per_s
        self._written_bytes = 0

    def check(self) -> None:
        """Also whether memory.reclaim takes a swappiness, if that is needed."""
        super().check()
        if self._modulates:
            try:
                (self.group / "memory.reclaim").write_text("0 swappiness=60")
            except OSError:
                raise UnsupportedError(
                    "oomd:modulate_swappiness=on needs a memory.reclaim that takes swappiness (since Linux 6.9)"
                ) from None

    def look(self) -> None:
        """Take note of what was written so far."""
        self._written_bytes = written_bytes()

    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Reclaim by the rule."""
        before = self._written_bytes
        self.look()
        rate = (self._written_bytes - before) / elapsed_s
        some, io_some = (self._average(kind) for kind in ("memory", "io"))
        current, limit_min = self.current_bytes(), self._limit_min()
        swappiness = self._swappiness(rate) if self._modulates else None
        asked = 0
        if some < self._pressure and io_some < self._io_pressure:
            asked = self.reclaim(max(0, int((current - limit_min) * self._max_probe)), swappiness)
        return current, some, io_some, limit_min, -1 if swappiness is None else swappiness, asked

    def _average(self, kind: str) -> float:
        averages = proc.pressure_averages(self.group / f"{kind}.pressure")
        return max(averages.get("avg10", 0.0), averages.get("avg60", 0.0))

    def _limit_min(self) -> int:
        stat = memcg.numbers(self.group / "memory.stat")
        reclaimable = stat.get("file", 0) + min(stat.get("anon", 0), self.swap_room_bytes())
        protected = memcg.number(self.group / "memory.min")
        unreclaimable = max(0, self.current_bytes() - reclaimable)
        return max(self._min_bytes + unreclaimable, int(protected) if protected == protected else 0)

    def _swappiness(self, swapout_bytes_per_s: float) -> int:
        """The machine's, times what swap's use and the rate leave of it."""
        memory = proc.meminfo()
        total = memory.get("SwapTotal", 0)
        used = 1 - memory.get("SwapFree", 0) / total if total else 1.0
        factors = 1 - swapout_bytes_per_s / self._swapout_bytes_per_s, 1 - used / self._swap_threshold
        machine = int(kernel_text(Path("/proc/sys/vm/swappiness")))
        return int(machine * max(0.0, min(factors)))
