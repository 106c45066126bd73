"""A DAMOS scheme, and the context that it is applied in, as values and as text.

References
----------
DAOS (HPDC'22) section 3.2; Documentation/admin-guide/mm/damon/usage.rst
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from damoos.damon.attrs import ATTRS_WORDS, Attrs
from damoos.damon.filters import FILTER_WORDS, WORKLOAD_GROUP, Filter
from damoos.damon.modules import ACTIONS_OF, MODULE_WORDS, Module
from damoos.damon.pattern import AccessPattern, action_of
from damoos.damon.quotas import QUOTA_WORDS, Quotas
from damoos.damon.text import ATTRS, MODULE, Line, format_line, parse_lines
from damoos.damon.words import FLAG, NUMBER, PERMIL, TEXT, TIME_MS, TIME_US, Part, Table, Word, build, flat, word_of
from damoos.errors import SchemeError, nearest

ULONG_MAX = (1 << 64) - 1
UINT_MAX = (1 << 32) - 1

OPERATIONS = ("vaddr", "fvaddr", "paddr")
WATERMARK_METRICS = ("none", "free_mem_rate")
_ROUNDING = Fraction(1, 10**6)
_OF_SCHEME = re.compile(r"schemes\[(\d{1,9})\]\.(.+)", re.ASCII)


@dataclass(frozen=True)
class Watermarks:
    """When a scheme is active, by the machine's free memory rate in permil.

    Parameters
    ----------
    metric : {"none", "free_mem_rate"}
        none: always.
    interval_us : int, microseconds
        How often it is looked at.
    high_permil, mid_permil, low_permil : int, permil
        Above high and below low the scheme sleeps; once below mid it is active.
    """

    metric: str = "none"
    interval_us: int = 0
    high_permil: int = 0
    mid_permil: int = 0
    low_permil: int = 0

    def __post_init__(self) -> None:
        """Refuse a metric that the kernel does not have."""
        if self.metric not in WATERMARK_METRICS:
            raise SchemeError(f"unknown watermark metric '{self.metric}'{nearest(self.metric, WATERMARK_METRICS)}")


@dataclass(frozen=True)
class Dest:
    """A memory node that ``migrate_hot`` and ``migrate_cold`` move to, and its share (since Linux 6.17).

    Parameters
    ----------
    id : int
        Number of the node.
    weight : int
        Against those of the other nodes.
    """

    id: int = 0
    weight: int = 0


WATERMARK_WORDS: Table = {
    "metric": Word("metric", TEXT),
    "interval": Word("interval_us", TIME_US),
    "high": Word("high_permil", PERMIL),
    "mid": Word("mid_permil", PERMIL),
    "low": Word("low_permil", PERMIL),
}
DEST_WORDS: Table = {"id": Word("id", NUMBER), "weight": Word("weight", NUMBER)}
SCHEME_WORDS: Table = {
    "apply_interval": Word("apply_interval_us", TIME_US),
    "quotas": Part("quotas", Quotas, QUOTA_WORDS),
    "watermarks": Part("watermarks", Watermarks, WATERMARK_WORDS),
    "filters": Part("filters", Filter, FILTER_WORDS, is_list=True),
    "target_nid": Word("target_nid", NUMBER),
    "dests": Part("dests", Dest, DEST_WORDS, is_list=True),
    "max_nr_snapshots": Word("max_nr_snapshots", NUMBER),
}


@dataclass(frozen=True)
class Scheme:
    """One DAMOS scheme: an action for the regions that show an access pattern.

    Parameters
    ----------
    action : str
        ``pageout``, ``hugepage`` ...; any dialect's name is taken, the kernel's is kept.
    pattern : AccessPattern
    apply_interval_us : int, microseconds
        How often it is applied; 0 for once an aggregation.
    quotas : Quotas
    watermarks : Watermarks
    filters : tuple of Filter
    target_nid : int or None
        The memory node that ``migrate_hot`` and ``migrate_cold`` move to.
    dests : tuple of Dest
        Several nodes, in place of ``target_nid``.
    max_nr_snapshots : int
        It ends after so many looks; 0 for never (since Linux 7.0).
    """

    action: str
    pattern: AccessPattern = field(default_factory=AccessPattern)
    apply_interval_us: int = 0
    quotas: Quotas = field(default_factory=Quotas)
    watermarks: Watermarks = field(default_factory=Watermarks)
    filters: tuple[Filter, ...] = ()
    target_nid: int | None = None
    dests: tuple[Dest, ...] = ()
    max_nr_snapshots: int = 0

    def __post_init__(self) -> None:
        """Take any dialect's name of the action; keep the kernel's."""
        object.__setattr__(self, "action", action_of(self.action))

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """The one scheme of a text; `parse_schemes` reads several.

        Raises
        ------
        SchemeError : no scheme, several, or one that is not valid
        """
        schemes = parse_schemes(text)
        if len(schemes) != 1:
            raise SchemeError(f"expected one scheme, found {len(schemes)}")
        return schemes[0]

    def __str__(self) -> str:
        """One line of scheme text."""
        words = (f"{key}={text}" for key, text in flat(self, SCHEME_WORDS).items())
        return "  ".join([format_line(self.action, self.pattern), *words])


def parse_schemes(text: str) -> tuple[Scheme, ...]:
    """All schemes of a text, in order; what it says of the monitoring is only checked.

    Raises
    ------
    SchemeError : with line and column, and the nearest valid word where a word is unknown
    """
    return Context.parse(text).schemes


@dataclass(frozen=True)
class Context:
    """What one kdamond is asked to do: where to look, how, and which schemes to apply.

    Parameters
    ----------
    schemes : tuple of Scheme
    operations : {"vaddr", "fvaddr", "paddr"}
    attrs : Attrs
    pause : bool
        Monitor nothing and apply nothing, and keep what is known (since Linux 7.3).
    refresh_ms : int, milliseconds
        How often the kernel writes its statistics to sysfs by itself; 0 for never (since Linux 6.17).
    module : Module or None
        One of the kernel's modules, in place of schemes.
    """

    schemes: tuple[Scheme, ...]
    operations: str = "vaddr"
    attrs: Attrs = field(default_factory=Attrs)
    pause: bool = False
    refresh_ms: int = 0
    module: Module | None = None

    def __post_init__(self) -> None:
        """Refuse an operations set that the kernel does not have, and what a module does not let anybody say."""
        if self.module and (self.schemes or self.attrs != Attrs() or self.operations != "paddr"):
            raise SchemeError(
                f"module {self.module.name} has a scheme and a monitoring of its own, on all memory (paddr)"
            )
        if self.operations not in OPERATIONS:
            raise SchemeError(f"unknown operations '{self.operations}'{nearest(self.operations, OPERATIONS)}")

    @property
    def actions(self) -> list[str]:
        """What its schemes do, or those of its module."""
        return [*ACTIONS_OF[self.module.name]] if self.module else [scheme.action for scheme in self.schemes]

    @classmethod
    def parse(cls, text: str, operations: str = "vaddr", words: Mapping[str, str] | None = None) -> Context:
        """The context of a text: its schemes, and what its line ``attrs`` says.

        Parameters
        ----------
        operations : str
            For a text that does not name them.
        words : mapping of str to str
            Values by their dotted paths, in place of those of the text. A path that names no scheme (``quotas.sz``,
            not ``schemes[0].quotas.sz``) is that of every scheme; ``quotas.goals[0].target`` of those that have a goal.

        Raises
        ------
        SchemeError : with line and column, and the nearest valid word where a word is unknown
        """
        try:
            return cls._parsed(parse_lines(text), operations, words or {})
        except SchemeError as error:
            raise error.within(text) from None

    @classmethod
    def _parsed(cls, lines: list[Line], operations: str, words: Mapping[str, str]) -> Context:
        if any(line.action == MODULE for line in lines):
            return _of_module(lines, words)
        attrs, schemes = _attrs_line(lines), [line for line in lines if not line.is_attrs]
        own, of_schemes = _sorted_out(words, schemes)
        with attrs.placed():
            of_attrs, of_context = _split(attrs.words | own)
            held = build(Attrs, ATTRS_WORDS, of_attrs)
            context = build(cls, _CONTEXT_WORDS, {"operations": operations} | of_context, schemes=(), attrs=held)
        built = []
        for line, more in zip(schemes, of_schemes):
            with line.placed():
                built.append(build(Scheme, SCHEME_WORDS, line.words | more, action=line.action, pattern=line.pattern))
        return replace(context, schemes=tuple(built))

    def __str__(self) -> str:
        """The text that `parse` reads: a line ``attrs`` where something is not as by default, and the schemes."""
        if self.module:
            return str(self.module)
        words = flat(self, _CONTEXT_WORDS) | flat(self.attrs, ATTRS_WORDS)
        attrs = ["  ".join([ATTRS, *(f"{key}={text}" for key, text in words.items())])] if words else []
        return "\n".join([*attrs, *map(str, self.schemes)])


def located(context: Context, path: str, span: Callable[[int], tuple[int, int]]) -> Context:
    """The context with what only the machine knows.

    Parameters
    ----------
    path : str
        Of the group in place of `WORKLOAD_GROUP`.
    span : callable
        First and last address of a memory node, the last one excluded.
    """

    def placed(value: Any) -> Any:
        return replace(value, memcg_path=path) if value.memcg_path == WORKLOAD_GROUP else value

    def of_node(one: Filter) -> Filter:
        if one.nid is None:
            return one
        start, end = span(one.nid)
        return replace(one, addr_start=start, addr_end=end, nid=None)

    def placed_in(scheme: Scheme) -> Scheme:
        quotas = replace(scheme.quotas, goals=tuple(map(placed, scheme.quotas.goals)))
        return replace(scheme, quotas=quotas, filters=tuple(of_node(placed(one)) for one in scheme.filters))

    probes = tuple(replace(probe, filters=tuple(map(placed, probe.filters))) for probe in context.attrs.probes)
    attrs = replace(context.attrs, probes=probes)
    return replace(context, attrs=attrs, schemes=tuple(map(placed_in, context.schemes)))


_CONTEXT_WORDS: Table = {
    "operations": Word("operations", TEXT),
    "pause": Word("pause", FLAG),
    "refresh": Word("refresh_ms", TIME_MS),
}


def word_at(path: str) -> Word:
    """The word that a dotted path names: ``attrs.aggr``, ``quotas.sz``, ``schemes[1].quotas.goals[0].target``.

    Raises
    ------
    SchemeError : there is none; the nearest valid one is named
    """
    if path.startswith(f"{MODULE}."):
        every = {word: entry for table in MODULE_WORDS.values() for word, entry in table.items()}
        return word_of(every, path.removeprefix(f"{MODULE}."))
    if path.startswith(f"{ATTRS}."):
        return word_of({**_CONTEXT_WORDS, **ATTRS_WORDS}, path.removeprefix(f"{ATTRS}."))
    match = _OF_SCHEME.fullmatch(path)
    return word_of(SCHEME_WORDS, match[2] if match else path)


def _of_module(lines: Sequence[Line], words: Mapping[str, str]) -> Context:
    if len(lines) != 1:
        raise SchemeError(f"a line '{MODULE}' stands alone: a module has a scheme and a monitoring of its own")
    (line,) = lines
    own = {path.removeprefix(f"{MODULE}."): text for path, text in words.items()}
    with line.placed():
        return Context((), "paddr", module=Module.of(line.name, line.words | own))


def _attrs_line(lines: list[Line]) -> Line:
    found = [line for line in lines if line.is_attrs]
    if len(found) > 1:
        raise SchemeError(f"line {found[1].number}, column 1: there is a line '{ATTRS}' already")
    return found[0] if found else Line(0, ATTRS)


def _split(words: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Words of the attributes, and of the context."""
    of_context = {key: text for key, text in words.items() if key in _CONTEXT_WORDS}
    return {key: text for key, text in words.items() if key not in of_context}, of_context


def _sorted_out(words: Mapping[str, str], schemes: Sequence[Line]) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Words of the attributes, and of each scheme."""
    own: dict[str, str] = {}
    of_schemes: list[dict[str, str]] = [{} for _ in schemes]
    for path, text in words.items():
        if path.startswith(f"{ATTRS}."):
            own[path.removeprefix(f"{ATTRS}.")] = text
        elif match := _OF_SCHEME.fullmatch(path):
            if int(match[1]) >= len(schemes):
                raise SchemeError(f"{path}: there are {len(schemes)} schemes, the first one is schemes[0]")
            of_schemes[int(match[1])][match[2]] = text
        else:
            item = path[: path.rindex("]") + 1] if "]" in path else ""
            having = [nth for nth, line in enumerate(schemes) if any(key.startswith(item) for key in line.words)]
            if item and not having:
                raise SchemeError(f"{path}: no scheme has {item}")
            for nth in having if item else range(len(schemes)):
                of_schemes[nth][path] = text
    return own, of_schemes


@dataclass(frozen=True)
class KernelPattern:
    """An access pattern in the numbers that DAMON's sysfs files take, both ends included."""

    min_sz: int
    max_sz: int
    min_nr_accesses: int
    max_nr_accesses: int
    min_age: int
    max_age: int


def kernel_pattern(pattern: AccessPattern, attrs: Attrs) -> KernelPattern:
    """Access pattern in kernel numbers: frequency as a count of samples, age as a count of aggregations.

    A lower bound is rounded up and an upper bound down, so that the kernel never selects a region that the
    scheme leaves out.

    Raises
    ------
    SchemeError : a range lies between two steps of the monitoring intervals, so nothing could match
    """
    top = attrs.max_nr_accesses
    max_freq = Fraction(100) if pattern.max_freq is None else pattern.max_freq
    numbers = KernelPattern(
        min_sz=pattern.min_sz_bytes,
        max_sz=ULONG_MAX if pattern.max_sz_bytes is None else pattern.max_sz_bytes,
        # Text has a third as 33.33333333333333 %, which is not to become another count.
        min_nr_accesses=math.ceil(pattern.min_freq * top / 100 - _ROUNDING),
        max_nr_accesses=math.floor(max_freq * top / 100 + _ROUNDING),
        min_age=-(-pattern.min_age_us // attrs.aggr_us),
        max_age=UINT_MAX if pattern.max_age_us is None else pattern.max_age_us // attrs.aggr_us,
    )
    if numbers.min_nr_accesses > numbers.max_nr_accesses:
        raise SchemeError(f"frequency: no count of {top} samples lies in the range; widen it to {100 / top:g}% or more")
    if numbers.min_age > numbers.max_age:
        raise SchemeError(f"age: no whole aggregation interval ({attrs.aggr_us} us) lies in the range")
    return numbers
