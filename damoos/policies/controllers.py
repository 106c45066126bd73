"""Policies whose rule runs in user space, in the agent: their parameters, and what people write of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from damoos.errors import ConfigError, nearest
from damoos.policies.base import Policy
from damoos.units import parse_bytes, parse_us


@dataclass(frozen=True)
class Knob:
    """One parameter of a controller.

    Parameters
    ----------
    default, low, high : float
        The value of its source, and the range in which tuning it makes sense.
    unit : {"s", "share", "bytes_per_s"}
    is_log : bool
        Whether values are compared by their ratio.
    """

    default: float
    low: float
    high: float
    unit: Literal["s", "share", "bytes_per_s"]
    is_log: bool = False

    def parsed(self, text: str) -> float:
        """A value as people write it: ``500ms``, ``0.005`` or ``0.5%``, ``1M`` (a second).

        Raises
        ------
        ConfigError : it is none, or out of bounds
        """
        if self.unit == "s":
            value = parse_us(text) / 1e6
        elif self.unit == "bytes_per_s":
            value = float(parse_bytes(text))
        else:
            try:
                value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
            except ValueError:
                raise ConfigError(f"'{text}' is no share such as 0.005 or 0.5%") from None
            if not 0 < value <= 1:
                raise ConfigError(f"'{text}' is no share above 0 and up to 1")
        if self.unit == "s" and value <= 0:
            raise ConfigError(f"'{text}' is no time above 0")
        return value


@dataclass(frozen=True)
class Rule:
    """A controller: what it does, where that is from, and its parameters."""

    description: str
    source: str
    knobs: Mapping[str, Knob]


RULES: dict[str, Rule] = {
    "senpai": Rule(
        "reclaims a little each period, as long as nobody waits for memory or IO (memory.reclaim)",
        "TMO (ASPLOS'22), section 3.3",
        {
            "interval": Knob(6.0, 0.5, 60.0, "s", is_log=True),
            "ratio": Knob(0.0005, 0.0005, 0.1, "share", is_log=True),
            "pressure": Knob(0.001, 0.0001, 0.1, "share", is_log=True),
            "io_pressure": Knob(0.001, 0.0001, 0.1, "share", is_log=True),
            "most": Knob(0.01, 0.01, 0.2, "share", is_log=True),
            "swap_writes": Knob(0.0, 0.0, 100e6, "bytes_per_s"),
        },
    ),
}
# As the agent calls them.
_ARGUMENTS = {"interval": "interval_s", "swap_writes": "swap_write_bytes_per_s"}


@dataclass(frozen=True)
class ControllerPolicy(Policy):
    """A rule that the agent follows while the workload runs, on the run's cgroup.

    Parameters
    ----------
    rule : str
        One of `RULES`.
    values : mapping of str to float
        By the names of its knobs; those that are missing have their defaults.
    """

    rule: str
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The rule's."""
        return self.rule

    def spec(self) -> dict[str, Any]:
        """No DAMON context, and the rule with all of its values."""
        values = {name: knob.default for name, knob in RULES[self.rule].knobs.items()} | dict(self.values)
        named = {_ARGUMENTS.get(name, name): value for name, value in values.items()}
        return {"context": None, "controller": {"name": self.rule, **named}}


def parse(text: str) -> ControllerPolicy:
    """A controller as people write it: ``senpai``, ``senpai:ratio=0.005:interval=2s``.

    Raises
    ------
    ConfigError : no such rule or parameter, or a value that cannot be
    """
    rule, *words = text.split(":")
    if rule not in RULES:
        raise ConfigError(f"unknown policy '{rule}'{nearest(rule, RULES)}")
    values: dict[str, float] = {}
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
