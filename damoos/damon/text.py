"""Scheme text: one parser for every dialect that has been published.

A line is ``min-size max-size  min-freq max-freq  min-age max-age  action``. ``#`` starts a comment.
``min`` and ``max``, and the older ``null`` and ``na``, mean "no bound". Sizes take B K M G T, ages us ms s m h d,
frequencies are percents with or without the sign. The older form with a single (minimum) age has six fields.

References
----------
DAOS (HPDC'22) Listings 1 and 3; DAMON v8 patch set (June 2020), cover letter and appendices
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from damoos.damon.pattern import AccessPattern, action_of
from damoos.errors import ConfigError, SchemeError
from damoos.units import format_bytes, format_percent, format_us, parse_bytes, parse_percent, parse_us

_UNBOUNDED = ("null", "na")
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Word:
    text: str
    line: int
    column: int

    def error(self, message: str) -> SchemeError:
        return SchemeError(f"line {self.line}, column {self.column}: {message}")


def _words(text: str, line: int) -> list[_Word]:
    code = text.split("#", 1)[0]
    return [_Word(match[0], line, match.start() + 1) for match in re.finditer(r"\S+", code)]


def _bounds(low: _Word, high: _Word, parse: Callable[[str], _T], zero: _T) -> tuple[_T, _T | None]:
    """Both ends of a range; the upper one is None where the text sets no bound."""

    def value(word: _Word) -> _T | None:
        name = word.text.lower()
        if name == "min":
            return zero
        if name == "max" or name in _UNBOUNDED:
            return None
        try:
            return parse(word.text)
        except ConfigError as error:
            raise word.error(str(error)) from None

    lower = zero if low.text.lower() in _UNBOUNDED else value(low)
    upper = value(high)
    if lower is None:
        raise low.error("a lower bound of 'max' matches nothing; write 'min' or a value")
    if upper is not None and upper < lower:  # type: ignore[operator]
        raise high.error(f"the upper bound '{high.text}' is below the lower bound '{low.text}'")
    return lower, upper


def _parse_line(words: list[_Word]) -> tuple[str, AccessPattern]:
    if len(words) == 6:  # the older form: no upper bound of the age
        words = [*words[:5], _Word("max", words[5].line, words[5].column), words[5]]
    if len(words) != 7:
        last = words[-1]
        raise last.error(
            f"a scheme has 7 fields (min/max size, min/max frequency, min/max age, action), found {len(words)}"
        )
    min_sz, max_sz = _bounds(words[0], words[1], parse_bytes, 0)
    min_freq, max_freq = _bounds(words[2], words[3], parse_percent, parse_percent("0"))
    min_age, max_age = _bounds(words[4], words[5], parse_us, 0)
    # "min min" for frequencies is the paper's way to write "never accessed", which is what 0 to 0 says.
    try:
        pattern = AccessPattern(min_sz, max_sz, min_freq, max_freq, min_age, max_age)
        return action_of(words[6].text), pattern
    except SchemeError as error:
        raise words[6].error(str(error)) from None


def parse_lines(text: str) -> tuple[tuple[str, AccessPattern], ...]:
    """Action and access pattern of each scheme of a text, in order.

    Raises
    ------
    SchemeError : with line and column, and the nearest valid word where a word is unknown
    """
    lines = (_words(line, number) for number, line in enumerate(text.splitlines(), start=1))
    return tuple(_parse_line(words) for words in lines if words)


def format_line(action: str, pattern: AccessPattern) -> str:
    """One line of text that `parse_lines` reads back to the same action and access pattern."""

    def low(value: _T, form: Callable[[_T], str]) -> str:
        return form(value) if value else "min"

    def high(value: _T | None, form: Callable[[_T], str]) -> str:
        if value is None:
            return "max"
        return form(value) if value else "min"

    size = f"{low(pattern.min_sz_bytes, format_bytes)} {high(pattern.max_sz_bytes, format_bytes)}"
    freq = f"{low(pattern.min_freq, format_percent)} {high(pattern.max_freq, format_percent)}"
    age = f"{low(pattern.min_age_us, format_us)} {high(pattern.max_age_us, format_us)}"
    return f"{size}  {freq}  {age}  {action}"


def fill_template(template: str, values: dict[str, str]) -> str:
    """Scheme text with its placeholders (upper-case words such as ``MIN_AGE``) filled in.

    Raises
    ------
    ConfigError : a placeholder without a value, or a value without its placeholder
    """
    code = "\n".join(line.split("#", 1)[0] for line in template.splitlines())
    placeholders = set(re.findall(r"\b[A-Z][A-Z]*_[A-Z_]+\b", code))
    placeholders |= {name for name in values if re.search(rf"\b{name}\b", code)}
    for name in sorted(placeholders ^ set(values)):
        problem = "has no value" if name in placeholders else "is not in the scheme"
        raise ConfigError(f"scheme parameter {name} {problem}: '{template.strip()}'")
    for name, value in values.items():
        template = re.sub(rf"\b{name}\b", value, template)
    return template
