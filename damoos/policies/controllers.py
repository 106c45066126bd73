"""Policies whose rule runs in user space, in the agent: their parameters, and what people write of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from damoos.errors import ConfigError, nearest
from damoos.model.space import UNITS, Param, Params
from damoos.policies.base import Policy


@dataclass(frozen=True)
class Knob:
    """One parameter of a controller.

    Parameters
    ----------
    default : str
        The value of its source, as people write it.
    low, high : str
        The range in which tuning it makes sense.
    unit : {"us", "ppm", "bytes"}
        What the integers of a point count; ``bytes`` is a rate, in a second.
    step : int
        Distance of neighbouring values when it is tuned.
    argument : str
        Its name in the agent, which takes seconds, shares and bytes a second.
    """

    default: str
    low: str
    high: str
    unit: str
    step: int
    argument: str

    def parsed(self, text: str) -> int:
        """A value as people write it: ``500ms``, ``0.5%``, ``1M`` (a second).

        Raises
        ------
        ConfigError : it is none, or not above 0 (a rate of 0 is no limit)
        """
        value = UNITS[self.unit].parse(text)
        if value <= 0 and self.unit != "bytes":
            raise ConfigError(f"'{text}' is not above 0")
        return value

    def told(self, value: int) -> float:
        """A value as the agent takes it."""
        return value if self.unit == "bytes" else value / 1e6


@dataclass(frozen=True)
class Rule:
    """A controller: what it does, where that is from, its parameters, and which are tuned where none is named."""

    description: str
    source: str
    knobs: Mapping[str, Knob]
    tuned: tuple[str, ...]


RULES: dict[str, Rule] = {
    "senpai": Rule(
        "reclaims a little each period, as long as nobody waits for memory or IO (memory.reclaim)",
        "TMO (ASPLOS'22), sections 3.3 and 4.5",
        {
            "interval": Knob("6s", "500ms", "60s", "us", 100_000, "interval_s"),
            "ratio": Knob("0.05%", "0.05%", "10%", "ppm", 100, "ratio"),
            "pressure": Knob("0.1%", "0.01%", "10%", "ppm", 100, "pressure"),
            "io_pressure": Knob("0.1%", "0.01%", "10%", "ppm", 100, "io_pressure"),
            "most": Knob("1%", "1%", "20%", "ppm", 1000, "most"),
            "swap_writes": Knob("0", "64K", "100M", "bytes", 65536, "swap_write_bytes_per_s"),
        },
        ("ratio", "pressure"),
    ),
}


@dataclass(frozen=True)
class ControllerPolicy(Policy):
    """A rule that the agent follows while the workload runs, on the run's cgroup.

    Parameters
    ----------
    rule : str
        One of `RULES`.
    values : mapping of str to int
        By the names of its knobs, in their units; those that are missing have their defaults.
    """

    rule: str
    values: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The rule's."""
        return self.rule

    @property
    def text(self) -> str:
        """As people write it, with the values that are not the default ones."""
        knobs = RULES[self.rule].knobs
        return ":".join([self.rule, *(f"{name}={UNITS[knobs[name].unit].text(v)}" for name, v in self.values.items())])

    def spec(self) -> dict[str, Any]:
        """No DAMON context, and the rule with all of its values."""
        values = _defaults(self.rule) | dict(self.values)
        told = {knob.argument: knob.told(values[name]) for name, knob in RULES[self.rule].knobs.items()}
        return {"context": None, "controller": {"name": self.rule, **told}}


def parse(text: str) -> ControllerPolicy:
    """A controller as people write it: ``senpai``, ``senpai:ratio=0.5%:interval=2s``.

    Raises
    ------
    ConfigError : no such rule or parameter, or a value that cannot be
    """
    rule, *words = text.split(":")
    if rule not in RULES:
        raise ConfigError(f"unknown policy '{rule}'{nearest(rule, RULES)}")
    values: dict[str, int] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in RULES[rule].knobs or not equals:
            raise ConfigError(f"{text}: '{word}' sets no parameter of {rule}{nearest(name, RULES[rule].knobs)}")
        if name in values:
            raise ConfigError(f"{text}: {name} is given twice")
        try:
            values[name] = RULES[rule].knobs[name].parsed(value)
        except ConfigError as error:
            raise ConfigError(f"{text}: {name}: {error}") from None
    return ControllerPolicy(rule, values)


def params(rule: str, ranges: tuple[str, ...] = ()) -> tuple[Param, ...]:
    """What is tuned of a rule.

    Parameters
    ----------
    rule : str
        One of `RULES`.
    ranges : tuple of str
        ``ratio=0.05%:5%`` and the like; empty for those that the rule names, over their own ranges.

    Raises
    ------
    ConfigError : no such parameter, or an empty range
    """
    knobs = RULES[rule].knobs
    found = []
    for text in ranges or tuple(f"{name}={knobs[name].low}:{knobs[name].high}" for name in RULES[rule].tuned):
        name, equals, span = text.partition("=")
        low, colon, high = span.partition(":")
        if not equals or not colon:
            raise ConfigError(f"'{text}': a tunable of {rule} is written name=low:high, for example ratio=0.05%:5%")
        if name not in knobs:
            raise ConfigError(f"unknown tunable '{name}' of {rule}{nearest(name, knobs)}")
        knob = knobs[name]
        found.append(Param(name, knob.unit, knob.parsed(low), knob.parsed(high), knob.step))
    return tuple(found)


def at(rule: str, tuned: tuple[Param, ...], point: Params) -> ControllerPolicy:
    """The policy of one point."""
    return ControllerPolicy(rule, {param.name: point[param.key] for param in tuned})


def default_point(rule: str, tuned: tuple[Param, ...]) -> dict[str, int]:
    """The values of the rule's source, of what is tuned."""
    values = _defaults(rule)
    return {param.key: values[param.name] for param in tuned}


def _defaults(rule: str) -> dict[str, int]:
    return {name: knob.parsed(knob.default) for name, knob in RULES[rule].knobs.items()}
