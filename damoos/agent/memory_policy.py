"""Memory policies of the kernel, which libc has no functions for.

References
----------
set_mempolicy(2), mbind(2)
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

BIND, INTERLEAVE, WEIGHTED_INTERLEAVE = 2, 3, 6
_MF_MOVE = 2
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_MBIND = {"x86_64": 237, "aarch64": 235}
_MASK_BITS = 64


def set_mempolicy(mode: int, nodes: Sequence[int]) -> None:
    """Where new pages of this process go, and of those that it starts.

    Raises
    ------
    OSError : the kernel refuses
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_SET_MEMPOLICY[os.uname().machine], mode, *_mask(nodes)) != 0:
        raise OSError(ctypes.get_errno(), "set_mempolicy")


def move(start: int, sz_bytes: int, nodes: Sequence[int]) -> bool:
    """Move pages of this process that no other one has mapped to some nodes; whether the kernel has moved them all."""
    libc = ctypes.CDLL(None, use_errno=True)
    at, length = ctypes.c_void_p(start), ctypes.c_size_t(sz_bytes)
    answer: int = libc.syscall(_MBIND[os.uname().machine], at, length, BIND, *_mask(nodes), _MF_MOVE)
    return answer == 0


def _mask(nodes: Sequence[int]) -> tuple[object, int]:
    return ctypes.byref(ctypes.c_ulong(sum(1 << node for node in nodes))), _MASK_BITS
