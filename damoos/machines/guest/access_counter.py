"""The plugin of QEMU's emulator that counts a guest's accesses by memory node, and how the guest gets at the counts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damoos.common import host_programs
from damoos.common.compiled import LIBRARY_FLAGS, compiled
from damoos.errors import UnsupportedError
from damoos.machines.guest import qemu_options
from damoos.machines.guest.architecture import AMD64, Architecture
from damoos.machines.nodes import MemoryNode
from damoos.model.metrics import TIER_METRICS

SOURCE = Path(__file__).parent / "plugin/access_counter.c"
QEMU = 7  # later ones tell the plugin other addresses
_PAGE = 4096
_HEAD_BYTES = 1 << 20
_BYTES_OF_A_PAGE = 4
# QEMU's q35 puts memory beyond this at 4 GiB; of a guest with more than that below, 2 GiB stay.
_LOW_MEMORY, _LOW_MEMORY_OF_LARGE, _HIGH_MEMORY = 0xB0000000, 0x80000000, 4 << 30


@dataclass(frozen=True)
class AccessCounter:
    """What is counted of one guest.

    Parameters
    ----------
    nodes : tuple of MemoryNode
        All of the guest's.
    cache_bytes : int
        Of the cache that is modelled for each virtual CPU; 0 for none, so that each access reaches memory.
    """

    nodes: tuple[MemoryNode, ...]
    cache_bytes: int

    @property
    def sz_bytes(self) -> int:
        """Size of the memory that has the counts: a power of two, as that of a PCI device is."""
        pages = (_HIGH_MEMORY + sum(node.sz_bytes for node in self.nodes)) // _PAGE if self._is_large else self._pages
        least = _HEAD_BYTES + pages * _BYTES_OF_A_PAGE
        return 1 << (least - 1).bit_length()

    @property
    def _pages(self) -> int:
        return sum(node.sz_bytes for node in self.nodes) // _PAGE

    @property
    def _is_large(self) -> bool:
        return self._pages * _PAGE >= _LOW_MEMORY

    @staticmethod
    def check(architecture: Architecture) -> None:
        """Refuse an emulator whose addresses would be taken for others.

        Raises
        ------
        UnsupportedError : the guest is none of amd64, or QEMU has another version than the one that was tried
        """
        if architecture != AMD64:
            raise UnsupportedError(f"accesses are counted in guests of amd64 only, and this is {architecture.name}")
        told = host_programs.run([architecture.qemu, "--version"]).stdout
        version = re.search(r"version (\d+)\.", told)
        if version is None or int(version[1]) != QEMU:
            raise UnsupportedError(
                f"accesses are counted with QEMU {QEMU} only, and this is '{told.partition(chr(10))[0].strip()}';"
                " leave count_accesses out"
            )

    def options(self, place: Path) -> tuple[str, ...]:
        """Options of QEMU's; makes the file with the counts in a folder that lives as long as the guest.

        Raises
        ------
        UnsupportedError : there is no C compiler
        """
        counts, plugin = place / "access-counts", compiled(SOURCE, LIBRARY_FLAGS)
        shared = qemu_options.value(counts)
        with open(counts, "wb") as file:
            file.truncate(self.sz_bytes)
        words = [f"shm={shared}", f"bytes={self.sz_bytes}", f"cache={self.cache_bytes}", *self._ranges()]
        return (
            *self._memory_first(),
            "-object", f"memory-backend-file,id=counts,size={self.sz_bytes},share=on,mem-path={shared}",
            "-device", "ivshmem-plain,memdev=counts",
            "-plugin", ",".join([f"file={qemu_options.value(plugin)}", *words]),
        )  # fmt: skip

    def _memory_first(self) -> tuple[str, ...]:
        """Make the memory of a guest that is one node before the counts, as memory of several nodes is.

        The plugin is told offsets in all memory of the emulator, in the order in which it was made.
        """
        if len(self.nodes) > 1:
            return ()
        (only,) = self.nodes
        return (
            "-object", f"memory-backend-ram,id=memory,size={only.sz_bytes >> 20}M",
            "-machine", "memory-backend=memory",
        )  # fmt: skip

    def _ranges(self) -> list[str]:
        """Where each node's memory lies, as the plugin is told."""
        low = _LOW_MEMORY_OF_LARGE if self._is_large else _LOW_MEMORY
        ranges, start = [], 0
        for number, node in enumerate(self.nodes):
            end = start + node.sz_bytes
            for first, last, moved in ((start, min(end, low), 0), (max(start, low), end, _HIGH_MEMORY - low)):
                if first < last:
                    # QEMU 7.2 tells the offset of a node's memory twice: as that of the memory and that of its region.
                    ranges.append(f"range={first + start:#x}:{last + start:#x}:{number}:{(first + moved) // _PAGE}")
            start = end
        return ranges

    @property
    def metrics(self) -> list[str]:
        """What runs report because of it."""
        counted = [f"{what}_n{node}" for what in ("accesses", "misses") for node in range(len(self.nodes))]
        return counted + ([*TIER_METRICS] if all(node.latency_ns is not None for node in self.nodes) else [])

    def facts(self) -> dict[str, Any]:
        """For provenance, and to model time."""
        return {"cache_bytes": self.cache_bytes, "latency_ns": [node.latency_ns for node in self.nodes]}
