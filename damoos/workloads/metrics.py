"""What a workload's own output says of its performance: declared in its file, read after each run."""

from __future__ import annotations

import base64
import csv
import fnmatch
import io
import math
import re
from array import array
from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from damoos.agent.metric_source import at_path, number
from damoos.agent.regex import RegexProcess, groups_in
from damoos.common.toml_file import Table
from damoos.common.unpack import MALFORMED, Unpacker, parsed
from damoos.errors import MeasurementError
from damoos.workloads.run_paths import RunPath

# Of an encoded histogram: a cookie and a length, then what zlib has packed.
_HDR_HEAD_BYTES = 8
# Five digits of all microseconds of an hour, or four of all that 64 bits hold, take less.
_MOST_HISTOGRAM_BYTES = 16 << 20
_MOST_DIGITS = 5
# Of all lines together: an hour's of four operations of YCSB, one a second, have 7 GB. It bounds the time to read them.
_MOST_HDR_BYTES = 16 << 30
_MOST_HDR_LINES = 100_000
# Of the totals, one for each layout: a histogram that grows has 60 of three digits, 15 MiB together.
_MOST_KEPT_BYTES = 64 << 20
SOURCES = ("regex", "json", "hgrm", "hdr", "values")


class Metric(Table):
    """``[real.metrics.NAME]``: where a number is to be found; the name carries its unit (``p99_ms``).

    Parameters
    ----------
    better : {"higher", "lower"}
        Which way is better.
    regex : str
        Its first group is the number; the last match counts.
    json : str
        Path of the number in standard output, which is JSON: ``jobs.0.read.iops``.
    hgrm : float
        A percentile of the table that HdrHistogram prints to standard output (``Value Percentile TotalCount``).
    hdr : str
        An HdrHistogram log that the run leaves in its folder, or a pattern for several.
    values : str
        The same for tables of single values.
    column : int
        Of ``values``, counted from 0, split at blanks or commas.
    percentile : float
        Of all values in the files of ``hdr`` or ``values``.
    scale : float
        What is found is multiplied by it.
    """

    better: Literal["higher", "lower"]
    regex: str | None = None
    json_path: str | None = Field(None, alias="json")  # Pydantic has a method named json
    hgrm: float | None = Field(None, ge=0, le=100)
    hdr: RunPath | None = None
    values: RunPath | None = None
    column: int = 0
    percentile: float | None = Field(None, ge=0, le=100)
    scale: float = 1.0

    @model_validator(mode="after")
    def _one_source(self) -> Metric:
        sources = [name for name in ("regex", "json_path", "hgrm", "hdr", "values") if getattr(self, name) is not None]
        if len(sources) != 1:
            raise ValueError(f"a metric is read from exactly one of {', '.join(SOURCES)}")
        if self.file and self.percentile is None:
            raise ValueError("a metric from a file of latencies needs its percentile")
        if any("**" in part and part != "**" for part in (self.file or "").split("/")):
            raise ValueError(f"'{self.file}': ** stands for any folders, and is a part of a path by itself")
        if self.regex is not None:
            try:
                groups = groups_in(self.regex)
            except ValueError as error:
                raise ValueError(f"regex: {error}") from None
            if groups != 1:
                raise ValueError(f"regex: it has {groups} groups; it needs one, around the number")
        return self

    @property
    def file(self) -> str | None:
        """Pattern of the files that it is read from; None if it is read from the output."""
        return self.hdr or self.values

    def read(self, name: str, stdout: str, stderr: str, files: Mapping[str, str]) -> float:
        """The metric's value.

        Raises
        ------
        MeasurementError : it is not there, or not a finite number
        """
        try:
            value = self.scale * self._found(stdout, stderr, files)
        except MALFORMED as error:
            raise MeasurementError(f"no metric '{name}' in the output: {error}") from None
        if not math.isfinite(value):
            raise MeasurementError(f"metric '{name}' is {value}")
        return value

    def _found(self, stdout: str, stderr: str, files: Mapping[str, str]) -> float:
        if self.regex is not None:
            with RegexProcess() as process:
                found = process.matches(self.regex, f"{stdout}\n{stderr}")
            if not found.count:
                raise ValueError(f"nothing matches {self.regex!r}")
            return number(found.last)
        if self.json_path is not None:
            return at_path(parsed(stdout), self.json_path)
        if self.hgrm is not None:
            return _percentile_of_table(stdout, self.hgrm)
        pattern = self.file or ""
        texts = [text for path, text in files.items() if fnmatch.fnmatch(path, pattern)]
        if not texts:
            raise ValueError(f"the run wrote no file '{pattern}'")
        assert self.percentile is not None
        return _of_hdr_logs(texts, self.percentile) if self.hdr else _of_values(texts, self.column, self.percentile)


def _percentile_of_table(text: str, percentile: float) -> float:
    """The first value of a printed HdrHistogram whose percentile is at least the one that is asked for."""
    for line in text.splitlines():
        words = line.split()
        if len(words) in (3, 4) and re.fullmatch(r"[\d.]+", words[0]) and re.fullmatch(r"[01]\.\d+", words[1]):
            value, upto = float(words[0]), float(words[1])
            if upto * 100 >= percentile - 1e-9:
                return value
    raise ValueError("standard output has no HdrHistogram percentile table")


def _of_hdr_logs(texts: list[str], percentile: float) -> float:
    """A percentile of all intervals of HdrHistogram logs together."""
    from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException
    from hdrh.histogram import HdrHistogram

    # By their layouts: to add a histogram to one of another layout takes a thousand times as long.
    totals: dict[tuple[int, int, int], HdrHistogram] = {}
    unpack = Unpacker.of(sum(map(len, texts)))
    sum_bytes = kept_bytes = 0
    for nth, encoded in enumerate(_hdr_lines(texts)):
        # The decoder would unpack whatever it is given, and make room for all that the header asks for.
        sz_bytes = _histogram_bytes(unpack.zlib(base64.b64decode(encoded)[_HDR_HEAD_BYTES:]))
        sum_bytes += sz_bytes
        if nth >= _MOST_HDR_LINES or sum_bytes > _MOST_HDR_BYTES:
            raise ValueError(
                f"the HdrHistogram log has more than {_MOST_HDR_LINES} intervals, or they have more than"
                f" {_MOST_HDR_BYTES >> 30} GiB of counters together; have the run log longer intervals, or fewer digits"
            )
        try:
            interval = HdrHistogram.decode(encoded.encode())
        except (HdrCookieException, HdrHistogramSettingsException, HdrLengthException) as error:
            raise ValueError(f"a line of the HdrHistogram log cannot be decoded: {error!r}") from None
        layout = interval.bucket_count, interval.sub_bucket_count, interval.unit_magnitude
        if layout in totals:
            totals[layout].add(interval)
            interval.encoder = None  # they refer to each other, and so would stay until the collector runs
            continue
        totals[layout] = interval
        kept_bytes += sz_bytes
        if kept_bytes > _MOST_KEPT_BYTES:
            raise ValueError("the intervals of the HdrHistogram log have too many different ranges or digits")
    # A histogram can only add what it has a place for.
    ordered = sorted(totals.values(), key=lambda part: -part.highest_trackable_value)
    for part in ordered[1:]:
        ordered[0].add(part)
    if not ordered or ordered[0].get_total_count() == 0:
        raise ValueError("the HdrHistogram log holds no value")
    return float(ordered[0].get_value_at_percentile(percentile))


def _hdr_lines(texts: list[str]) -> Iterator[str]:
    """The encoded histograms of HdrHistogram logs."""
    for text in texts:
        for line in io.StringIO(text):
            encoded = line.rsplit(",", 1)[-1].strip()
            if not line.startswith(("#", '"')) and encoded.startswith("HIST"):
                yield encoded


def _histogram_bytes(unpacked: bytes) -> int:
    """What the counters of a histogram take, by its header.

    Raises
    ------
    ValueError : that is more than an honest one takes
    """
    from hdrh.codec import PayloadHeader
    from hdrh.histogram import get_bucket_count

    header = PayloadHeader.from_buffer_copy(unpacked)
    if not 1 <= header.significant_figures <= _MOST_DIGITS or not header.lowest_trackable_value:
        raise ValueError("a line of the HdrHistogram log has a header that cannot be")
    nr_sub_buckets = 1 << (2 * 10**header.significant_figures - 1).bit_length()
    unit_bits = header.lowest_trackable_value.bit_length() - 1
    nr_buckets = get_bucket_count(header.highest_trackable_value, nr_sub_buckets, unit_bits)
    sz_bytes = 8 * (nr_buckets + 1) * nr_sub_buckets // 2
    if sz_bytes > _MOST_HISTOGRAM_BYTES:
        raise ValueError(
            f"a histogram of the HdrHistogram log has {sz_bytes >> 20} MiB of counters, and"
            f" {_MOST_HISTOGRAM_BYTES >> 20} MiB are allowed; have the run log fewer digits, or a lower highest value"
        )
    return int(sz_bytes)


def _of_values(texts: list[str], column: int, percentile: float) -> float:
    values = array("d")  # a list would take several times as much as the text
    for text in texts:
        try:
            for row in csv.reader(line.replace(",", " ") for line in io.StringIO(text) if line.strip()):
                values.append(number(row[0].split()[column]))
        except csv.Error as error:
            raise ValueError(f"the file is no table of values: {error}") from None
    if not values:
        raise ValueError("the file of values is empty")
    return float(np.percentile(values, percentile, method="inverted_cdf"))
