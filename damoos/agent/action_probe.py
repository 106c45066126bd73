"""What an action really does here, found by trying it on memory of our own.

The kernel accepts any action for any operations set and says nothing when it cannot do it; nor does it say that pageout
has nowhere to page out to. So a small process is made, and each action is applied to its memory alone: by its virtual
addresses, or by the physical pages that they have.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from pathlib import Path

from damoos.agent import proc
from damoos.agent.probe_memory import held_memory
from damoos.agent.undo import UndoLog
from damoos.damon.attrs import Attrs
from damoos.damon.interface import kdamond
from damoos.damon.scheme import Context, Scheme
from damoos.errors import MachineError

SZ_BYTES = 8 << 20
# Quick intervals; regions are given, and an update would look for others.
ATTRS = Attrs(sample_us=2_000, aggr_us=20_000, update_us=60_000_000)
TRIED_WITHIN_S = 3.0
# Pages that were just accessed first may wait in a batch of the CPU's, out of the reach of most actions.
TRIES = 10
# A process without swap loses a few pages of its program to pageout; the counters of RSS are not exact either.
NOISE_BYTES = 1 << 20
# Of physical memory this much is enough, and fewer ranges are to be written into sysfs; on a machine that has run for
# long they are single pages.
PHYSICAL_BYTES = 2 << 20
_PRESENT, _PFN = 1 << 63, (1 << 55) - 1


def tryout(operations: str, actions: Sequence[str], log: UndoLog) -> dict[str, int]:
    """Bytes that each action was applied to; 0 for one that does nothing here.

    Pageout counts what really left memory. Migration goes to a node of this machine's other than the first.

    Raises
    ------
    MachineError : it could not be tried, which says nothing of the action
    """
    return {action: _applied(operations, action, log) for action in actions}


def _applied(operations: str, action: str, log: UndoLog) -> int:
    mark = len(log)
    with held_memory(SZ_BYTES) as (pid, address):
        probe = kdamond()
        probe.create(about_to=lambda former: log.record("kdamond", **former))
        try:
            spans = [(address, address + SZ_BYTES)] if operations != "paddr" else _physical(pid, address)
            node = _other_node() if action.startswith("migrate_") else None
            rss_bytes = proc.rss_bytes(pid)
            probe.configure(Context((Scheme(action, target_nid=node),), operations, ATTRS), [pid], spans)
            probe.start()
            tried, applied = 0, 0
            enough = TRIES * sum(end - start for start, end in spans)
            deadline_s = time.monotonic() + TRIED_WITHIN_S
            while not applied and tried < enough and time.monotonic() < deadline_s:
                time.sleep(0.05)
                (stats,) = probe.stats()
                tried = stats.sz_tried_bytes
                applied = tried if action == "stat" else stats.sz_applied_bytes
                if action == "pageout":
                    left = rss_bytes - proc.rss_bytes(pid)
                    applied = min(applied, left) if left >= NOISE_BYTES else 0
            return applied
        finally:
            log.restore(keep=mark)


def _physical(pid: int, address: int) -> list[tuple[int, int]]:
    """The largest ranges of physical addresses behind a process's memory, `PHYSICAL_BYTES` of it.

    References
    ----------
    Documentation/admin-guide/mm/pagemap.rst; page frame numbers are shown to root only
    """
    with open(Path(f"/proc/{pid}/pagemap"), "rb") as pagemap:
        pagemap.seek(address // proc.PAGE * 8)
        words = struct.unpack(f"={SZ_BYTES // proc.PAGE}Q", pagemap.read(SZ_BYTES // proc.PAGE * 8))
    frames = sorted(word & _PFN for word in words if word & _PRESENT)
    spans: list[tuple[int, int]] = []
    for frame in frames:
        start = frame * proc.PAGE
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], start + proc.PAGE)
        elif frame:
            spans.append((start, start + proc.PAGE))
    if not spans:
        raise MachineError("this machine hides physical addresses, so paddr cannot be tried")
    chosen, sz_bytes = [], 0
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):
        if sz_bytes < PHYSICAL_BYTES:
            chosen.append((start, end))
            sz_bytes += end - start
    return sorted(chosen)


def _other_node() -> int:
    """A memory node that is not the first, if there is one."""
    nodes = sorted(int(path.name[4:]) for path in Path("/sys/devices/system/node").glob("node[0-9]*"))
    return nodes[-1] if nodes else 0
