"""How many instructions a second of this machine has, counted: what the clock of an emulated one is checked by."""

from __future__ import annotations

import ctypes
import mmap
import os
import time

# A loop of two instructions, as often as its argument says: dec, jnz, ret; and subs, b.ne, ret.
_LOOPS = {
    "x86_64": bytes.fromhex("ffcf 75fc c3"),
    "aarch64": bytes.fromhex("00040071 e1ffff54 c0035fd6"),
}
# Rounds of a millisecond at 500 MIPS, shorter than what the scheduler gives another process that wants the CPU too.
_NR_ROUNDS, _NR_TURNS = 20, 250_000


def instruction_rate() -> float | None:
    """Instructions that one CPU executes in a second of this machine's time, where nothing else runs.

    Returns
    -------
    float or None, instructions per second
        The most of many short rounds, so that interrupts and other processes do not count; where they leave no round
        alone, it is too low, and never too high. None on other architectures than x86-64 and arm64. Of hardware it
        tells little: that executes several instructions in a cycle.
    """
    code = _LOOPS.get(os.uname().machine)
    if code is None:
        return None
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as memory:
        memory.write(code)
        return 2 * _NR_TURNS / _took_s(memory)


def _took_s(memory: mmap.mmap) -> float:
    """Seconds that the loop at the beginning of a mapping takes; nothing refers to the mapping afterwards."""
    loop = ctypes.CFUNCTYPE(None, ctypes.c_uint32)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    loop(1)
    times = []
    for _ in range(_NR_ROUNDS):
        begun_s = time.perf_counter()
        loop(_NR_TURNS)
        times.append(time.perf_counter() - begun_s)
    return min(times)
