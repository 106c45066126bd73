"""The kernel's own objects while a workload runs: how much memory they have, how long they live, who uses them.

Lives are measured in the kernel: triggers of trace events note when an object is allocated and, when it is freed, count
its life in a histogram. They stand in an instance of tracefs that is damoos's own, so that nobody else's tracing is
disturbed, and no event is streamed. An object that was there before, or that stays, has no life.

References
----------
Documentation/trace/histogram.rst (onmatch, trace); Documentation/admin-guide/mm/pagemap.rst (kpageflags);
include/trace/events/kmem.h, include/trace/events/filemap.h
"""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import Any, NamedTuple

from damoos.agent.access_counts import AccessCounts
from damoos.agent.messages import Send, packed
from damoos.agent.proc import PAGE
from damoos.agent.undo import UndoLog
from damoos.damon.files import append, kernel_lines, kernel_text, read, write
from damoos.errors import UnsupportedError

INSTANCE = "instances/damoos-objects"
SYNTHETIC = "dynamic_events"
# It is asked twice a second, a little sooner or later.
LOOK_S = 0.4
# Counts of accesses are as large as the machine has pages, so they are sent more rarely.
COUNT_S = 2.0
# Addresses that a histogram has room for, used or not, at about 200 bytes of the kernel's memory each; a kind has two.
# Most objects are at few addresses, one after the other, so all of them are watched; of pages only as many as fit.
ROOM, PAGES_ROOM = 1 << 15, 1 << 13
# A cache that never had so much is not told by its name.
_LEAST_BYTES = 1 << 16
_CACHES = Path("/sys/kernel/slab")


class Kind(NamedTuple):
    """Objects whose lives are measured together.

    Parameters
    ----------
    name : str
        Of the synthetic event that tells a life. Those are the whole machine's, so it says whose it is.
    born, died : str
        The events that begin and end a life.
    key : str
        What an object is known by in both.
    by : str
        What the event of its end tells of it, by which lives are counted; empty for nothing.
    """

    name: str
    born: str
    died: str
    key: str
    by: str = ""

    @property
    def room(self) -> int:
        """Addresses or pages that its histograms have room for."""
        return ROOM if self.key == "ptr" else PAGES_ROOM


_PAGES = "filemap/mm_filemap_add_to_page_cache", "filemap/mm_filemap_delete_from_page_cache"
KINDS = (
    Kind("damoos_slab", "kmem/kmem_cache_alloc", "kmem/kmem_cache_free", "ptr", "name"),
    Kind("damoos_kmalloc", "kmem/kmalloc", "kmem/kfree", "ptr"),
    Kind("damoos_page_cache", *_PAGES, "pfn", "order"),
)
_TYPES = {"name": "char name[]", "order": "u8 order"}


class KernelObjects:
    """Sends what becomes of the kernel's objects, from `start` to `stop`.

    Messages are ``{"event": "record", "objects": ...}``, packed pairs of a word and a value: ``begin`` (``share`` of
    the pages whose lives are measured, and `merged`), ``memory`` (seconds, bytes by kind and by slab cache),
    ``accesses`` (seconds, ``/proc/kpageflags`` and accesses to each page since the last one), and at the end ``lives``,
    the kernel's histograms by kind, as text, and ``lost``, births of which they had no room.

    Parameters
    ----------
    place : Path or None
        Where tracefs is mounted.
    counts : AccessCounts or None
        Of an emulator that counts accesses.

    Raises
    ------
    UnsupportedError : the kernel cannot measure lives
    """

    def __init__(self, place: Path | None, log: UndoLog, send: Send, counts: AccessCounts | None) -> None:
        if place is None or not all(
            os.path.exists(place / file) for file in (SYNTHETIC, _events(KINDS[0].born, "hist"))
        ):
            raise UnsupportedError(
                "this kernel cannot measure how long its objects live (CONFIG_HIST_TRIGGERS, CONFIG_SYNTH_EVENTS)"
            )
        self._place = place
        self._kinds = [_as_told(kind, read(place / _events(kind.died, "format"))) for kind in KINDS]
        self._log = log
        self._send = send
        self._counts = counts
        self._next_look = self._next_count = 0.0
        self._shift = _shift()
        self._own: dict[str, int] = {}
        self._is_on = False

    def prepare(self) -> None:
        """Measure lives from now on. It takes some tenths of a second, so it is done before a workload starts."""
        instance = self._place / INSTANCE
        before = caches()
        for kind in self._kinds:
            self._log.record("synthetic_event", path=str(self._place / SYNTHETIC), name=kind.name)
            append(self._place / SYNTHETIC, f"s:{kind.name} {_fields(kind)}")
        self._log.record("trace_instance", path=str(instance))
        instance.mkdir(exist_ok=True)
        write(instance / "trace_clock", "mono")
        triggers = [trigger for kind in self._kinds for trigger in _triggers(kind, self._shift)]
        self._log.record("triggers", path=str(instance), events=[event for event, _ in reversed(triggers)])
        for event, trigger in triggers:
            write(instance / _events(event, "trigger"), trigger)
        self._own = {name: size - before.get(name, 0) for name, size in caches().items()}
        self._is_on = True

    def start(self) -> None:
        """Tell what is measured; the first message."""
        self._tell("begin", {"share": 1 / (1 << self._shift), "merged": merged()})

    def look(self, now: float) -> None:
        """Tell the memory of the kernel's objects now and then, and accesses by page where somebody counts them."""
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            self._tell("memory", [now, *self._memory()])
        if self._counts and self._counts.is_on and now >= self._next_count:
            self._next_count = now + COUNT_S
            self._counts.stop()  # else what it takes to send them would be counted as well
            self._tell("accesses", [now, packed(page_flags()), packed(self._counts.pages())])
            self._counts.start(by_page=True, of_programs=False)

    def stop(self) -> None:
        """Tell the lives; what was changed is undone by the log."""
        if not self._is_on:
            return
        self._is_on = False
        instance = self._place / INSTANCE
        self._tell(
            "lives", {kind.name: read(instance / _events(f"synthetic/{kind.name}", "hist")) for kind in self._kinds}
        )
        self._tell("lost", sum(_dropped(read(instance / _events(kind.born, "hist"))) for kind in self._kinds))

    def _memory(self) -> tuple[dict[str, int], dict[str, int]]:
        """`memory`, and `caches` that are not small ones, without what the histograms themselves have."""
        used = {name: size - self._own.get(name, 0) for name, size in caches().items()}
        by_kind = memory()
        by_kind["slab"] -= sum(self._own.values())
        return by_kind, {name: size for name, size in used.items() if size >= _LEAST_BYTES}

    def _tell(self, what: str, value: Any) -> None:
        self._send({"event": "record", "objects": packed(json.dumps([what, value]).encode())})


def _events(event: str, file: str) -> str:
    return f"events/{event}/{file}"


def _as_told(kind: Kind, form: str) -> Kind:
    """A kind without what this kernel's event does not tell: ``order`` of pages is younger than the event."""
    return kind if f" {kind.by};" in form else kind._replace(by="")


def _fields(kind: Kind) -> str:
    size = ["u64 bytes"] if kind.key == "ptr" else []
    return "; ".join(["u64 life", *size, *([_TYPES[kind.by]] if kind.by else [])])


def _triggers(kind: Kind, shift: int) -> list[tuple[str, str]]:
    """Events and their triggers: one counts lives, one notes births, and one measures lives.

    Names of variables are an instance's, so each kind has its own.
    """
    sampled = f"!(pfn & {(1 << shift) - 1:#x})" if kind.key == "pfn" and shift else ""
    # To read a histogram allocates something for each of its entries, so what this thread makes is left out.
    others = f"common_pid != {threading.get_native_id()}"
    by, comma = kind.by, "," if kind.by else ""
    born, life, size = (f"{kind.name}_{word}" for word in ("born", "life", "bytes"))
    noted, told, sums = (f",{size}=bytes_alloc", f",${size}", ",bytes") if kind.key == "ptr" else ("", "", "")
    return [
        (f"synthetic/{kind.name}", f"hist:keys={by}{comma}life.log2:vals=life{sums}:size=4096"),
        (
            kind.born,
            f"hist:keys={kind.key}:{born}=common_timestamp.usecs{noted}:size={kind.room} if {others}"
            + (f" && {sampled}" if sampled else ""),
        ),
        (
            kind.died,
            f"hist:keys={kind.key}:{life}=common_timestamp.usecs-${born}:size={kind.room}"
            f":onmatch({kind.born.replace('/', '.')}).trace({kind.name},${life}{told}{comma}{by})"
            + (f" if {sampled}" if sampled else ""),
        ),
    ]


def _shift() -> int:
    """Lives are measured of one page in two to the power of this, so that a histogram has room for them."""
    return max(0, (os.sysconf("SC_PHYS_PAGES") - 1).bit_length() - PAGES_ROOM.bit_length() + 1)


def memory() -> dict[str, int]:
    """Bytes of the machine's memory by kind: of programs, and of the kernel outside its slab caches."""
    counts = dict(line.split() for line in kernel_lines(Path("/proc/vmstat")))
    sockets = re.findall(r" mem (\d+)", kernel_text(Path("/proc/net/sockstat")))
    return {
        "programs": int(counts["nr_anon_pages"]) * PAGE,
        "page cache": int(counts["nr_file_pages"]) * PAGE,
        "page tables": int(counts["nr_page_table_pages"]) * PAGE,
        "stacks": int(counts["nr_kernel_stack"]) << 10,
        "socket buffers": sum(map(int, sockets)) * PAGE,
        "slab": (int(counts["nr_slab_reclaimable"]) + int(counts["nr_slab_unreclaimable"])) * PAGE,
    }


def caches() -> dict[str, int]:
    """Bytes of the objects in use of each slab cache."""
    return {words[0]: int(words[1]) * int(words[3]) for words in _slabinfo()}


def merged(places: Path = _CACHES) -> dict[str, list[str]]:
    """By a slab cache's name all names of it: the kernel makes one cache of those whose objects are alike."""
    by_cache: dict[str, list[str]] = {}
    for place in sorted(places.iterdir()) if places.is_dir() else ():
        if place.is_symlink():
            by_cache.setdefault(os.readlink(place), []).append(place.name)
    return {name: names for names in by_cache.values() if len(names) > 1 for name in names}


def page_flags() -> bytes:
    """``/proc/kpageflags``, 64 bits for each page of memory by its number; the kernel gives whole ones only."""
    file = os.open("/proc/kpageflags", os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(file, 1 << 20), b""))
    finally:
        os.close(file)


def _slabinfo() -> list[list[str]]:
    return [line.split() for line in kernel_lines(Path("/proc/slabinfo"))[2:]]


def _dropped(histogram: str) -> int:
    """Number of keys that the kernel's histogram had no room for."""
    return int(re.findall(r"Dropped: (\d+)", histogram)[-1])
