"""Contexts of every kind, for property tests."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from damoos.damon.attrs import Attrs, IntervalsGoal, Probe, ProbeFilter
from damoos.damon.filters import Filter
from damoos.damon.pattern import ACTIONS, AccessPattern
from damoos.damon.quotas import GOAL_METRICS, OF_GROUP, OF_NODE, TUNERS, Goal, Quotas
from damoos.damon.scheme import Context, Dest, Scheme, Watermarks

KIB, MS = 1 << 10, 1000
GROUPS = st.sampled_from(["/", "/workload", "/system.slice/redis.service"])
# Sizes and times that damo, which rounds what it prints to three decimals, prints in full.
SIZES = st.integers(0, 900).map(lambda n: n * KIB) | st.integers(1, 900).map(lambda n: n << 20)


def _printed_in_full(ratio: float) -> bool:
    """Whether damo 3.4 prints a share as it is: of 58 % it makes 57 %, because 0.58 * 100 is less than 58."""
    return int(ratio * 100) == int(round(ratio * 100, 7))


PERCENTS = st.integers(0, 100).filter(lambda n: _printed_in_full(n / 100))
AGES = st.integers(0, 10**6).map(lambda ms: ms * 1000)
TIMES_MS = st.integers(0, 10**6)
SHARES = st.integers(0, 1000).filter(lambda n: _printed_in_full(n / 1000))
BASIS_POINTS = st.integers(0, 10_000).filter(lambda n: _printed_in_full(n / 10_000))


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    kind = draw(st.sampled_from(["anon", "active", "memcg", "young", "hugepage_size", "unmapped", "addr", "target"]))
    words: dict[str, object] = {}
    if kind == "memcg":
        words = {"memcg_path": draw(GROUPS)}
    elif kind == "addr":
        start = draw(st.integers(0, 1 << 40))
        words = {"addr_start": start, "addr_end": start + draw(st.integers(1, 1 << 30))}
    elif kind == "hugepage_size":
        words = {"min_sz_bytes": draw(SIZES), "max_sz_bytes": draw(st.integers(1, 9)) << 30}
    elif kind == "target":
        words = {"target_idx": draw(st.integers(0, 9))}
    return Filter(kind, draw(st.booleans()), draw(st.booleans()), **words)  # type: ignore[arg-type]


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    metric = draw(st.sampled_from(list(GOAL_METRICS)))
    value = draw(st.integers(1, 10_000 if GOAL_METRICS[metric] == "bp" else 10**6))
    current = draw(st.integers(0, 10**6)) if metric == "user_input" else 0
    nid = draw(st.integers(0, 3)) if metric in OF_NODE else 0
    return Goal(metric, value, current, nid, draw(GROUPS) if metric in OF_GROUP else "")


@st.composite
def quotas(draw: st.DrawFn) -> Quotas:
    if draw(st.booleans()):
        return Quotas()
    charge = draw(st.just((0, 0)) | st.tuples(st.integers(0, 9), st.integers(1, 4096)))
    return Quotas(
        draw(st.integers(0, 10_000)), draw(SIZES), draw(st.integers(1, 10**6)), draw(SHARES), draw(SHARES),
        draw(SHARES), tuple(draw(st.lists(goals(), max_size=2))), draw(st.sampled_from(TUNERS)), charge,
    )  # fmt: skip


@st.composite
def patterns(draw: st.DrawFn) -> AccessPattern:
    sizes, shares, ages = (
        draw(st.tuples(SIZES, SIZES)),
        draw(st.tuples(PERCENTS, PERCENTS)),
        draw(st.tuples(AGES, AGES)),
    )
    (min_sz, max_sz), (min_freq, max_freq), (min_age, max_age) = sorted(sizes), sorted(shares), sorted(ages)
    bounded = AccessPattern(min_sz, max_sz, Fraction(min_freq), Fraction(max_freq), min_age, max_age)
    return replace(
        bounded, **{name: None for name in ("max_sz_bytes", "max_freq", "max_age_us") if draw(st.booleans())}
    )


@st.composite
def whole_schemes(draw: st.DrawFn) -> Scheme:
    plain = Scheme(draw(st.sampled_from(ACTIONS)), draw(patterns()))
    marks = draw(
        st.just(Watermarks())
        | st.builds(Watermarks, st.just("free_mem_rate"), TIMES_MS.map(lambda ms: ms * MS), SHARES, SHARES, SHARES)
    )
    moves = plain.action.startswith("migrate_")
    return Scheme(
        plain.action,
        plain.pattern,
        draw(TIMES_MS) * MS,
        draw(quotas()),
        marks,
        tuple(draw(st.lists(filters(), max_size=3))),
        draw(st.integers(0, 3)) if moves else None,
        tuple(draw(st.lists(st.builds(Dest, st.integers(0, 3), st.integers(0, 9)), max_size=2))),
        draw(st.integers(0, 9)),
    )


@st.composite
def attributes(draw: st.DrawFn) -> Attrs:
    sample_us, regions = draw(st.integers(1, 1000)) * MS, draw(st.integers(3, 100))
    goal = st.builds(
        IntervalsGoal,
        st.integers(0, 10_000),
        st.integers(1, 99),
        st.just(5 * MS),
        st.integers(5, 999).map(lambda n: n * MS),
    )
    probe_filter = st.builds(ProbeFilter, st.just("anon"), st.booleans(), st.booleans()) | st.builds(
        ProbeFilter, st.just("memcg"), st.booleans(), st.booleans(), GROUPS
    )
    probe = st.builds(Probe, st.lists(probe_filter, max_size=2).map(tuple), st.integers(0, 9))
    return Attrs(
        sample_us,
        sample_us * draw(st.integers(1, 100)),
        draw(st.integers(1, 10**6)) * MS,
        regions,
        regions + draw(st.integers(0, 900)),
        draw(st.none() | goal),
        draw(st.sampled_from([1, 8, 4096])),
        tuple(draw(st.lists(probe, max_size=2))),
    )


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    return Context(
        tuple(draw(st.lists(whole_schemes(), max_size=2))),
        draw(st.sampled_from(["vaddr", "paddr"])),
        draw(attributes()),
        draw(st.booleans()),
        draw(st.integers(0, 1000)),
    )
