"""Swap devices: turning them on and off, what is on them, and the memory that swapped pages still take."""

from __future__ import annotations

import ctypes
import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from damoos.agent import proc
from damoos.agent.proc import PAGE
from damoos.damon.files import kernel_lines, kernel_text

SWAP_MAGIC = b"SWAPSPACE2"
ZSWAP = Path("sys/module/zswap/parameters")
# The kernel pages out to the device of the highest priority first; without one, a device comes after all others.
_PREFER, _HIGHEST = 0x8000, 0x7FFF


@dataclass(frozen=True)
class Swap:
    """A swap device that damoos has turned on.

    Parameters
    ----------
    device : str
        Its path.
    """

    device: str

    def empty(self) -> None:
        """Bring back what is left on it of programs that have ended or wait; a run is to find it empty."""
        if used_bytes().get(self.device):
            swapoff(self.device)
            swapon(self.device)


def swapon(device: str) -> None:
    """Page out to a device from now on, before all others."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.swapon(device.encode(), _PREFER | _HIGHEST) != 0:
        raise OSError(ctypes.get_errno(), f"swapon {device}")


def swapoff(device: str) -> None:
    """Stop swapping to a device, and bring back what is on it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.swapoff(device.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"swapoff {device}")


def make_swap(device: str, sz_bytes: int) -> None:
    """Write a swap header (version 1), as mkswap does; saves a dependency on the target."""
    header = bytearray(PAGE)
    struct.pack_into("<III", header, 1024, 1, sz_bytes // PAGE - 1, 0)
    header[1036:1052] = os.urandom(16)  # the device's UUID
    header[PAGE - 10 :] = SWAP_MAGIC
    with open(device, "r+b") as disk:
        disk.write(header)
        disk.flush()
        os.fsync(disk.fileno())


def used_bytes(root: Path = Path("/")) -> dict[str, int]:
    """What is on each swap device in use, by its path; the one that the kernel fills first comes first."""
    try:
        lines = kernel_lines(f"{root}/proc/swaps")[1:]
    except FileNotFoundError:
        return {}  # a kernel without swap
    rows = [line.rsplit(maxsplit=4) for line in lines]  # a name may have other blanks than ASCII's
    return {row[0]: int(row[3]) * 1024 for row in sorted(rows, key=lambda row: -int(row[4]))}


def written_bytes() -> int:
    """Bytes that this machine has written to swap since boot, those to zram, which are memory, left out.

    The kernel counts pages that it swaps out to any device, pages that zswap keeps excepted; zram counts its own.
    """
    pages = proc.vmstat(("pswpout",)).get("pswpout", 0)
    names = (device.rsplit("/", 1)[-1] for device in used_bytes())
    to_zram = sum(_sectors_written(Path(f"/sys/block/{name}/stat")) for name in names if name.startswith("zram"))
    return max(0, pages * PAGE - to_zram * 512)


def _sectors_written(stat: Path) -> int:
    """The seventh field of a block device's statistics (Documentation/block/stat.rst)."""
    try:
        return int(kernel_text(stat).split()[6])
    except (OSError, IndexError):
        return 0


def can_account(root: Path = Path("/")) -> bool:
    """Whether `compressed_bytes` can be told here: kernels before 5.19 do not say what zswap takes."""
    return not math.isnan(_zswap_bytes(root))


def compressed_bytes(pids: Sequence[int], own: Swap | None, used: Mapping[str, int], root: Path = Path("/")) -> float:
    """Memory that the swapped pages of some processes take in zram and zswap, the pools' own overhead included.

    Where damoos has a swap device of its own, nobody else's pages are there, and it is what all of that takes. On the
    machine's own swap it is the processes' share, by their part of all that is swapped.

    Parameters
    ----------
    pids : sequence of int
    own : Swap or None
        The device that damoos has turned on.
    used : mapping of str to int, bytes
        What is on each swap device now, see `used_bytes`.

    Returns
    -------
    float, bytes
        Not a number where the kernel does not say.
    """
    if own is not None and set(used) == {own.device}:
        return _pools_bytes(used, root)
    return compressed_share(sum(proc.swapped_bytes(pid, root) for pid in pids) if any(used.values()) else 0, used, root)


def compressed_share(swapped_bytes: float, used: Mapping[str, int], root: Path = Path("/")) -> float:
    """Memory that some of all swapped pages take in zram and zswap, by their part of all that is swapped.

    Parameters
    ----------
    swapped_bytes : float, bytes
        How much is theirs.
    used : mapping of str to int, bytes
        What is on each swap device now, see `used_bytes`.

    Returns
    -------
    float, bytes
        Not a number where the kernel does not say.
    """
    pools = _pools_bytes(used, root)
    if math.isnan(pools):
        return pools
    return pools * min(1.0, swapped_bytes / sum(used.values())) if swapped_bytes and used else 0.0


def _pools_bytes(used: Mapping[str, int], root: Path) -> float:
    return _zswap_bytes(root) + sum(_zram_bytes(device, root) for device in used)


def _zswap_bytes(root: Path) -> float:
    """Memory that zswap's pool takes; 0 where it is off, not a number where it is on and the kernel does not say."""
    try:
        is_on = kernel_text(f"{root}/{ZSWAP}/enabled").strip() == "Y"
    except OSError:
        is_on = False
    return proc.meminfo(root).get("Zswap", math.nan) if is_on else 0


def _zram_bytes(device: str, root: Path) -> int:
    name = device.rsplit("/", 1)[-1]
    try:
        return int(kernel_text(f"{root}/sys/block/{name}/mm_stat").split()[2])
    except OSError:
        return 0  # it is no zram
