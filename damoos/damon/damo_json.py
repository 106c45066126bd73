"""Schemes in the JSON that damo, the DAMON user-space tool, reads and writes.

The same form is damoos's own on the wire to the agent and in its results, so there is one serialisation, and
whatever damoos stores can be handed to ``damo start``. Quantities are written with their units, as damo does.

References
----------
damo 3.4: ``damo args damon --format json``
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from damoos.damon.attrs import Attrs, IntervalsGoal, Probe, ProbeFilter
from damoos.damon.filters import Filter
from damoos.damon.modules import Module
from damoos.damon.pattern import AccessPattern
from damoos.damon.quotas import GOAL_METRICS, Goal, Quotas
from damoos.damon.scheme import ULONG_MAX, Context, Dest, Scheme, Watermarks
from damoos.errors import ConfigError, SchemeError, nearest
from damoos.units import MOST, TIME_UNITS_US, format_percent, format_us, parse_bytes, parse_percent, quoted

Json = dict[str, Any]
# What Python raises where a document, which may be another person's, has other values than damo writes.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)

_TIMES = {"ns": Fraction(1, 1000), **{unit: Fraction(time_us) for unit, time_us in TIME_UNITS_US.items()}}
_TIME = re.compile(r"([\d.,]+)\s*([a-z]+)\s*")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
# Units of counts: what an access pattern counts in place of a share or a time.
_SAMPLES, _AGGREGATIONS = "samples", "aggr_intervals"
# damo's word for the largest value.
_MAX = "max"


def context_to_json(context: Context, pid: int | None = None) -> Json:
    """A whole document for ``damo start``: one kdamond with one context."""
    attrs = context.attrs
    intervals = {
        "sample_us": format_us(attrs.sample_us),
        "aggr_us": format_us(attrs.aggr_us),
        "ops_update_us": format_us(attrs.update_us),
        **({} if attrs.goal is None else {"intervals_goal": _intervals_goal(attrs.goal)}),
    }
    inner = {
        "ops": context.operations,
        "addr_unit": _bytes(attrs.addr_unit),
        "targets": [{"pid": pid, "regions": []}],
        "intervals": intervals,
        "nr_regions": {"min": str(attrs.min_nr_regions), "max": str(attrs.max_nr_regions)},
        "probes": [_probe(probe) for probe in attrs.probes],
        "pause": context.pause,
        "schemes": [scheme_to_json(scheme) for scheme in context.schemes],
    }
    kdamond = {"refresh_ms": context.refresh_ms, "contexts": [inner]}
    if context.module:  # which damo drives by another command
        kdamond["module"] = {"name": context.module.name, "parameters": dict(context.module.parameters)}
    return {"kdamonds": [kdamond]}


def context_from_json(document: Json) -> Context:
    """Reads a document with one kdamond and one context, of damo's or of `context_to_json`.

    Raises
    ------
    SchemeError : a key is missing, a value cannot be, or there are several kdamonds or contexts
    """
    try:
        kdamonds = document["kdamonds"]
        contexts = [context for kdamond in kdamonds for context in kdamond["contexts"]]
        if len(kdamonds) != 1 or len(contexts) != 1:
            raise SchemeError(
                f"one kdamond with one context is taken; the document has {len(kdamonds)} kdamonds"
                f" and {len(contexts)} contexts"
            )
        (context,) = contexts
        attrs, module = _attrs(context), kdamonds[0].get("module")
        return Context(
            schemes=tuple(scheme_from_json(scheme, attrs) for scheme in context.get("schemes", ())),
            operations=context["ops"],
            attrs=attrs,
            pause=_flag(context.get("pause", False)),
            refresh_ms=_number(kdamonds[0].get("refresh_ms", 0)),
            module=Module(module["name"], module["parameters"]) if module else None,
        )
    except SchemeError:
        raise
    except (ConfigError, *_MALFORMED) as error:
        raise SchemeError(f"not a DAMON context in damo's form: {repr(error)[:200]}") from None


def scheme_to_json(scheme: Scheme) -> Json:
    """One scheme in damo's form."""
    pattern, quotas, marks = scheme.pattern, scheme.quotas, scheme.watermarks
    return {
        "action": scheme.action,
        **({} if scheme.target_nid is None else {"target_nid": scheme.target_nid}),
        "dests": [{"id": dest.id, "weight": dest.weight} for dest in scheme.dests],
        "access_pattern": {
            "sz_bytes": _range(_bytes(pattern.min_sz_bytes), pattern.max_sz_bytes, _bytes),
            "nr_accesses": _range(
                format_percent(pattern.min_freq),
                Fraction(100) if pattern.max_freq is None else pattern.max_freq,
                format_percent,
            ),
            "age": _range(format_us(pattern.min_age_us), pattern.max_age_us, format_us),
        },
        "apply_interval_us": format_us(scheme.apply_interval_us),
        "quotas": {
            "time_ms": f"{quotas.time_ms} ms",
            "sz_bytes": _bytes(quotas.sz_bytes),
            "reset_interval_ms": f"{quotas.reset_interval_ms} ms",
            "fail_charge_num": str(quotas.fail_charge[0]),
            "fail_charge_denom": str(quotas.fail_charge[1]),
            "goals": [_goal(goal) for goal in quotas.goals],
            "goal_tuner": quotas.goal_tuner,
            "weights": {
                "sz_permil": _permil(quotas.weight_sz_permil),
                "nr_accesses_permil": _permil(quotas.weight_nr_accesses_permil),
                "age_permil": _permil(quotas.weight_age_permil),
            },
        },
        "watermarks": {
            "metric": marks.metric,
            "interval_us": format_us(marks.interval_us),
            "high_permil": _permil(marks.high_permil),
            "mid_permil": _permil(marks.mid_permil),
            "low_permil": _permil(marks.low_permil),
        },
        "filters": [_filter(one) for one in scheme.filters],
        # damo has this among the statistics, which are not what is asked for.
        **({"max_nr_snapshots": scheme.max_nr_snapshots} if scheme.max_nr_snapshots else {}),
    }


def scheme_from_json(form: Json, attrs: Attrs | None = None) -> Scheme:
    """Reads what `scheme_to_json` or damo wrote.

    Parameters
    ----------
    attrs : Attrs or None
        What counts of samples and aggregations are of; None for the default ones.
    """
    attrs = attrs or Attrs()
    pattern = form.get("access_pattern", {})
    size, freq, age = (pattern.get(name, {}) for name in ("sz_bytes", "nr_accesses", "age"))
    target = form.get("target_nid")
    return Scheme(
        action=form.get("action", "stat"),
        pattern=AccessPattern(
            _size(size.get("min", 0)),
            _upper(size, _size),
            _share(freq.get("min", 0), attrs),
            _upper_share(freq, attrs),
            _age(age.get("min", 0), attrs),
            _upper(age, lambda value: _age(value, attrs)),
        ),
        apply_interval_us=_us(form.get("apply_interval_us") or 0),
        quotas=_quotas_from(form.get("quotas", {})),
        watermarks=_watermarks_from(form.get("watermarks", {})),
        filters=tuple(_filter_from(fields) for fields in form.get("filters", ())),
        # damo writes 0 for a migration whose target was not given; so does the kernel.
        target_nid=None if target is None else _number(target),
        dests=tuple(Dest(_number(dest["id"]), _number(dest["weight"])) for dest in form.get("dests", ())),
        max_nr_snapshots=_number(form.get("max_nr_snapshots", 0)),
    )


def _attrs(context: Json) -> Attrs:
    usual, intervals, regions = Attrs(), context.get("intervals", {}), context.get("nr_regions", {})
    return Attrs(
        _us(intervals.get("sample_us", usual.sample_us)),
        _us(intervals.get("aggr_us", usual.aggr_us)),
        _us(intervals.get("ops_update_us", usual.update_us)),
        _number(regions.get("min", usual.min_nr_regions)),
        _number(regions.get("max", usual.max_nr_regions)),
        _intervals_goal_from(intervals.get("intervals_goal")),
        _size(context.get("addr_unit", 1)),
        tuple(_probe_from(probe) for probe in context.get("probes", ())),
    )


def _intervals_goal(goal: IntervalsGoal) -> Json:
    return {
        "access_bp": f"{goal.access_bp / 100:g} %",
        "aggrs": str(goal.aggrs),
        "min_sample_us": format_us(goal.min_sample_us),
        "max_sample_us": format_us(goal.max_sample_us),
    }


def _intervals_goal_from(form: Json | None) -> IntervalsGoal | None:
    aggrs = _number(form["aggrs"]) if form else 0
    if not form or not aggrs:
        return None
    return IntervalsGoal(
        _share_of(form["access_bp"], 100), aggrs, _us(form["min_sample_us"]), _us(form["max_sample_us"])
    )


def _probe(probe: Probe) -> Json:
    filters = [
        {"filter_type": one.type, "matching": one.matching, "allow": one.allow, "path": one.memcg_path or None}
        for one in probe.filters
    ]
    return {"filters": filters, "weight": probe.weight}


def _probe_from(form: Json) -> Probe:
    filters = (
        ProbeFilter(one["filter_type"], _flag(one["matching"]), _flag(one["allow"]), one.get("path") or "")
        for one in form["filters"]
    )
    return Probe(tuple(filters), _number(form.get("weight") or 0))


def _goal(goal: Goal) -> Json:
    unit = " us" if GOAL_METRICS[goal.metric] == "us" else ""
    return {
        "metric": goal.metric,
        "complement": False,
        "nid": goal.nid,
        "memcg_path": goal.memcg_path or None,
        "target_value": f"{goal.target_value}{unit}",
        "current_value": str(goal.current_value),
        **({"feed": goal.feed} if goal.feed else {}),
    }


def _goal_from(form: Json) -> Goal:
    if _flag(form.get("complement", False)):
        raise SchemeError(f"quota goal {form['metric']}: complement is of no kernel that damoos knows")
    readers: dict[str, Callable[[Any], int]] = {"us": _us, "bp": lambda value: _share_of(value, 100), "count": _number}
    read = readers[GOAL_METRICS.get(form["metric"], "count")]
    return Goal(
        form["metric"],
        read(form["target_value"]),
        _number(form.get("current_value", 0)),
        _number(form.get("nid") or 0),
        form.get("memcg_path") or "",
        form.get("feed", ""),
    )


def _quotas_from(form: Json) -> Quotas:
    weights = form.get("weights", {})
    reset = form.get("reset_interval_ms", 0)
    return Quotas(
        time_ms=_us(form.get("time_ms", 0), plain=1000) // 1000,
        sz_bytes=_size(form.get("sz_bytes", 0)),
        # An interval that never ends is how damo says that there is no quota.
        reset_interval_ms=0 if _is_max(reset) else _us(reset, plain=1000) // 1000,
        weight_sz_permil=_share_of(weights.get("sz_permil", 0), 10),
        weight_nr_accesses_permil=_share_of(weights.get("nr_accesses_permil", 0), 10),
        weight_age_permil=_share_of(weights.get("age_permil", 0), 10),
        goals=tuple(_goal_from(fields) for fields in form.get("goals", ())),
        goal_tuner=form.get("goal_tuner", "consist"),
        fail_charge=(_number(form.get("fail_charge_num", 0)), _number(form.get("fail_charge_denom", 0))),
    )


def _watermarks_from(form: Json) -> Watermarks:
    return Watermarks(
        metric=form.get("metric", "none"),
        interval_us=_us(form.get("interval_us", 0)),
        high_permil=_share_of(form.get("high_permil", 0), 10),
        mid_permil=_share_of(form.get("mid_permil", 0), 10),
        low_permil=_share_of(form.get("low_permil", 0), 10),
    )


def _filter(one: Filter) -> Json:
    fields: Json = {"filter_type": one.type, "matching": one.matching, "allow": one.allow}
    if one.type == "memcg":
        fields["memcg_path"] = one.memcg_path
    elif one.type == "addr":
        fields["address_range"] = {"start": one.addr_start, "end": one.addr_end}
        fields |= {} if one.nid is None else {"nid": one.nid}
    elif one.type == "hugepage_size":
        fields["hugepage_size"] = [_bytes(one.min_sz_bytes), _bytes(one.max_sz_bytes)]
    elif one.type == "target":
        fields["damon_target_idx"] = one.target_idx
    return fields


def _filter_from(form: Json) -> Filter:
    span, sizes = form.get("address_range") or {}, form.get("hugepage_size") or (0, 0)
    return Filter(
        type=form["filter_type"],
        matching=_flag(form.get("matching", True)),
        allow=_flag(form.get("allow", form.get("filter_pass", False))),
        memcg_path=form.get("memcg_path") or "",
        addr_start=_number(span.get("start", 0)),
        addr_end=_number(span.get("end", 0)),
        min_sz_bytes=_size(sizes[0]),
        max_sz_bytes=_size(sizes[1]),
        target_idx=_number(form.get("damon_target_idx") or 0),
        nid=None if form.get("nid") is None else _number(form["nid"]),
    )


# Quantities: text with a unit, or a number in the unit that the key names.


def _bytes(size: int) -> str:
    return f"{size} B"


def _permil(value: int) -> str:
    return format_percent(Fraction(value, 10))


def _range(low: str, high: Any, form: Callable[[Any], str]) -> Json:
    return {"min": low, "max": _MAX if high is None else form(high)}


def _is_max(value: Any) -> bool:
    return value == _MAX or (isinstance(value, (int, float)) and value >= ULONG_MAX)


def _upper(form: Mapping[str, Any], read: Callable[[Any], int]) -> int | None:
    high = form.get("max", _MAX)
    return None if _is_max(high) else read(high)


def _number(value: Any) -> int:
    return _whole(value.replace(",", "") if isinstance(value, str) else value)


def _whole(value: str | float | Fraction) -> int:
    """A number that a kernel's 64 bits can hold, without what is behind its point.

    Raises
    ------
    SchemeError : it is larger
    """
    whole = int(value)
    if abs(whole) > MOST:
        raise SchemeError(f"{quoted(str(value))} is more than {MOST}, which nothing can be")
    return whole


def _flag(value: Any) -> bool:
    return value.lower() in ("true", "y", "yes", "1") if isinstance(value, str) else bool(value)


def _size(value: Any) -> int:
    if value in ("min", _MAX):
        return 0 if value == "min" else ULONG_MAX
    if not isinstance(value, str):
        return _whole(value)
    # damo rounds what it prints: 1.001 KiB is what it makes of 1025 bytes, and reads as 1025.
    match = _SIZE.fullmatch(value.replace(",", ""))
    return _whole(Fraction(match[1]) * parse_bytes(f"1{match[2]}")) if match else parse_bytes(value)


def _us(value: Any, plain: int = 1) -> int:
    """Microseconds of text such as ``1 m 30 s``; a bare number counts ``plain`` microseconds."""
    if not isinstance(value, str):
        return _whole(value * plain)
    parts = _TIME.findall(value)
    if not parts or _TIME.sub("", value).strip():
        return _whole(_number(value) * plain)
    if unknown := next((unit for _, unit in parts if unit not in _TIMES), ""):
        raise SchemeError(f"'{value}': unknown time unit '{unknown}'{nearest(unknown, _TIMES)}")
    return _whole(sum((_in_us(number, unit) for number, unit in parts), Fraction(0)))


def _in_us(number: str, unit: str) -> Fraction:
    return Fraction(number.replace(",", "")) * _TIMES[unit]


def _text(value: Any) -> str:
    """A value as text; only one that is a text or a number, as all others can be of any size.

    Raises
    ------
    TypeError : it is another one
    """
    if not isinstance(value, (str, int, float)):
        raise TypeError(f"a text or a number is expected, not a {type(value).__name__}")
    return str(value)


def _share(value: Any, attrs: Attrs) -> Fraction:
    """Percent of the samples, of text such as ``5 %`` or ``2 samples``."""
    text = _text(value)
    if text.endswith(_SAMPLES):
        return min(Fraction(100), Fraction(100 * _number(text.removesuffix(_SAMPLES).strip()), attrs.max_nr_accesses))
    return parse_percent("0" if text == "min" else text)


def _upper_share(form: Mapping[str, Any], attrs: Attrs) -> Fraction | None:
    high = form.get("max", _MAX)
    share = Fraction(100) if _is_max(high) else _share(high, attrs)
    return None if share == 100 else share


def _age(value: Any, attrs: Attrs) -> int:
    """Microseconds, of text such as ``1 m 30 s`` or ``3 aggr_intervals``."""
    text = _text(value)
    if text.endswith(_AGGREGATIONS):
        return _number(text.removesuffix(_AGGREGATIONS).strip()) * attrs.aggr_us
    return 0 if text == "min" else _us(value)


def _share_of(value: Any, per_percent: int) -> int:
    """Permil or basis points, of text such as ``50 %``; a bare number is what the key names."""
    if isinstance(value, str) and value.strip().endswith("%"):
        return int(parse_percent(value) * per_percent)
    return _whole(float(value.replace(",", "")) if isinstance(value, str) else value)
