"""Schemes in the JSON that damo, the DAMON user-space tool, reads and writes.

The same form is damoos's own on the wire to the agent and in its results, so there is one serialisation, and
whatever damoos stores can be handed to ``damo start``. Quantities are written with their units, as damo does.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from damoos.damon.pattern import AccessPattern
from damoos.damon.scheme import Attrs, Context, Filter, Goal, IntervalsGoal, Quotas, Scheme, Watermarks
from damoos.errors import SchemeError
from damoos.units import format_percent, format_us, parse_bytes, parse_percent, parse_us

Json = dict[str, Any]


def _bytes(size: int) -> str:
    return f"{size} B"


def _range(low: str, high: str | None) -> Json:
    return {"min": low, "max": "max" if high is None else high}


def scheme_to_json(scheme: Scheme) -> Json:
    """One scheme in damo's form."""
    pattern, quotas, marks = scheme.pattern, scheme.quotas, scheme.watermarks
    target = {} if scheme.target_nid is None else {"target_nid": scheme.target_nid}
    return {
        "action": scheme.action,
        **target,
        "access_pattern": {
            "sz_bytes": _range(
                _bytes(pattern.min_sz_bytes), None if pattern.max_sz_bytes is None else _bytes(pattern.max_sz_bytes)
            ),
            "nr_accesses": _range(
                format_percent(pattern.min_freq),
                format_percent(Fraction(100) if pattern.max_freq is None else pattern.max_freq),
            ),
            "age": _range(
                format_us(pattern.min_age_us), None if pattern.max_age_us is None else format_us(pattern.max_age_us)
            ),
        },
        "apply_interval_us": format_us(scheme.apply_interval_us),
        "quotas": {
            "time_ms": f"{quotas.time_ms} ms",
            "sz_bytes": _bytes(quotas.sz_bytes),
            "reset_interval_ms": f"{quotas.reset_interval_ms} ms",
            "goals": [_goal_to_json(goal) for goal in quotas.goals],
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
        "filters": [_filter_to_json(scheme_filter) for scheme_filter in scheme.filters],
    }


def _permil(value: int) -> str:
    return format_percent(Fraction(value, 10))


def _goal_to_json(one: Goal) -> Json:
    unit = " us" if one.metric == "some_mem_psi_us" else ""
    return {
        "metric": one.metric,
        "target_value": f"{one.target_value}{unit}",
        "current_value": str(one.current_value),
    }


def _goal_from_json(form: Json) -> Goal:
    target = str(form["target_value"])
    value = parse_us(target) if form["metric"] == "some_mem_psi_us" else int(target.replace(",", ""))
    return Goal(form["metric"], value, int(str(form.get("current_value", "0")).replace(",", "")))


def _filter_to_json(one: Filter) -> Json:
    fields: Json = {"filter_type": one.type, "matching": one.matching, "allow": False}
    if one.type == "memcg":
        fields["memcg_path"] = one.memcg_path
    elif one.type == "addr":
        fields["address_range"] = {"start": one.addr_start, "end": one.addr_end}
    elif one.type == "target":
        fields["damon_target_idx"] = one.target_idx
    return fields


def context_to_json(context: Context, pid: int | None = None) -> Json:
    """A whole document for ``damo start``: one kdamond with one context."""
    attrs = context.attrs
    return {
        "kdamonds": [
            {
                "contexts": [
                    {
                        "ops": context.operations,
                        "targets": [{"pid": pid, "regions": []}],
                        "intervals": {
                            "sample_us": format_us(attrs.sample_us),
                            "aggr_us": format_us(attrs.aggr_us),
                            "ops_update_us": format_us(attrs.update_us),
                            **({} if attrs.goal is None else {"intervals_goal": _intervals_goal(attrs.goal)}),
                        },
                        "nr_regions": {"min": str(attrs.min_nr_regions), "max": str(attrs.max_nr_regions)},
                        "schemes": [scheme_to_json(scheme) for scheme in context.schemes],
                    }
                ]
            }
        ]
    }


def _intervals_goal(goal: IntervalsGoal) -> Json:
    return {
        "access_bp": f"{goal.access_bp / 100:g} %",
        "aggrs": str(goal.aggrs),
        "min_sample_us": format_us(goal.min_sample_us),
        "max_sample_us": format_us(goal.max_sample_us),
    }


def _intervals_goal_from(form: Json | None) -> IntervalsGoal | None:
    aggrs = int(str(form["aggrs"]).replace(",", "")) if form else 0
    if not form or not aggrs:
        return None
    return IntervalsGoal(
        int(parse_percent(form["access_bp"]) * 100),
        aggrs,
        parse_us(form["min_sample_us"]),
        parse_us(form["max_sample_us"]),
    )


def _upper(text: str, parse: Any) -> Any:
    return None if text == "max" else parse(text)


def scheme_from_json(form: Json) -> Scheme:
    """Reads what `scheme_to_json` or damo wrote."""
    pattern = form["access_pattern"]
    size, freq, age = pattern["sz_bytes"], pattern["nr_accesses"], pattern["age"]
    quotas, marks = form.get("quotas", {}), form.get("watermarks", {})
    weights = quotas.get("weights", {})
    return Scheme(
        action=form["action"],
        pattern=AccessPattern(
            parse_bytes(size["min"]),
            _upper(size["max"], parse_bytes),
            parse_percent(freq["min"]),
            None if freq["max"] == "max" or parse_percent(freq["max"]) == 100 else parse_percent(freq["max"]),
            parse_us(age["min"]),
            _upper(age["max"], parse_us),
        ),
        apply_interval_us=_us(form.get("apply_interval_us", "0us")),
        quotas=Quotas(
            time_ms=_us(quotas.get("time_ms", "0us")) // 1000,
            sz_bytes=parse_bytes(quotas.get("sz_bytes", "0")),
            reset_interval_ms=_us(quotas.get("reset_interval_ms", "0us")) // 1000,
            weight_sz_permil=_from_permil(weights.get("sz_permil", "0")),
            weight_nr_accesses_permil=_from_permil(weights.get("nr_accesses_permil", "0")),
            weight_age_permil=_from_permil(weights.get("age_permil", "0")),
            goals=tuple(_goal_from_json(fields) for fields in quotas.get("goals", ())),
        ),
        watermarks=Watermarks(
            metric=marks.get("metric", "none"),
            interval_us=_us(marks.get("interval_us", "0us")),
            high_permil=_from_permil(marks.get("high_permil", "0")),
            mid_permil=_from_permil(marks.get("mid_permil", "0")),
            low_permil=_from_permil(marks.get("low_permil", "0")),
        ),
        filters=tuple(_filter_from_json(fields) for fields in form.get("filters", ())),
        target_nid=form.get("target_nid"),
    )


def _us(text: str) -> int:
    if text == "max":  # damo's word for a reset interval that never ends
        return 0
    return 0 if text == "0 ns" else parse_us(text)


def _from_permil(text: str) -> int:
    return int(parse_percent(text) * 10)


def _filter_from_json(form: Json) -> Filter:
    span = form.get("address_range") or {}
    return Filter(
        type=form["filter_type"],
        matching=form.get("matching", True),
        memcg_path=form.get("memcg_path", ""),
        addr_start=span.get("start", 0),
        addr_end=span.get("end", 0),
        target_idx=form.get("damon_target_idx") or 0,
    )


def context_from_json(document: Json) -> Context:
    """Reads a document with one kdamond and one context.

    Raises
    ------
    SchemeError : a key is missing, or there are several kdamonds or contexts
    """
    try:
        (kdamond,) = document["kdamonds"]
        (context,) = kdamond["contexts"]
        intervals, regions = context["intervals"], context["nr_regions"]
        return Context(
            schemes=tuple(scheme_from_json(scheme) for scheme in context["schemes"]),
            operations=context["ops"],
            attrs=Attrs(
                parse_us(intervals["sample_us"]),
                parse_us(intervals["aggr_us"]),
                parse_us(intervals["ops_update_us"]),
                int(regions["min"].replace(",", "")),
                int(regions["max"].replace(",", "")),
                _intervals_goal_from(intervals.get("intervals_goal")),
            ),
        )
    except (KeyError, ValueError) as error:
        raise SchemeError(f"not a DAMON context with one kdamond: {error!r}") from None
