"""One parameter of a policy: its default, the range in which tuning it makes sense, and how people write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from damoos.errors import ConfigError, nearest
from damoos.model.space import UNITS, Param


@dataclass(frozen=True)
class Parameter:
    """One parameter of a policy.

    Parameters
    ----------
    unit : {"us", "ms", "bytes", "ppm", "count", "choice"}
        What its values count. ``ppm`` is a share, written as a percentage; ``choice`` counts ``choices``.
    default : str
        The value of the policy's source, as people write it.
    low, high : str
        The range in which tuning it makes sense; other values can be given.
    step : int
        Distance of neighbouring values when it is tuned.
    help : str
        What it is, in a few words.
    choices : tuple of str
        The words that it can be; empty for a number.
    zero : bool
        Whether 0 has a meaning, which ``help`` tells.
    """

    unit: str
    default: str
    low: str = ""
    high: str = ""
    step: int = 1
    help: str = ""
    choices: tuple[str, ...] = ()
    zero: bool = False

    def parsed(self, text: str) -> int:
        """A value as people write it: ``500ms``, ``0.5%``, ``64M``, a word of ``choices``.

        Raises
        ------
        ConfigError : it is none, or not above 0 where 0 has no meaning
        """
        if self.choices:
            if text not in self.choices:
                raise ConfigError(f"unknown word '{text}'{nearest(text, self.choices)}")
            return self.choices.index(text)
        try:
            value = UNITS[self.unit].parse(text)
        except ValueError:
            raise ConfigError(f"'{text}' is no whole number") from None
        if value < 0 or (value == 0 and not self.zero):
            raise ConfigError(f"'{text}' is not above 0")
        return value

    def text(self, value: int) -> str:
        """A value as people write it."""
        return self.choices[value] if self.choices else UNITS[self.unit].text(value)

    @property
    def range(self) -> str:
        """The range as people write it: ``500ms:60s``, or the words of a choice."""
        return ",".join(self.choices) if self.choices else f"{self.low}:{self.high}"

    def tuned(self, name: str, text: str) -> Param:
        """What a search is to tune of it.

        Parameters
        ----------
        name : str
        text : str
            As `range` writes it.

        Raises
        ------
        ConfigError : it is not of that form, or empty
        """
        if self.choices:
            words: Sequence[str] = text.split(",")
            for word in words:
                self.parsed(word)
            if len(words) < 2 or len(set(words)) < len(words):
                raise ConfigError(f"'{text}': a choice needs two words or more that differ")
            return Param(name, "choice", 0, len(words) - 1, 1, tuple(words))
        low, colon, high = text.partition(":")
        if not colon:
            raise ConfigError(f"'{text}' is no range; one is written {self.low}:{self.high}")
        return Param(name, self.unit, self.parsed(low), self.parsed(high), self.step)


Parameters = Mapping[str, Parameter]
"""By their names."""
