"""The parameters that a study tunes: named, bounded, with a unit, a step and a scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from damoos.damon.scheme import SCHEME_WORDS, word_at
from damoos.damon.words import TIME_MS
from damoos.errors import ConfigError, nearest
from damoos.units import format_bytes, format_us, parse_bytes, parse_percent, parse_time

Params = Mapping[str, int]

PAGE = 4096  # a grid for sizes; a kernel with larger pages rounds
# Ranges from 0 have no logarithm. The paper's range, 0 to 60 s in steps of 1 s, is linear up to its first step and
# logarithmic beyond, and so is every other one.
KNEE = 1 / 60


def _parse_percent(text: str) -> int:
    percent = parse_percent(text)
    if percent.denominator != 1:
        raise ConfigError(f"'{text}' is not a whole percentage")
    return int(percent)


def _parse_ppm(text: str) -> int:
    """A percentage with fractions, in millionths."""
    if not text.rstrip().endswith("%"):
        raise ConfigError(f"'{text}' is no percentage such as 0.5%")
    ppm = parse_percent(text) * 10_000
    if ppm.denominator != 1:
        raise ConfigError(f"'{text}' is finer than 0.0001%")
    return int(ppm)


@dataclass(frozen=True)
class _Unit:
    parse: Callable[[str], int]
    text: Callable[[int], str]
    is_log: bool


UNITS = {
    "us": _Unit(parse_time, format_us, is_log=True),
    "ms": _Unit(TIME_MS.parse, TIME_MS.form, is_log=True),
    "bytes": _Unit(parse_bytes, format_bytes, is_log=True),
    "percent": _Unit(_parse_percent, lambda value: f"{value}%", is_log=False),
    "ppm": _Unit(_parse_ppm, lambda value: f"{value / 10_000:g}%", is_log=True),
    "count": _Unit(int, str, is_log=True),
    "permil": _Unit(int, str, is_log=False),
    "bp": _Unit(int, str, is_log=False),
    "choice": _Unit(int, str, is_log=False),
}
# Steps of what is named by its path in a scheme; finer ones would say nothing of a workload.
STEPS = {"us": 1_000, "ms": 1, "bytes": PAGE, "count": 1, "permil": 1, "bp": 1}
# What must not be above what; a point that is otherwise stands for the nearest one that is not. Frequencies are left
# out: DAMON counts samples, and close bounds have none between them.
ORDERED = (
    ("min_age", "max_age"),
    ("min_size", "max_size"),
    ("attrs.sample", "attrs.aggr"),
    ("attrs.nr_regions.min", "attrs.nr_regions.max"),
    ("attrs.intervals_goal.min_sample", "attrs.intervals_goal.max_sample"),
    ("watermarks.low", "watermarks.mid"),
    ("watermarks.mid", "watermarks.high"),
)
# Tunables and their units; a step of 0 stands for DAMON's aggregation interval. Quotas are per second.
TUNABLES = {
    "min_age": ("us", 0),
    "max_age": ("us", 0),
    "min_size": ("bytes", PAGE),
    "max_size": ("bytes", PAGE),
    "min_freq": ("percent", 1),
    "max_freq": ("percent", 1),
    "quota_sz": ("bytes", PAGE),
    "quota_time": ("ms", 1),
}


@dataclass(frozen=True)
class Param:
    """One parameter.

    Parameters
    ----------
    name : str
        For example ``min_age``; its upper-case form is the placeholder in a scheme. Or the dotted path of a word of
        scheme text: ``attrs.aggr``, ``quotas.goals[0].target``.
    unit : {"us", "ms", "bytes", "percent", "ppm", "permil", "bp", "count", "choice"}
        What the integers count; a choice counts the words of ``choices``.
    low, high : int
        Both ends included.
    step : int
        Distance of neighbouring values; finer ones would be the same to the kernel.
    choices : tuple of str
        Words of a category; empty for a number.
    """

    name: str
    unit: str
    low: int
    high: int
    step: int
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an empty range."""
        if self.unit not in UNITS:
            raise ConfigError(f"{self.name}: unknown unit '{self.unit}'{nearest(self.unit, UNITS)}")
        object.__setattr__(self, "choices", tuple(self.choices))
        if not 0 <= self.low < self.high or self.step < 1:
            raise ConfigError(f"{self.name}: the range {self.text(self.low)}:{self.text(self.high)} is empty")

    @property
    def key(self) -> str:
        """Name with its unit, the key in `Params`: ``min_age_us``."""
        return self.name if self.choices or self.unit == "count" else f"{self.name}_{self.unit}"

    @property
    def is_path(self) -> bool:
        """Whether the name is the path of a word, and not a placeholder."""
        return "." in self.name or self.name in SCHEME_WORDS

    def text(self, value: int) -> str:
        """A value as scheme text writes it."""
        return self.choices[value] if self.choices else UNITS[self.unit].text(value)

    def snap(self, value: float) -> int:
        """Nearest value of the grid inside the range."""
        steps = round((min(max(value, self.low), self.high) - self.low) / self.step)
        return min(self.low + steps * self.step, self.low + self.nr_steps * self.step)

    @property
    def nr_steps(self) -> int:
        """Number of steps from the lowest value to the highest one."""
        return (self.high - self.low) // self.step

    @property
    def values(self) -> range:
        """Every value of the grid."""
        return range(self.low, self.high + 1, self.step)

    def to_unit(self, value: float) -> float:
        """Place of a value between 0 and 1, on a logarithmic scale for times and sizes."""
        if not UNITS[self.unit].is_log:
            return (value - self.low) / (self.high - self.low)
        offset = self._offset
        return math.log((value + offset) / (self.low + offset)) / math.log((self.high + offset) / (self.low + offset))

    def from_unit(self, place: float) -> int:
        """The value of the grid that is nearest to a place between 0 and 1."""
        if not UNITS[self.unit].is_log:
            return self.snap(self.low + place * (self.high - self.low))
        offset = self._offset
        below = self.snap((self.low + offset) * ((self.high + offset) / (self.low + offset)) ** place - offset)
        near = (below - self.step, below, below + self.step)
        return min((v for v in near if v in self.values), key=lambda v: abs(self.to_unit(v) - place))

    @property
    def _offset(self) -> float:
        return 0.0 if self.low else max(self.step, KNEE * self.high)


def parse_param(text: str, age_step_us: int) -> Param:
    """Read ``min_age=0s:60s``, ``attrs.aggr=20ms:2s``, or ``action=pageout,cold`` for a choice of words.

    Raises
    ------
    ConfigError : not of this form, an unknown tunable, or an empty range
    """
    name, equals, span = text.partition("=")
    low, colon, high = span.partition(":")
    if equals and not colon and "," in span:
        words = tuple(word.strip() for word in span.split(","))
        if len(set(words)) != len(words) or not all(words):
            raise ConfigError(f"'{text}': the values of a choice must differ")
        if "." in name:
            word_at(name)
        return Param(name, "choice", 0, len(words) - 1, 1, words)
    if not equals or not colon:
        raise ConfigError(
            f"'{text}': a tunable is written name=low:high, for example min_age=0s:60s, or name=word,word"
        )
    if "." in name or name in SCHEME_WORDS:
        return _param_at(name, low, high)
    if name not in TUNABLES:
        raise ConfigError(f"unknown tunable '{name}'{nearest(name, [*TUNABLES, *SCHEME_WORDS])}")
    unit, step = TUNABLES[name]
    parse = UNITS[unit].parse
    try:
        ends = parse(low), parse(high)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    return Param(name, unit, *ends, step or age_step_us)


def _param_at(path: str, low: str, high: str) -> Param:
    """The parameter of a word of scheme text."""
    kind = word_at(path).kind
    if not kind.unit:
        raise ConfigError(f"{path}: not a number; a choice is written {path}=word,word")
    unit = "us" if kind.unit == "count" and low[-1:].isalpha() else kind.unit
    try:
        ends = kind.parse(low), kind.parse(high)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return Param(path, unit, *ends, STEPS[unit])


@dataclass(frozen=True)
class Space:
    """A scheme template and the parameters that fill it.

    Parameters
    ----------
    template : str
        Text of a scheme with the parameters' names in capitals, such as ``4K max  min min  MIN_AGE max  pageout``.
    params : tuple of Param
    """

    template: str
    params: tuple[Param, ...]

    def __post_init__(self) -> None:
        """Refuse a parameter that is there twice."""
        names = [param.name for param in self.params]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"tunable '{name}' is given twice")

    def texts(self, point: Params) -> dict[str, str]:
        """Placeholders and their texts for one point."""
        return {
            p.name.upper(): p.text(point[p.key])
            for p in self.params
            if not p.is_path and not p.name.startswith("quota_")
        }

    def words(self, point: Params) -> dict[str, str]:
        """Words of scheme text for one point, by their paths."""
        return {p.name: p.text(point[p.key]) for p in self.params if p.is_path}

    def quotas(self, point: Params) -> dict[str, int]:
        """Quotas of one point, by the field names of `damoos.damon.scheme.Quotas`."""
        return {p.key.removeprefix("quota_"): point[p.key] for p in self.params if p.name.startswith("quota_")}

    def readable(self, point: Params) -> dict[str, int | str]:
        """A point with the words of its choices."""
        return {p.key: p.text(point[p.key]) if p.choices else point[p.key] for p in self.params}

    def point(self, **values: int) -> Params:
        """A point; every parameter must be given by its key."""
        if set(values) != {param.key for param in self.params}:
            raise ConfigError(f"expected {sorted(p.key for p in self.params)}, got {sorted(values)}")
        return values

    def to_unit(self, point: Params) -> NDArray[np.float64]:
        """Place of a point in the unit cube, shape (number of parameters,)."""
        return np.array([param.to_unit(point[param.key]) for param in self.params])

    def from_unit(self, place: Sequence[float] | NDArray[np.float64]) -> Params:
        """The point of the grid that is nearest to a place in the unit cube."""
        return self.ordered({p.key: p.from_unit(float(at)) for p, at in zip(self.params, place, strict=True)})

    def ordered(self, point: Params) -> Params:
        """The point itself, or the nearest one in which no lower bound is above its upper bound (`ORDERED`)."""
        by_name = {param.name: param for param in self.params}
        pairs = [(by_name[a], by_name[b]) for a, b in ORDERED if a in by_name and b in by_name]
        moved = dict(point)
        for low, high in pairs:
            if moved[low.key] > moved[high.key]:
                above = [value for value in high.values if value >= moved[low.key]]
                moved[high.key] = above[0] if above else high.values[-1]
        for low, high in reversed(pairs):
            if moved[low.key] > moved[high.key]:
                below = [value for value in low.values if value <= moved[high.key]]
                moved[low.key] = below[-1] if below else low.low
        return moved

    def distinct(self, places: NDArray[np.float64]) -> list[Params]:
        """The points of the grid that are nearest to some places, each once, in the order of the places."""
        points = [self.from_unit(place) for place in places]
        return list({tuple(point.values()): point for point in points}.values())

    @property
    def corners(self) -> list[Params]:
        """The points in which every number is at one of its ends, with every word of a choice."""
        ends = [param.values if param.choices else (param.low, param.snap(param.high)) for param in self.params]
        keys = [param.key for param in self.params]
        points = [self.ordered(dict(zip(keys, point, strict=True))) for point in product(*ends)]
        return list({tuple(point.values()): point for point in points}.values())
