"""Limits of a cgroup's memory, as TOML files have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from damoos.common.toml_file import Table
from damoos.model.quantities import Size
from damoos.units import parse_bytes


class MemoryLimits(Table):
    """Limits of the memory of one cgroup; what is left out is not limited.

    Parameters
    ----------
    memory_max, memory_high, swap_max : str, size
        memory.max, memory.high and memory.swap.max.
    """

    memory_max: Size | None = None
    memory_high: Size | None = None
    swap_max: Size | None = None

    files: ClassVar[Mapping[str, str]] = {
        "memory_max": "memory.max",
        "memory_high": "memory.high",
        "swap_max": "memory.swap.max",
    }
    """Files of the cgroup, by the keys that say what is written to them."""

    @property
    def memory_limits(self) -> dict[str, int]:
        """The limits that are set, in bytes, by the names of their files."""
        words = {file: getattr(self, key) for key, file in self.files.items()}
        return {file: parse_bytes(size) for file, size in words.items() if size is not None}
