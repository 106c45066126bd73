"""damo's JSON form of recordings, and ours: a list of records, one for each target, each with its snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np

from damoos.common.unpack import LEAST_BYTES, objects_bytes
from damoos.damon.attrs import Attrs, IntervalsGoal
from damoos.damon.scheme import OPERATIONS
from damoos.recordings.damo_units import COUNTS, PERCENTS, SIZES, TIMES_NS, column, quantity
from damoos.recordings.messages import check_about
from damoos.recordings.recording import Ints, Recording
from damoos.recordings.snapshots import NS, Shot, assemble
from damoos.recordings.targets import snapshots_by_target

Json = dict[str, Any]
_US = 1_000
# By how much the values of a recording take more memory than its text: at most 12 of ours, 19 of the shortest regions.
_MOST_TIMES = 20
_REGION = (
    '{"start":%d,"end":%d,"nr_accesses":{"samples":%d,"percent":null},"age":{"usec":null,"aggr_intervals":%d},'
    '"sz_filter_passed":0}'
)


def parse(text: str, attrs: Attrs | None) -> Recording:
    """The recording of a JSON text.

    Raises
    ------
    ValueError, KeyError, TypeError : it is not of damo's form
    ConfigError : attributes that cannot be
    """
    if objects_bytes(text) > max(LEAST_BYTES, _MOST_TIMES * len(text)):
        raise ValueError("it has more lists, objects and values than a recording of its length")
    # Each snapshot's regions become arrays as soon as they are read, so that only one has them as objects at a time.
    records = json.loads(text, object_hook=_in_columns)
    if not all(isinstance(record, dict) and "snapshots" in record for record in records):
        raise ValueError("expected a list of records with snapshots")
    if not records:
        raise ValueError("it holds no record")
    ours = records[0].get("damoos")
    attrs = _attrs(records, ours, attrs)
    shots = [shot for record in records for shot in _shots(record, attrs)]
    if ours is None:
        stated = any(record.get("intervals") for record in records)
        assumed = ["operations", "nr_regions"] if stated else ["operations", "intervals", "nr_regions"]
        return assemble(shots, attrs, {"assumed": assumed}, None)
    if ours["operations"] not in OPERATIONS or not isinstance(ours["about"], dict):
        raise ValueError("its key 'damoos' was written by another version")
    check_about(ours["about"])
    return assemble(shots, attrs, ours["about"], ours["operations"])


def _in_columns(form: Json) -> Json:
    regions = form.get("regions")
    if not isinstance(regions, list) or "end_time" not in form:
        return form
    accesses = [region["nr_accesses"] for region in regions]
    ages = [region["age"] for region in regions]
    form["regions"] = {
        "start": column([region["start"] for region in regions], SIZES),
        "end": column([region["end"] for region in regions], SIZES),
        "samples": _known(accesses, "samples"),
        "percent": _known(accesses, "percent"),
        "aggr_intervals": _known(ages, "aggr_intervals"),
        "usec": _known(ages, "usec"),
    }
    return form


def _known(forms: Sequence[Json], key: str) -> list[Any] | None:
    values = [fields.get(key) for fields in forms]
    return None if None in values else values


def _attrs(records: Sequence[Json], ours: Json | None, given: Attrs | None) -> Attrs:
    stated = [record["intervals"] for record in records if record.get("intervals") is not None]
    intervals = {(_us(fields["sample_us"]), _us(fields["aggr_us"]), _us(fields["ops_update_us"])) for fields in stated}
    if len(intervals) > 1:
        raise ValueError("its records have different monitoring intervals; damoos reads one context at a time")
    if not intervals:
        if given is None:
            raise ValueError("it has no monitoring intervals: give them, e.g. --intervals 5ms,100ms")
        return given
    sample, aggr, update = intervals.pop()
    if ours is None:
        return Attrs(sample, aggr, update)
    goal = ours.get("intervals_goal")
    least, most = int(ours["nr_regions"]["min"]), int(ours["nr_regions"]["max"])
    return Attrs(sample, aggr, update, least, most, goal and IntervalsGoal(**goal))


def _us(value: Any) -> int:
    return int(quantity(value, TIMES_NS, _US)) // _US


def _shots(record: Json, attrs: Attrs) -> Iterator[Shot]:
    target = tuple(str(record.get(key)) for key in ("kdamond_idx", "context_idx", "scheme_idx", "target_id"))
    for snapshot in record["snapshots"]:
        columns = snapshot["regions"]
        yield Shot(
            target,
            None if snapshot["start_time"] is None else int(quantity(snapshot["start_time"], TIMES_NS)),
            int(quantity(snapshot["end_time"], TIMES_NS)),
            columns["start"],
            columns["end"],
            _samples(columns, attrs),
            _age(columns, attrs, snapshot.get("sample_interval_us")),
        )


def _samples(columns: Json, attrs: Attrs) -> Ints:
    if columns["samples"] is not None:
        return column(columns["samples"], COUNTS)
    if columns["percent"] is None:
        raise ValueError("a snapshot has regions without nr_accesses")
    shares = [float(quantity(value, PERCENTS)) / 100 for value in columns["percent"]]
    samples: Ints = np.rint(np.array(shares) * attrs.max_nr_accesses).astype(np.int64)
    return samples


def _age(columns: Json, attrs: Attrs, tuned: Any) -> Ints:
    """Ages in the intervals of the record; where the kernel tuned these, a snapshot says what its own were."""
    if columns["aggr_intervals"] is not None:
        ages = column(columns["aggr_intervals"], COUNTS)
        if tuned is None:
            return ages
        return ages * int(quantity(tuned, TIMES_NS, _US)) // (attrs.sample_us * _US)
    if columns["usec"] is None:
        raise ValueError("a snapshot has regions without an age")
    return column(columns["usec"], TIMES_NS, _US) // (attrs.aggr_us * _US)


def pieces(recording: Recording) -> Iterator[str]:
    """The JSON text of a recording, snapshot by snapshot."""
    attrs = recording.attrs
    head: Json = {
        "damoos": {
            "operations": recording.operations,
            "nr_regions": {"min": attrs.min_nr_regions, "max": attrs.max_nr_regions},
            **({} if attrs.goal is None else {"intervals_goal": asdict(attrs.goal)}),
            "about": dict(recording.about),
        }
    }
    for number, (target, snapshots) in enumerate(snapshots_by_target(recording.target)):
        record = {
            **head,
            "kdamond_idx": 0,
            "context_idx": 0,
            "intervals": {
                "sample_us": attrs.sample_us,
                "aggr_us": attrs.aggr_us,
                "ops_update_us": attrs.update_us,
            },
            "scheme_idx": None,
            "target_id": target,
            "scheme_filters": [],
        }
        head = {}
        yield ("," if number else "[") + json.dumps(record, separators=(",", ":"))[:-1] + ',"snapshots":['
        for nth, snapshot in enumerate(snapshots.tolist()):
            yield ("," if nth else "") + _snapshot(recording, snapshot)
        yield "]}"
    yield "]"


def _snapshot(recording: Recording, number: int) -> str:
    rows = slice(int(recording.first[number]), int(recording.first[number + 1]))
    columns = (recording.start, recording.end, recording.nr_accesses, recording.age)
    regions = ",".join(_REGION % row for row in zip(*(column[rows].tolist() for column in columns), strict=True))
    start_ns, end_ns = (round(Fraction(float(times[number])) * NS) for times in (recording.start_s, recording.end_s))
    total = int(recording.sz_bytes[rows].sum())
    return f'{{"start_time":{start_ns},"end_time":{end_ns},"regions":[{regions}],"total_bytes":{total}}}'
