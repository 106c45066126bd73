"""Proactive reclaim by the multi-generational LRU.

References
----------
Documentation/admin-guide/mm/multigen_lru.rst
"""

from __future__ import annotations

from pathlib import Path

from damoos.agent.controllers.base import Controller
from damoos.damon.files import kernel_lines
from damoos.errors import UnsupportedError

FILE = Path("/sys/kernel/debug/lru_gen")
# The kernel refuses to evict the youngest two: they have not been aged to the end.
YOUNG = 2


class Mglru(Controller):
    """Begins a generation each half of `min_age_s`, and evicts those that are older than that.

    Parameters
    ----------
    group : Path
    min_age_s : float, seconds
    swappiness : int
        Of the eviction.
    file : Path
        The kernel's file; another one in unit tests.
    """

    needs = ("memory.current",)
    columns = ("current_bytes", "nr_generations", "nr_evicted")

    def __init__(self, group: Path, min_age_s: float, swappiness: int, file: Path = FILE) -> None:
        super().__init__(group, min_age_s / 2)
        self._min_age_ms = min_age_s * 1000
        self._swappiness = swappiness
        self._file = file

    def check(self) -> None:
        """Whether the kernel has it."""
        super().check()
        if not self._file.exists():
            raise UnsupportedError(
                f"mglru needs {self._file}: a kernel with CONFIG_LRU_GEN (since Linux 6.1), and debugfs mounted"
            )

    def look(self) -> None:
        """Nothing has to be known of before."""

    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Evict, and begin a generation."""
        evicted, seen = 0, 0
        for memcg, node, ages in self._generations():
            seen = max(seen, len(ages))
            newest = max(ages)
            old = [number for number, age_ms in ages.items() if age_ms >= self._min_age_ms and number <= newest - YOUNG]
            if old and self.spare_bytes():
                self._command(f"- {memcg} {node} {max(old)} {self._swappiness}")
                evicted += len(old)
            self._command(f"+ {memcg} {node} {newest}")
        return self.current_bytes(), seen, evicted

    def _generations(self) -> list[tuple[int, int, dict[int, int]]]:
        """The group's number and each node's, and the age in milliseconds of each generation there."""
        path = "/" + str(self.group).removeprefix("/sys/fs/cgroup").lstrip("/")
        found: list[tuple[int, int, dict[int, int]]] = []
        memcg = None
        for words in (line.split(maxsplit=2) for line in kernel_lines(self._file)):  # a path may have blanks
            if words[0] == "memcg":
                memcg = int(words[1]) if (words[2] if len(words) > 2 else "/") == path else None
            elif memcg is not None and words[0] == "node":
                found.append((memcg, int(words[1]), {}))
            elif memcg is not None:
                found[-1][2][int(words[0])] = int(words[1])
        return [entry for entry in found if entry[2]]

    def _command(self, text: str) -> None:
        try:
            self._file.write_text(text + "\n")
        except OSError:
            pass  # EINVAL, EAGAIN: the generations have moved on since they were read, or none is left to evict
