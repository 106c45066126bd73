"""How steady a machine is: the same piece of work again and again, and what others took of the machine meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from damoos.agent import proc
from damoos.damon.files import kernel_text
from damoos.errors import MachineLost, UnsupportedError

# Long against the clock's steps and a timer tick, short against what a person would call a disturbance. A shorter time
# has shorter pieces.
PIECE_S, MOST_OF_IT = 0.1, 1 / 20
MIN_PAIRS = 3
_MEMORY_BYTES = 8 << 20
_ADDITIONS = 20_000

Measured = dict[str, "float | list[float]"]


def steadiness(for_s: float, cpus: Sequence[int], interrupted: Callable[[], bool]) -> Measured:
    """Repeat one piece of work for a time, under the names A and B in turn.

    Nothing tells A from B but its name, so whatever differs between them is the machine's noise.

    Parameters
    ----------
    for_s : float
    cpus : sequence of int
        The only CPUs that may be used; all where empty.
    interrupted : callable
        Whether the controller has cancelled or vanished.

    Returns
    -------
    dict
        ``a_s``, ``b_s`` (seconds of each piece, in the order in which they ran), ``elapsed_s``, ``steal_s`` (time that
        a hypervisor gave to others), ``others_cpu_s`` (CPU time of everybody but the agent).

    Raises
    ------
    UnsupportedError : there are no such CPUs
    MachineLost : interrupted
    """
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus or allowed)
    except OSError:
        raise UnsupportedError(f"CPUs {list(cpus)} do not exist here; the CPUs are {sorted(allowed)}") from None
    try:
        return _measured(for_s, interrupted)
    finally:
        os.sched_setaffinity(0, allowed)


def _measured(for_s: float, interrupted: Callable[[], bool]) -> Measured:
    work = _Work(min(PIECE_S, for_s * MOST_OF_IT))
    first: list[float] = []
    second: list[float] = []
    turn = (first, second)
    busy_s, steal_s = _cpu_s()
    own_s, begun = time.process_time(), time.monotonic()
    while len(second) < MIN_PAIRS or time.monotonic() - begun < for_s:
        for times in turn:
            times.append(work.piece())
        turn = turn[::-1]  # so that neither is always the one that comes after a pause
        if interrupted():
            raise MachineLost("the controller of this run is gone")
    now_busy_s, now_steal_s = _cpu_s()
    return {
        "a_s": first,
        "b_s": second,
        "elapsed_s": time.monotonic() - begun,
        "steal_s": now_steal_s - steal_s,
        "others_cpu_s": max(0.0, now_busy_s - busy_s - (time.process_time() - own_s)),
    }


class _Work:
    """Additions, which take CPU, and copies of more memory than most caches hold; as many as take so long here."""

    def __init__(self, piece_s: float) -> None:
        self._from, self._to = bytearray(b"x" * _MEMORY_BYTES), bytearray(_MEMORY_BYTES)
        self._rounds = 1
        self.piece()  # its memory is there from now on
        self._rounds = max(1, round(piece_s / min(self.piece() for _ in range(3))))

    def piece(self) -> float:
        """Do it once; returns the seconds that it took."""
        begun = time.monotonic()
        for _ in range(self._rounds):
            sum(range(_ADDITIONS))
            self._to[:] = self._from
            sum(self._to[:: proc.PAGE])
        return time.monotonic() - begun


def _cpu_s() -> tuple[float, float]:
    """CPU time of the whole machine so far: used, and stolen by a hypervisor.

    References
    ----------
    proc(5), /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice; guest is part of user
    """
    ticks = [int(word) for word in kernel_text(Path("/proc/stat")).split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = ticks[:8]
    return (user + nice + system + irq + softirq) / proc.TICKS_PER_S, steal / proc.TICKS_PER_S
