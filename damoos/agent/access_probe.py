"""Whether DAMON sees here what is accessed: a positive control, on memory of our own of which half is.

An emulator may keep translations for so long that the processor never sets a page's accessed bit again, and then hot
memory looks cold. The kernel does not say so, nor does a version or an option of it; so it is tried.
"""

from __future__ import annotations

import time
from fractions import Fraction

from damoos.agent.probe_memory import held_memory
from damoos.agent.undo import UndoLog
from damoos.damon.attrs import Attrs
from damoos.damon.interface import kdamond
from damoos.damon.pattern import AccessPattern
from damoos.damon.scheme import Context, Scheme

HALF_BYTES = 4 << 20
# Regions are given, and an update would look for others.
ATTRS = Attrs(sample_us=5_000, aggr_us=100_000, update_us=60_000_000)
LOOK_S = 1.5
# Accessed in at least half of the samples.
_HOT = AccessPattern(min_freq=Fraction(50))


def seen_accesses(log: UndoLog) -> dict[str, float]:
    """The share of each half that DAMON finds accessed.

    Returns
    -------
    dict
        ``accessed`` and ``idle``, of 0 to 1: of the half that is accessed all the time, and of the other.

    Raises
    ------
    MachineError : it could not be tried, which says nothing of what DAMON sees
    """
    with held_memory(2 * HALF_BYTES, HALF_BYTES) as (pid, address):
        halves = {"accessed": address, "idle": address + HALF_BYTES}
        return {name: _share(pid, start, log) for name, start in halves.items()}


def _share(pid: int, start: int, log: UndoLog) -> float:
    mark = len(log)
    probe = kdamond()
    probe.create(about_to=lambda former: log.record("kdamond", **former))
    try:
        context = Context((Scheme("stat", _HOT), Scheme("stat")), "vaddr", ATTRS)
        probe.configure(context, [pid], [(start, start + HALF_BYTES)])
        probe.start()
        deadline, nr_looks = time.monotonic() + 4 * LOOK_S, LOOK_S * 1e6 / ATTRS.aggr_us
        while True:
            hot, all_tried = (stats.sz_tried_bytes for stats in probe.stats())
            if all_tried >= nr_looks * HALF_BYTES or time.monotonic() > deadline:
                return hot / all_tried if all_tried else 0.0
            time.sleep(ATTRS.aggr_us / 1e6)
    finally:
        log.restore(keep=mark)
