"""TMO's Senpai: reclaim a little, as long as nobody waits for memory.

References
----------
Weiner et al., "TMO: Transparent Memory Offloading in Datacenters" (ASPLOS'22), sections 3.3 (the rule and its values)
and 4.5 (writes to an SSD)
"""

from __future__ import annotations

from pathlib import Path

from damoos.agent.controllers.base import Controller
from damoos.agent.swap import written_bytes


class Senpai(Controller):
    """Each period: ``current * ratio * max(0, 1 - some / pressure)``, at most ``most`` of what is charged.

    The same test is made on IO pressure, and the smaller result counts. Where writes to swap are limited, a third test
    of the same form is made on their rate; the paper says that they are regulated, and not how.

    Parameters
    ----------
    group : Path
    interval_s : float, seconds
    ratio : float
        Share of what is charged that is reclaimed in a period in which nobody waits.
    pressure, io_pressure : float
        Share of the time, 0 to 1, in which some task waits for memory, or for IO, from which on nothing is reclaimed.
    most : float
        Share of what is charged that is reclaimed in a period at most.
    swap_write_bytes_per_s : float, bytes a second
        Rate of writes to swap from which on nothing is reclaimed; 0 for no limit.
    """

    columns = ("current_bytes", "some", "io_some", "asked_bytes")

    def __init__(
        self,
        group: Path,
        interval_s: float,
        ratio: float,
        pressure: float,
        io_pressure: float,
        most: float,
        swap_write_bytes_per_s: float,
    ) -> None:
        super().__init__(group, interval_s)
        self._ratio = ratio
        self._pressure = pressure
        self._io_pressure = io_pressure
        self._swap_write_bytes_per_s = swap_write_bytes_per_s
        self._most = most
        self._seen = (0, 0, 0)

    def look(self) -> None:
        """Take note of the pressure, and of what has been written, so far."""
        self._seen = (self.stalled_us(), self.stalled_us("io"), written_bytes())

    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Reclaim by the rule."""
        memory_us, io_us, written_bytes_before = self._seen
        self.look()
        some = (self._seen[0] - memory_us) / 1e6 / elapsed_s
        io_some = (self._seen[1] - io_us) / 1e6 / elapsed_s
        room = min(1 - some / self._pressure, 1 - io_some / self._io_pressure)
        if self._swap_write_bytes_per_s:
            rate = (self._seen[2] - written_bytes_before) / elapsed_s
            room = min(room, 1 - rate / self._swap_write_bytes_per_s)
        current = self.current_bytes()
        asked = self.reclaim(int(current * min(self._ratio * max(0.0, room), self._most)))
        return current, some, io_some, asked
