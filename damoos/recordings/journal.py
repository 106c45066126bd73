"""What a recording agent sends, kept as it comes, and made into a recording.

A journal is a file of JSON lines: the words of the recording first, then what the agent sent. It is written line by
line, so that whatever ends the writer leaves a recording of all that had come until then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from damoos import regular_file
from damoos.common import user_file
from damoos.common.unpack import LEAST_BYTES, MALFORMED, RATIO, Unpacker, in_short, parsed
from damoos.damon.attrs import Attrs
from damoos.damon.scheme import OPERATIONS
from damoos.errors import ConfigError, MachineError, MeasurementError, StoreError
from damoos.ownership import make_folders
from damoos.recordings import messages
from damoos.recordings.recording import Recording
from damoos.recordings.ring_buffer import events, snapshots
from damoos.recordings.snapshots import check
from damoos.recordings.targets import snapshots_by_target

MODE = 0o600
# No line of a journal is longer: an agent's messages are shorter.
LINE_BYTES = 64 << 20
# What a line takes in memory beside its strings, which may be empty.
_COST_OF_LINE = 1 << 10
_COLUMNS = ("start", "end", "nr_accesses", "age")


class Journal:
    """Takes an agent's messages; an instance is the ``sink`` of a run.

    Parameters
    ----------
    operations : str
    attrs : Attrs
    about : mapping
        What is known of the recording beforehand.
    path : Path or None
        Where lines are kept as they come; None for in memory only.

    Raises
    ------
    MachineError : a message is none of a recording's, or all of them together are larger than a recording can be
    """

    def __init__(
        self, operations: str, attrs: Attrs, about: Mapping[str, Any] | None = None, path: Path | None = None
    ) -> None:
        self.path = path
        self.operations = operations
        self._words = {"operations": operations, "attrs": asdict(attrs), "about": dict(about or {})}
        self._lines: list[dict[str, Any]] = []
        self._sent_bytes = 0
        self._file: int | None = None

    def __call__(self, message: Mapping[str, Any]) -> None:
        """Keep one message; a recording that begins anew, after a lost machine, replaces what there was."""
        line = {name: value for name, value in message.items() if name != "event"}
        try:
            messages.checked(line)
        except ValueError as error:
            raise MachineError(f"the machine sent what is no part of a recording: {in_short(error)}") from None
        if "begin" in line:
            self.close()
            self._lines, self._sent_bytes = [], 0
            line |= self._words
            if self.path:
                self._file = self._opened(self.path)
        self._sent_bytes += _sz_bytes(line) + _COST_OF_LINE
        if self._sent_bytes > user_file.MADE_BYTES:
            raise MachineError(f"the machine sent a recording of more than {user_file.MADE_BYTES >> 20} MiB")
        self._lines.append(line)
        if self._file is not None:
            try:
                os.write(self._file, json.dumps(line).encode() + b"\n")
            except OSError as error:
                raise StoreError(f"{self.path}: {error.strerror}") from None

    @staticmethod
    def _opened(path: Path) -> int:
        try:
            make_folders(path.parent, for_group=False)
            path.unlink(missing_ok=True)
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def recording(self, about: Mapping[str, Any]) -> Recording:
        """What has come so far, and what else is known of it by now.

        Raises
        ------
        MeasurementError : nothing has, or what has is no recording
        """
        try:
            return _recording(self._lines, about)
        except MALFORMED as error:
            raise MeasurementError(f"the machine sent what is no recording: {in_short(error)}") from None

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What has come so far, a line each."""
        return self._lines


def read(path: Path) -> Recording:
    """The recording of a journal that nobody had the time to finish.

    Raises
    ------
    ConfigError : it is none
    MeasurementError : nothing had come
    """
    try:
        return _recording(lines(path), {})
    except MALFORMED as error:
        raise no_journal(path, error) from None


def lines(path: Path) -> list[dict[str, Any]]:
    """What the agent sent, of a journal that nobody had the time to finish; the words of the recording come first.

    Raises
    ------
    ConfigError : it is none
    """
    try:
        with regular_file.opened(path) as file:
            return list(_lines_of(file))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except MALFORMED as error:
        raise no_journal(path, error) from None


def _lines_of(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    left = user_file.MADE_BYTES
    while text := file.readline(LINE_BYTES):
        left -= len(text)
        if left < 0 or len(text) == LINE_BYTES:
            raise ValueError("it, or a line of it, is longer than that of any recording")
        if text.endswith(b"\n"):  # the last one may have been cut off
            line = parsed(text, LEAST_BYTES)
            messages.checked(line)
            yield line


def no_journal(path: Path, error: BaseException) -> ConfigError:
    """The error of a file that is not what `Journal` writes."""
    return ConfigError(f"{path}: not a journal of 'damoos record': {in_short(error)}")


def _sz_bytes(line: Mapping[str, Any]) -> int:
    return sum(len(value) for value in line.values() if isinstance(value, str))


def unpacker(lines: Sequence[Mapping[str, Any]], ratio: int = RATIO) -> Unpacker:
    """What unpacks all messages of a recording together."""
    return Unpacker.of(sum(map(_sz_bytes, lines)), ratio)


def _recording(lines: list[dict[str, Any]], about: Mapping[str, Any]) -> Recording:
    if not lines:
        raise MeasurementError("the recording is empty: the agent sent no data")
    first, *rest = lines
    begin, attrs = messages.Begin.model_validate(first["begin"]), Attrs.from_json(first["attrs"])
    if first["operations"] not in OPERATIONS:
        raise ValueError(f"'{first['operations']}' is no operations set of DAMON's")
    messages.check_about(first["about"])
    unpack = unpacker(lines)
    resident = [unpack.json(line["resident"]) for line in rest if "resident" in line]
    messages.check_resident(resident)
    chunks = (unpack.text(line["data"]) for line in rest if "data" in line)
    columns = _traced(chunks, begin, attrs) if begin.source == "trace" else _looked_at(chunks, attrs)
    known = {
        **first["about"],
        **about,
        "source": begin.source,
        "resident": resident,
        "page_bytes": begin.page_bytes,
    }
    recording = Recording(first["operations"], attrs, **columns, about=known)
    check(recording)
    return recording


def _traced(chunks: Iterable[bytes], begin: messages.Begin, attrs: Attrs) -> dict[str, Any]:
    seconds, rows = events(chunks, begin.format, begin.page, begin.page_bytes)
    whole = snapshots(seconds, rows)
    counts = whole.stop - whole.first
    kept = np.repeat(whole.first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    columns = _timed(_numbered(whole.target), whole.end_s, counts, attrs)
    columns |= {name: rows[name][kept].astype(np.int64) for name in _COLUMNS}
    return columns | ({"age": ages_in_first_intervals(columns, attrs)} if attrs.goal else {})


def _looked_at(chunks: Iterable[bytes], attrs: Attrs) -> dict[str, Any]:
    """Snapshots of regions that were looked at now and then, each of the aggregation that had just ended."""
    looks = list(chunks)
    ends = np.array([np.frombuffer(look[:8], "<f8")[0] for look in looks])
    tables = [np.frombuffer(look[8:], "<i8").reshape(-1, 4) for look in looks]
    counts = np.array([len(table) for table in tables], dtype=np.int64)
    columns = np.concatenate(tables) if tables else np.zeros((0, 4), dtype=np.int64)
    targets = np.zeros(len(looks), dtype=np.int64)
    return _timed(targets, ends, counts, attrs) | dict(zip(_COLUMNS, columns.T, strict=True))


def _timed(targets: Any, ends: Any, counts: Any, attrs: Attrs) -> dict[str, Any]:
    """An aggregation begins when the one before it has ended; a target's first one lasts as long as it should."""
    starts = ends - attrs.aggr_us / 1e6
    for _, at in snapshots_by_target(targets):
        starts[at[1:]] = ends[at[:-1]]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return {"target": targets, "start_s": starts, "end_s": ends, "first": first}


def ages_in_first_intervals(columns: Mapping[str, Any], attrs: Attrs) -> Any:
    """Ages in the aggregation intervals of the recording, where the kernel tuned the intervals under way.

    An age counts the intervals that were in force at its snapshot: the kernel converts ages when it changes them. A
    snapshot's own interval is the time since the one before of its target; of three neighbours the middle one counts,
    as a snapshot that was lost makes one twice as long.

    Parameters
    ----------
    columns : mapping
        ``target, start_s, end_s, first, age`` of a recording.
    attrs : Attrs
        As the recording began.

    References
    ----------
    damon_update_monitoring_results() in mm/damon/core.c
    """
    spans_s = columns["end_s"] - columns["start_s"]
    intervals_s = spans_s.copy()
    for _, at in snapshots_by_target(columns["target"]):
        if len(at) > 2:
            intervals_s[at[1:-1]] = np.median([spans_s[at[:-2]], spans_s[at[1:-1]], spans_s[at[2:]]], axis=0)
    of_region = np.repeat(intervals_s, np.diff(columns["first"]))
    return np.round(columns["age"] * of_region * 1e6 / attrs.aggr_us).astype(np.int64)


def _numbered(targets: Any) -> Any:
    """Numbers from 0 in the order in which targets were first seen; old kernels tell an address, not a number."""
    _, first, number = np.unique(targets, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number].astype(np.int64)
