"""The parameters that a study tunes: named, bounded, with a unit and a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from damoos.errors import ConfigError, nearest
from damoos.units import format_bytes, format_us, parse_bytes, parse_us

Params = Mapping[str, int]

_PARSE = {"us": parse_us, "bytes": parse_bytes}
_FORMAT = {"us": format_us, "bytes": format_bytes}


@dataclass(frozen=True)
class Param:
    """One parameter.

    Parameters
    ----------
    name : str
        For example ``min_age``; its upper-case form is the placeholder in a scheme.
    unit : {"us", "bytes"}
        What the integers count.
    low, high : int
        Both ends included.
    step : int
        Distance of neighbouring values; finer ones would be the same to the kernel.
    """

    name: str
    unit: str
    low: int
    high: int
    step: int

    def __post_init__(self) -> None:
        """Refuse an empty range."""
        if self.unit not in _PARSE:
            raise ConfigError(f"{self.name}: unknown unit '{self.unit}'{nearest(self.unit, _PARSE)}")
        if not 0 <= self.low < self.high or self.step < 1:
            raise ConfigError(f"{self.name}: the range {self.text(self.low)}:{self.text(self.high)} is empty")

    @property
    def key(self) -> str:
        """Name with its unit, the key in `Params`: ``min_age_us``."""
        return f"{self.name}_{self.unit}"

    def text(self, value: int) -> str:
        """A value as scheme text writes it."""
        return _FORMAT[self.unit](value)

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


def parse_param(text: str, step: int) -> Param:
    """Read ``min_age=0s:60s``; the unit follows from the name (``*_age``: time, ``*_size``: bytes)."""
    name, equals, span = text.partition("=")
    low, colon, high = span.partition(":")
    if not equals or not colon:
        raise ConfigError(f"'{text}': a tunable is written name=low:high, for example min_age=0s:60s")
    units = {"min_age": "us", "max_age": "us", "min_size": "bytes", "max_size": "bytes"}
    if name not in units:
        raise ConfigError(f"unknown tunable '{name}'{nearest(name, units)}")
    unit = units[name]
    parse = _PARSE[unit]
    return Param(name, unit, parse(low), parse(high), step if unit == "us" else 4096)


@dataclass(frozen=True)
class Space:
    """A scheme template and the parameters that fill it."""

    template: str
    params: tuple[Param, ...]

    def texts(self, point: Params) -> dict[str, str]:
        """Placeholders and their texts for one point."""
        return {param.name.upper(): param.text(point[param.key]) for param in self.params}

    def point(self, **values: int) -> Params:
        """A point; every parameter must be given by its key."""
        if set(values) != {param.key for param in self.params}:
            raise ConfigError(f"expected {sorted(p.key for p in self.params)}, got {sorted(values)}")
        return values
