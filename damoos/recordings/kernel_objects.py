"""The kernel's own objects beside a recording: how much memory they had, how long they lived, who was accessed.

These are the quantities of Figure 2 of the KLOCs paper (ASPLOS'21), of the whole machine. An agent sends them with a
recording (`damoos.agent.kernel_objects`); they lie beside it in a file of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from damoos.common import user_file
from damoos.common.atomic_file import fill
from damoos.common.unpack import MALFORMED, Unpacker, in_short, parsed
from damoos.errors import ConfigError, MeasurementError, StoreError
from damoos.recordings import files, journal
from damoos.recordings.messages import Finite, Whole
from damoos.recordings.recording import USUAL_PAGE_BYTES

if TYPE_CHECKING:
    import pandas as pd

# What a recording's folder has, where they were asked for.
FILE_NAME = "kernel-objects.json"
_ABOUT = ("workload", "variant", "machine", "kernel", "accel")
PAGE_CACHE = "page cache"
_KINDS = {"damoos_slab": "slab", "damoos_kmalloc": "kmalloc", "damoos_page_cache": PAGE_CACHE}
_ENTRY = re.compile(
    r"^\{ (?:(?:name|order): *(\S+) *, )?life: ~ 2\^(\d+) *\} hitcount: +(\d+) +life: +(\d+)(?: +bytes: +(\d+))?", re.M
)
# Bits of /proc/kpageflags (include/uapi/linux/kernel-page-flags.h), by what a page with them is; the first one counts.
_PAGE_KINDS = (
    ("free", 1 << 10),
    ("slab", 1 << 7),
    ("page tables", 1 << 26),
    ("programs", 1 << 12),
    (PAGE_CACHE, 1 << 5 | 1 << 11),
    ("kernel code and data", 1 << 32),
)
_OTHER = "other pages of the kernel"
# A machine's memory that nobody uses is packed by the most that is possible at the level that agents use.
_RATIO_OF_PAGES = 256
# Powers of two that times in microseconds, and pages of a folio, stay far below.
_MOST_POWER = 63
# Nothing in a file is to steer a terminal.
Name = Annotated[str, StringConstraints(pattern=r"^[ -~]*$")]
Power = Annotated[int, Field(ge=0, le=_MOST_POWER + 1)]
Hits = Annotated[int, Field(ge=1, lt=1 << 64)]


@dataclass(frozen=True)
class Lives:
    """Objects of a kind that were allocated and freed while they were watched.

    Parameters
    ----------
    kind : str
        ``slab`` and the name of its cache, ``kmalloc``, or ``page cache``.
    count : float
        Scaled up where only a part of pages was watched.
    sz_bytes : float
        Of all of them together.
    mean_s : float, seconds
    histogram : tuple of (int, int)
        Upper end of a class in powers of two of microseconds, and how many lived so long: counted, not scaled.
    """

    kind: Name
    count: Finite
    sz_bytes: Finite
    mean_s: Finite
    histogram: Annotated[tuple[tuple[Power, Hits], ...], Field(min_length=1)]

    def percentile_s(self, percent: float) -> float:
        """Seconds that this share lived at most, as exact as classes are: between an end and half of it."""
        counts = np.array([count for _, count in self.histogram], dtype=float)
        at = int(np.searchsorted(np.cumsum(counts), percent / 100 * counts.sum()))
        before = float(np.cumsum(counts)[at] - counts[at])
        within = (percent / 100 * counts.sum() - before) / counts[at]
        high_s = 2.0 ** self.histogram[at][0] / 1e6
        return float(high_s / 2 * (1 + within))


@dataclass(frozen=True)
class KernelObjects:
    """What became of the kernel's objects on a machine.

    Parameters
    ----------
    about : mapping
        Of the recording: ``workload``, ``variant``, ``machine``, ``kernel`` and more.
    share : float
        The part of pages whose lives were measured; of other objects all were.
    lost : int
        Births of which the kernel's histograms had no room.
    time_s : sequence of float, seconds
        By the clock of the machine.
    memory_bytes : mapping of str to sequence
        By kind, at these times.
    cache_bytes : mapping of str to float
        Objects in use of the larger slab caches, mean over time.
    lives : sequence of Lives
        Those of most bytes first.
    accesses : mapping of str to float
        By what an accessed page was, empty where nobody counts. A page is what it was when it was looked at, which is
        every two seconds.
    merged : mapping of str to sequence of str
        By a slab cache's name all names of it: the kernel makes one cache of those whose objects are alike.
    """

    about: Mapping[str, Any]
    share: Finite
    lost: int
    time_s: Annotated[Sequence[Finite], Field(min_length=1)]
    memory_bytes: Mapping[Name, Sequence[Finite]]
    cache_bytes: Mapping[Name, Finite]
    lives: Sequence[Lives]
    accesses: Mapping[Name, Finite]
    merged: Mapping[Name, Sequence[Name]]

    @property
    def lives_df(self) -> pd.DataFrame:
        """One row for each kind: ``count``, ``sz_bytes``, ``mean_s``, ``median_s``, ``p90_s``."""
        import pandas as pd

        rows = [
            {
                "kind": one.kind, "count": one.count, "sz_bytes": one.sz_bytes, "mean_s": one.mean_s,
                "median_s": one.percentile_s(50), "p90_s": one.percentile_s(90),
            }
            for one in self.lives
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=["kind", "count", "sz_bytes", "mean_s", "median_s", "p90_s"])

    @property
    def memory_df(self) -> pd.DataFrame:
        """One row for each time since the beginning, ``time_s``, and a column of bytes for each kind."""
        import pandas as pd

        return pd.DataFrame({"time_s": np.array(self.time_s) - self.time_s[0], **self.memory_bytes})

    def mean_life_s(self, prefix: str) -> float | None:
        """Mean life in seconds of all kinds whose names begin so; None where there was none."""
        chosen = [one for one in self.lives if one.kind.startswith(prefix)]
        count = sum(one.count for one in chosen)
        return sum(one.mean_s * one.count for one in chosen) / count if count else None


class _Begin(BaseModel):
    """What is watched."""

    share: Finite = Field(gt=0, le=1)
    merged: dict[Name, list[Name]]


class _Told(BaseModel):
    """All that an agent has told (`damoos.agent.kernel_objects`), by its words.

    Parameters
    ----------
    memory : list of (float, dict, dict)
        Seconds; bytes by kind; bytes by slab cache.
    lives : list of dict
        The kernel's histograms by kind, as text.
    accesses : list of (float, str, str)
        Seconds; page flags and counts, packed.
    """

    model_config = ConfigDict(extra="forbid")

    begin: list[_Begin] = Field(min_length=1)
    memory: list[tuple[Finite, dict[Name, Finite], dict[Name, Finite]]] = []
    lives: list[dict[Literal["damoos_slab", "damoos_kmalloc", "damoos_page_cache"], str]] = []
    lost: list[Whole] = []
    accesses: list[tuple[Finite, str, str]] = []


def of_journal(lines: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> KernelObjects | None:
    """What an agent has told; None where it was not asked to.

    Parameters
    ----------
    lines : sequence of mapping
        Of a journal.
    about : mapping
        Of the recording.

    Raises
    ------
    MeasurementError : a machine has told what cannot be
    """
    try:
        return _of_journal(lines, about)
    except MALFORMED as error:
        raise MeasurementError(f"the machine told of its kernel's objects what cannot be: {in_short(error)}") from None


def _of_journal(lines: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> KernelObjects | None:
    unpack = journal.unpacker(lines)
    by_word: dict[str, list[Any]] = {}
    for line in lines:
        if "objects" in line:
            what, value = unpack.json(line["objects"])
            by_word.setdefault(what, []).append(value)
    if not by_word.get("memory"):
        return None
    told = _Told.model_validate(by_word)
    share = told.begin[0].share
    caches: dict[str, float] = {}
    for _, _, used in told.memory:
        for name, size in used.items():
            caches[name] = caches.get(name, 0.0) + size / len(told.memory)
    texts = told.lives[-1] if told.lives else {}  # there is none if whoever recorded was killed
    lives = [one for name, text in texts.items() for one in _lives(_KINDS[name], text, share)]
    return KernelObjects(
        {name: about[name] for name in _ABOUT if name in about},
        share,
        told.lost[-1] if told.lost else 0,
        [at_s for at_s, *_ in told.memory],
        {kind: [used[kind] for _, used, _ in told.memory] for kind in told.memory[0][1]},
        dict(sorted(caches.items(), key=lambda named: -named[1])),
        sorted(lives, key=lambda one: -one.sz_bytes),
        _accesses(told.accesses, journal.unpacker(lines, _RATIO_OF_PAGES)),
        told.begin[0].merged,
    )


def _accesses(told: Sequence[tuple[float, str, str]], unpack: Unpacker) -> dict[str, float]:
    """Accesses by what each page is; of each message no more is kept than these sums."""
    sums: dict[str, float] = {}
    for _, flags, counts in told:
        of_pages = np.frombuffer(unpack.text(flags), "<u8"), np.frombuffer(unpack.text(counts), "<u4")
        for kind, count in by_kind(*of_pages).items():
            sums[kind] = sums.get(kind, 0.0) + count
    return sums


def _lives(kind: str, text: str, share: float) -> list[Lives]:
    """Lifetimes of objects by slab cache, or of all of a kind together."""
    classes: dict[str, dict[int, int]] = {}
    sums: dict[str, tuple[int, int]] = {}
    for name, power, hits, life_us, size in _ENTRY.findall(text):
        # An entry may be there before an object is counted in it. A life that ends before it begins (as clocks of two
        # events differ) is of the class after the last one.
        if not int(hits) or int(power) == _MOST_POWER + 1:
            continue
        # Pages of a folio are one object.
        if int(power) > _MOST_POWER or int(name if kind == PAGE_CACHE and name else 0) > _MOST_POWER:
            raise ValueError("a histogram of the kernel's has a class that no life can be in")
        bytes_ = int(size) if size else int(hits) * (USUAL_PAGE_BYTES << int(name or 0))
        called = f"{kind} {name}" if name and size else kind
        counts = classes.setdefault(called, {})
        counts[int(power)] = counts.get(int(power), 0) + int(hits)
        lived, sized = sums.get(called, (0, 0))
        sums[called] = lived + int(life_us), sized + bytes_
    found = []
    share = share if kind == PAGE_CACHE else 1.0
    for called, counts in classes.items():
        count, (life_us, sz_bytes) = sum(counts.values()), sums[called]
        found.append(
            Lives(called, count / share, sz_bytes / share, life_us / count / 1e6, tuple(sorted(counts.items())))
        )
    return found


def by_kind(flags: NDArray[np.uint64], counts: NDArray[np.uint32]) -> dict[str, float]:
    """Accesses by what each page is, of pages by their number.

    Parameters
    ----------
    flags : ndarray of shape (n,)
        As of ``/proc/kpageflags``.
    counts : ndarray of shape (m,)
        Accesses; of memory that the kernel has no page for there may be more or fewer.
    """
    known = min(len(flags), len(counts))
    flags, counts = flags[:known], counts[:known]
    left = np.ones(known, dtype=bool)
    sums = {}
    for kind, bits in _PAGE_KINDS:
        chosen = left & ((flags & np.uint64(bits)) != 0)
        sums[kind] = float(counts[chosen].sum(dtype=np.float64))
        left &= ~chosen
    return sums | {_OTHER: float(counts[left].sum(dtype=np.float64))}


def write(objects: KernelObjects, folder: Path) -> Path:
    """Write them into a recording's folder, for its owner's eyes alone.

    Raises
    ------
    StoreError : the file cannot be written
    """
    path = folder / FILE_NAME
    try:
        fill(path, [json.dumps(asdict(objects)).encode()])
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    return path


def _checked(content: object) -> KernelObjects:
    """What a file or a journal says.

    Raises
    ------
    ValueError : it has another form, or numbers that do not belong together
    """
    found = TypeAdapter(KernelObjects).validate_python(content)
    if any(len(sizes) != len(found.time_s) for sizes in found.memory_bytes.values()):
        raise ValueError("a kind of memory has not as many sizes as there are times")
    return found


def read(folder: Path) -> KernelObjects:
    """Read the kernel objects of a recording's folder.

    Raises
    ------
    ConfigError : there are none, or the file is of another form
    """
    path = next((file for file in (folder / FILE_NAME, folder / files.JOURNAL) if file.is_file()), folder)
    try:
        if path.name == FILE_NAME:
            return _checked(parsed(user_file.read_bytes(path), user_file.MADE_BYTES, is_finite=True))
        lines = journal.lines(path) if path.name == files.JOURNAL else []
        # Whoever recorded was killed: all is there but the lives, which come at the end.
        if lines and (found := _of_journal(lines, lines[0].get("about", {}))):
            return _checked(asdict(found))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except MALFORMED:
        raise ConfigError(f"{path}: not a file of kernel objects by 'damoos record'") from None
    raise ConfigError(f"{folder}: the kernel's objects were not watched: damoos record --kernel-objects")
