"""How well DAMON sees real programs: recordings beside a count of every access, which an emulator makes.

The truth is of accesses by addresses of programs: those that set the accessed bits which DAMON looks at. It is counted
for pages of physical memory, which DAMON watches (``prec``), or which the pages of the processes that it watches
(``rec``) are on at the time of a count. A count comes every half second or so; DAMON's aggregations of that time are
taken together.

What reclaim would bring is worked out of the counts as well, and set beside what is predicted of the recording.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damoos.common.unpack import Unpacker
from damoos.common.user_file import MADE_BYTES
from damoos.damon.attrs import Attrs
from damoos.dispatch.lease import Lease
from damoos.errors import UnsupportedError
from damoos.policies.base import RecordPolicy
from damoos.prediction.reclaim import BLOCK_PAGES, Cost, reclaim
from damoos.recordings.journal import Journal
from damoos.recordings.recording import USUAL_PAGE_BYTES, Recording
from damoos.study.run_config import RunConfig
from damoos.workloads.base import Workload

Say = Callable[[str], None]
Places = NDArray[np.int64]
# Addresses of several targets are told apart: the target's number times this is added. All addresses are lower.
SPACE = 1 << 56
_FRAME = (1 << 55) - 1  # Documentation/admin-guide/mm/pagemap.rst
# A count is of half a second, so a shorter age cannot be told from it.
AGES_S = (1.0, 2.0, 5.0)
CONFIGS = {"rec": "vaddr", "prec": "paddr"}
WORKLOADS = ("redis/cache", "memcached/cache", "postgres/pgbench", "lmdb/read", "python/pandas")
_LIMIT_S = 600.0


@dataclass(frozen=True)
class Window:
    """What was accessed in a time.

    Parameters
    ----------
    begin_s, end_s : float, seconds
        By the clock of the machine.
    places : ndarray of shape (n,)
        Addresses of pages, in order; those of a target begin at `SPACE` times its number.
    counts : ndarray of shape (n,)
        Accesses to each.
    """

    begin_s: float
    end_s: float
    places: Places
    counts: NDArray[np.uint32]


@dataclass(frozen=True)
class Expected:
    """What a scheme that pages out what is idle for ``min_age`` would do, by the recording and by the counts.

    Parameters
    ----------
    min_age_s : float, seconds
    saving, true_saving : float
        Share of the memory that programs have accessed so far which is out, on average over time.
    faults, true_faults : float
        Pages that are asked for again.
    """

    min_age_s: float
    saving: float
    true_saving: float
    faults: float
    true_faults: float


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
    expected : tuple of Expected
        One for each of `AGES_S` that is shorter than half of the time that was counted.
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
    expected: tuple[Expected, ...] = ()


class Sink:
    """Takes an agent's messages: those of the recording, and counts of pages."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._told: list[tuple[float, Places, NDArray[np.uint32]]] = []

    def __call__(self, message: Mapping[str, Any]) -> None:
        """Keep one message."""
        if "pages" not in message:
            self._journal(message)
            return
        data = Unpacker(MADE_BYTES).text(message["pages"])
        (time_s,) = struct.unpack_from("=d", data)
        counts = np.frombuffer(data, "<u4", offset=8)
        if self._journal.operations != "paddr":
            places, frames = _places(message["entries"])
            self._told.append((time_s, places, counts[np.minimum(frames, len(counts) - 1)]))
        else:
            self._told.append((time_s, np.arange(len(counts)) * USUAL_PAGE_BYTES, counts))

    def windows(self) -> list[Window]:
        """From each count to the next one, from the first access on: before a server's load nobody counts."""
        told = list(pairwise(self._told))
        first = next((nth for nth, (_, (*_, counts)) in enumerate(told) if counts.any()), len(told))
        return [Window(before, now, places, counts) for (before, *_), (now, places, counts) in told[first:]]


def _places(entries: Sequence[Sequence[tuple[int, str]]]) -> tuple[Places, NDArray[np.int64]]:
    """Where each target has pages in memory, and the numbers of the pages of physical memory that they are on."""
    places, frames = [], []
    unpack = Unpacker(MADE_BYTES)
    for target, ranges in enumerate(entries):
        for start, packed in ranges:
            words = np.frombuffer(unpack.text(packed), "<u8")
            (present,) = np.nonzero(words >> np.uint64(63))
            places.append(target * SPACE + start + present * USUAL_PAGE_BYTES)
            frames.append((words[present] & np.uint64(_FRAME)).astype(np.int64))
    if not places:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    order = np.argsort(together := np.concatenate(places), kind="stable")
    return together[order], np.concatenate(frames)[order]


def compared(workload: str, recording: Recording, windows: Sequence[Window]) -> Truth:
    """A recording against the windows that hold a snapshot of it.

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
    return Truth(
        workload, len(rows), accessed, precision, recall, seen, error, float(table[:, 4].std()), regions,
        expected(recording, windows),
    )  # fmt: skip


def expected(recording: Recording, windows: Sequence[Window]) -> tuple[Expected, ...]:
    """What reclaim would bring by the recording, and by the counts; of the time that was counted.

    Both are of the pages that have been accessed so far; what was never accessed is left out. A run is taken to last as
    long under the scheme as without it.
    """
    begin_s, end_s = windows[0].begin_s, windows[-1].end_s
    ages = [age_s for age_s in AGES_S if age_s <= (end_s - begin_s) / 2]
    if not ages:
        return ()
    places, accessed = _accessed(windows)
    born = np.maximum.accumulate(accessed, axis=0)
    about = {
        **recording.about,
        "resident": [[one.end_s, _blocks(places[there])] for one, there in zip(windows, born, strict=True)],
        "record": {"began_s": begin_s},
    }
    found = reclaim(replace(recording, about=about), np.array(ages) * 1e6, Cost(0.0, 0.0))
    lengths = np.array([one.end_s - one.begin_s for one in windows])
    true = [_true(accessed, born, lengths, age_s) for age_s in ages]
    return tuple(
        Expected(age_s, float(saving), true_saving, float(faults), true_faults)
        for age_s, saving, faults, (true_saving, true_faults) in zip(
            ages, found.saving, found.in_pages, true, strict=True
        )
    )


def _accessed(windows: Sequence[Window]) -> tuple[Places, NDArray[np.bool_]]:
    """Places that were ever accessed, and whether they were in each window: (windows, places)."""
    each = [one.places[one.counts > 0] for one in windows]
    places = np.unique(np.concatenate(each))
    return places, np.array([np.isin(places, there) for there in each])


def _blocks(places: Places) -> list[list[list[int]]]:
    """How many pages each target has in each block of addresses, as a recording says what is resident."""
    blocks: list[list[list[int]]] = [[] for _ in range(int(places[-1] // SPACE) + 1 if len(places) else 0)]
    starts, counts = np.unique(places - places % (BLOCK_PAGES * USUAL_PAGE_BYTES), return_counts=True)
    for at, count in zip(starts, counts, strict=True):
        blocks[int(at // SPACE)].append([int(at % SPACE), int(count)])
    return blocks


def _true(
    accessed: NDArray[np.bool_], born: NDArray[np.bool_], lengths: NDArray[np.float64], age_s: float
) -> tuple[float, float]:
    """The share of the memory that is idle for so long, and how many pages are accessed after that."""
    idle_s = np.zeros(accessed.shape[1])
    out_s = there_s = faults = 0.0
    for now, there, length_s in zip(accessed, born, lengths, strict=True):
        out = there & (idle_s >= age_s)  # since the window began; what is accessed in it comes back
        faults += float((out & now).sum())
        out_s += float((out & ~now).sum()) * length_s
        there_s += float(there.sum()) * length_s
        idle_s = np.where(now, 0.0, idle_s + length_s)
    return out_s / there_s, faults


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
            at = recording.target[nth] * SPACE + ends[accessed]
            np.add.at(edges, np.searchsorted(window.places, at), sign)
    return np.cumsum(edges[:-1]) > 0, regions / len(within) if within else 0.0


def run(
    machine: str, workloads: Sequence[str], config: str, attrs: Attrs, say: Say
) -> tuple[dict[str, Any], list[Truth]]:
    """Record each workload once, and count.

    Parameters
    ----------
    config : {"rec", "prec"}
        What DAMON watches: the workload's processes, or all of the machine's memory.
    attrs : Attrs
        Its intervals and numbers of regions.

    Returns
    -------
    (dict, list of Truth)
        What the machine is, and a row for each workload.
    """
    found = []
    facts: dict[str, Any] = {}
    for name in workloads:
        run_config = RunConfig(workload=name, machine=machine, require_real=True)
        with Lease(run_config.machine_for(), say) as lease:
            facts = dict(lease.facts)
            found.append(
                _recorded(lease, run_config.workload_on(lease.place), RecordPolicy(CONFIGS[config], attrs, pages=True))
            )
        say(text(found[-1:])[2])
    return facts, found


def _recorded(lease: Lease, workload: Workload, policy: RecordPolicy) -> Truth:
    journal = Journal(policy.operations, policy.attrs)
    sink = Sink(journal)
    lease.run(workload, policy, _LIMIT_S, sink=sink)
    return compared(workload.name, journal.recording({}), sink.windows())


_COLUMNS = ("workload", "accessed", "precision", "recall", "accesses seen", "WSS error", "regions", "windows")
_EXPECTED = ("workload", "min_age", "memory saving", "by the counts", "pages faulted", "by the counts")


def text(rows: Sequence[Truth]) -> list[str]:
    """The tables, as Markdown: what DAMON saw, and what is predicted of it."""
    lines = _head(_COLUMNS)
    for row in rows:
        shares = (row.precision, row.recall, row.accesses_seen)
        cells = [
            f"`{row.workload}`", f"{row.accessed_bytes / (1 << 20):.1f} MiB", *(f"{share:.1%}" for share in shares),
            f"{row.wss_error:+.0%} ± {row.wss_error_sd:.0%}", f"{row.regions:.0f}", str(row.windows),
        ]  # fmt: skip
        lines.append(_line(cells))
    return [*lines, "", *_head(_EXPECTED), *(line for row in rows for line in _expected_lines(row))]


def _expected_lines(row: Truth) -> Iterator[str]:
    for one in row.expected:
        shares = f"{one.saving:.1%}", f"{one.true_saving:.1%}"
        yield _line(
            [f"`{row.workload}`", f"{one.min_age_s:g} s", *shares, f"{one.faults:.0f}", f"{one.true_faults:.0f}"]
        )


def _head(columns: Sequence[str]) -> list[str]:
    return [_line(columns), "| --- " * len(columns) + "|"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
