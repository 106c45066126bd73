"""A policy that is known by its name and has parameters; most of those in this folder are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context
from damoos.errors import ConfigError, nearest
from damoos.model.space import Param, Params
from damoos.policies.base import Policy
from damoos.policies.parameter import Parameters


class RulePolicy(Policy):
    """A policy of a known rule, at some values of its parameters.

    A subclass says what the agent is asked to do at these values: `controller` for a rule that the agent follows,
    `settings` for files of the kernel's, `scheme` for text of DAMOS schemes, `limits` for shares of the peak.

    Parameters
    ----------
    values : mapping of str to int
        By the names of its parameters, in their units; those that are missing have their defaults.

    Raises
    ------
    ConfigError : it has no such parameter
    """

    description: ClassVar[str]
    """What it does, in one line."""
    source: ClassVar[str]
    """Where the rule and its defaults are from."""
    parameters: ClassVar[Parameters]
    tuned: ClassVar[tuple[str, ...]]
    """Parameters that are tuned where none is named; empty for a policy of which nothing can be tuned."""
    of_tiers: ClassVar[bool] = False
    """Whether it is for machines with tiers of memory."""

    def __init__(self, values: Mapping[str, int] | None = None) -> None:
        self.values = dict(values or {})
        for name in self.values:
            if name not in self.parameters:
                raise ConfigError(f"{self.name} has no parameter '{name}'{nearest(name, self.parameters)}")

    def __getitem__(self, name: str) -> int:
        """The value of a parameter, in its unit."""
        parameter = self.parameters[name]
        return self.values[name] if name in self.values else parameter.parsed(parameter.default)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same rule with the same values in force."""
        return type(self) is type(other) and isinstance(other, RulePolicy) and self.spec() == other.spec()

    def __hash__(self) -> int:
        """Hash of the kind of rule and of its values."""
        return hash((type(self), tuple(self[name] for name in self.parameters)))

    def __repr__(self) -> str:
        """The policy in the words that people write."""
        return f"{type(self).__name__}({self.text})"

    @classmethod
    def parse(cls, text: str) -> RulePolicy:
        """From what follows the name: ``ratio=0.5%:interval=2s``; empty for the defaults.

        Raises
        ------
        ConfigError : no such parameter, or a value that it cannot have
        """
        values: dict[str, int] = {}
        for word in text.split(":") if text else ():
            name, equals, value = word.partition("=")
            if name not in cls.parameters or not equals:
                raise ConfigError(f"'{word}' sets no parameter of {cls.name}{nearest(name, cls.parameters)}")
            if name in values:
                raise ConfigError(f"{name} is given twice")
            try:
                values[name] = cls.parameters[name].parsed(value)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from None
        return cls(values)

    @classmethod
    def defaults(cls) -> RulePolicy:
        """The policy at the values of its source."""
        return cls()

    @classmethod
    def space(cls, ranges: Sequence[str] = ()) -> tuple[Param, ...]:
        """What is tuned of it.

        Parameters
        ----------
        ranges : sequence of str
            ``ratio=0.05%:5%``, ``mode=always,never``; empty for those of `tuned`, over their own ranges.

        Raises
        ------
        ConfigError : no such parameter, or an empty range
        """
        found = []
        if not cls.tuned:
            raise ConfigError(f"nothing of {cls.name} can be tuned; compare it with others by damoos evaluate")
        for text in ranges or [f"{name}={cls.parameters[name].range}" for name in cls.tuned]:
            name, equals, span = text.partition("=")
            if not equals:
                example = f"{cls.tuned[0]}={cls.parameters[cls.tuned[0]].range}"
                raise ConfigError(f"'{text}': a tunable of {cls.name} is written name=low:high, for example {example}")
            if name not in cls.parameters:
                raise ConfigError(f"unknown tunable '{name}' of {cls.name}{nearest(name, cls.parameters)}")
            try:
                found.append(cls.parameters[name].tuned(name, span))
            except ConfigError as error:
                raise ConfigError(f"{text}: {error}") from None
        return tuple(found)

    @classmethod
    def at(cls, params: Sequence[Param], point: Params) -> RulePolicy:
        """The policy of one point of its space; what is not tuned has its default."""
        tuned = {param.name: cls.parameters[param.name].parsed(param.text(point[param.key])) for param in params}
        return cls({**cls.defaults().values, **tuned})

    @classmethod
    def default_point(cls, params: Sequence[Param]) -> dict[str, int]:
        """The values of the source, of what is tuned; the nearest word where a choice leaves the default out."""
        default = cls.defaults()
        point = {}
        for param in params:
            text = cls.parameters[param.name].text(default[param.name])
            words = param.choices
            point[param.key] = (words.index(text) if text in words else 0) if words else default[param.name]
        return point

    @property
    def text(self) -> str:
        """The policy in the words that people write, with the values that were given."""
        words = (f"{name}={self.parameters[name].text(value)}" for name, value in self.values.items())
        return ":".join([self.name, *words])

    def seconds(self, name: str) -> float:
        """The value of a parameter that is a time, in seconds."""
        return self[name] / (1e6 if self.parameters[name].unit == "us" else 1e3)

    def share(self, name: str) -> float:
        """The value of a parameter that is a share, 0 to 1."""
        return self[name] / 1e6

    def word(self, name: str) -> str:
        """The value of a parameter as people write it, the word of a choice."""
        return self.parameters[name].text(self[name])

    def controller(self) -> dict[str, Any]:
        """Arguments of the class in `damoos.agent.controllers` that follows the rule; empty for none."""
        return {}

    def settings(self) -> dict[str, str]:
        """Files of the kernel's that have other values during a run, by their paths."""
        return {}

    def scheme(self) -> str:
        """Text of DAMOS schemes; empty for none."""
        return ""

    def limits(self) -> dict[str, float]:
        """Limits of memory as shares of the peak, by the names of the files of a cgroup."""
        return {}

    @property
    def damon_context(self) -> Context | None:
        """What DAMON is to do; None where it is left alone."""
        text = self.scheme()
        return Context.parse(text) if text else None

    @property
    def lines(self) -> list[str]:
        """The policy's text, and that of its schemes."""
        return [self.text, *self.scheme().splitlines()]

    @property
    def peak_shares(self) -> Mapping[str, float]:
        """Limits as shares of the peak."""
        return self.limits()

    def spec(self) -> dict[str, Any]:
        """The schemes, the rule with all of its values, and the settings."""
        context, values, settings = self.damon_context, self.controller(), self.settings()
        return {
            "context": None if context is None else context_to_json(context),
            **({"controller": {"name": self.name, **values}} if values else {}),
            **({"settings": settings} if settings else {}),
        }
