"""How well DAMON sees real programs: recordings beside a count of every access, which an emulator makes.

The truth is of physical memory, and of accesses by addresses of programs: those that set the accessed bits which DAMON
looks at. A count comes every half second or so; DAMON's aggregations of that time are taken together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damoos.dispatch.lease import Lease
from damoos.errors import UnsupportedError
from damoos.policies.base import RecordPolicy
from damoos.recordings.journal import Journal, unpacked
from damoos.recordings.recording import USUAL_PAGE_BYTES, Recording
from damoos.study.run_config import RunConfig
from damoos.workloads.base import Workload

Say = Callable[[str], None]
WORKLOADS = ("redis/cache", "memcached/cache", "postgres/pgbench", "lmdb/read", "python/pandas")
_LIMIT_S = 600.0


@dataclass(frozen=True)
class Window:
    """What was accessed in a time: ``counts`` of each page of the machine's memory, by its number."""

    begin_s: float
    end_s: float
    counts: NDArray[np.uint32]


@dataclass(frozen=True)
class Truth:
    """DAMON against the truth; means over windows, with the standard deviation of the working set's error.

    Parameters
    ----------
    workload : str
    windows : int
    accessed_bytes : float
        What was accessed in a window.
    precision, recall : float
        Of the pages that DAMON calls accessed, the share that was; of those that were, the share that DAMON calls so.
    accesses_seen : float
        The same share of accesses: a page counts as often as it was accessed.
    wss_error, wss_error_sd : float
        What DAMON calls accessed in place of what was, less 1.
    regions : float
        Regions of a snapshot.
    """

    workload: str
    windows: int
    accessed_bytes: float
    precision: float
    recall: float
    accesses_seen: float
    wss_error: float
    wss_error_sd: float
    regions: float


class Sink:
    """Takes an agent's messages: those of the recording, and counts of pages."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._told: list[tuple[float, NDArray[np.uint32]]] = []

    def __call__(self, message: Mapping[str, Any]) -> None:
        """Keep one message."""
        if "pages" not in message:
            self._journal(message)
            return
        data = unpacked(message["pages"])
        (time_s,) = struct.unpack_from("=d", data)
        self._told.append((time_s, np.frombuffer(data, "<u4", offset=8)))

    def windows(self) -> list[Window]:
        """From each count to the next one, where something was accessed: before a server's load nobody counts."""
        return [Window(before, now, counts) for (before, _), (now, counts) in pairwise(self._told) if counts.any()]


def compared(workload: str, recording: Recording, windows: Sequence[Window]) -> Truth:
    """A recording of physical memory against the windows that hold a snapshot of it.

    Raises
    ------
    UnsupportedError : none does
    """
    rows = []
    for window in windows:
        called, regions = _called(recording, window)
        true = window.counts > 0
        if not regions or not true.any():
            continue
        both = float((called & true).sum())
        rows.append(
            (
                true.sum() * USUAL_PAGE_BYTES, both / max(1.0, called.sum()), both / true.sum(),
                window.counts[called].sum(dtype=np.float64) / window.counts.sum(dtype=np.float64),
                called.sum() / true.sum() - 1, regions,
            )
        )  # fmt: skip
    if not rows:
        raise UnsupportedError(f"{workload}: no count of accesses falls into the recording")
    table = np.array(rows, dtype=float)
    accessed, precision, recall, seen, error, regions = map(float, table.mean(axis=0))
    return Truth(workload, len(rows), accessed, precision, recall, seen, error, float(table[:, 4].std()), regions)


def _called(recording: Recording, window: Window) -> tuple[NDArray[np.bool_], float]:
    """The pages that DAMON calls accessed in a window, and how many regions its snapshots have on the average."""
    within = [
        nth
        for nth in range(recording.nr_snapshots)
        if window.begin_s <= (recording.start_s[nth] + recording.end_s[nth]) / 2 < window.end_s
    ]
    edges = np.zeros(len(window.counts) + 1, dtype=np.int64)
    regions = 0
    for nth in within:
        own = slice(recording.first[nth], recording.first[nth + 1])
        accessed = recording.frequency[own] > 0
        regions += len(accessed)
        for ends, sign in ((recording.start[own], 1), (recording.end[own], -1)):
            np.add.at(edges, np.minimum(ends[accessed] // USUAL_PAGE_BYTES, len(window.counts)), sign)
    return np.cumsum(edges[:-1]) > 0, regions / len(within) if within else 0.0


def run(machine: str, workloads: Sequence[str], say: Say) -> tuple[dict[str, Any], list[Truth]]:
    """Record each workload once with all of the machine's memory (``prec``), and count.

    Returns
    -------
    (dict, list of Truth)
        What the machine is, and a row for each workload.
    """
    found = []
    facts: dict[str, Any] = {}
    for name in workloads:
        config = RunConfig(workload=name, machine=machine, require_real=True)
        with Lease(config.machine_for(), say) as lease:
            facts = dict(lease.facts)
            found.append(_recorded(lease, config.workload_on(lease.place)))
        say(text(found[-1:])[-1])
    return facts, found


def _recorded(lease: Lease, workload: Workload) -> Truth:
    policy = RecordPolicy("paddr", pages=True)
    journal = Journal(policy.operations, policy.attrs)
    sink = Sink(journal)
    lease.run(workload, policy, _LIMIT_S, sink=sink)
    return compared(workload.name, journal.recording({}), sink.windows())


_COLUMNS = ("workload", "accessed", "precision", "recall", "accesses seen", "WSS error", "regions", "windows")


def text(rows: Sequence[Truth]) -> list[str]:
    """The table, as Markdown."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "| --- " * len(_COLUMNS) + "|"]
    for row in rows:
        shares = (row.precision, row.recall, row.accesses_seen)
        cells = [
            f"`{row.workload}`", f"{row.accessed_bytes / (1 << 20):.1f} MiB", *(f"{share:.1%}" for share in shares),
            f"{row.wss_error:+.0%} ± {row.wss_error_sd:.0%}", f"{row.regions:.0f}", str(row.windows),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return lines
