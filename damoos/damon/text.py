"""Scheme text: one parser for every dialect that has been published.

A line is ``min-size max-size  min-freq max-freq  min-age max-age  action``, and ``key=value`` words of all else that a
scheme has (`damoos.damon.words`). A line ``attrs`` has words of the monitoring. A line ``module NAME`` stands for
one of the kernel's modules, in place of schemes. ``#`` starts a comment.
``min`` and ``max``, and the older ``null`` and ``na``, mean "no bound". Sizes take B K M G T, ages us ms s m h d,
frequencies are percents with or without the sign. The older form with a single (minimum) age has six fields.

References
----------
DAOS (HPDC'22) Listings 1 and 3; DAMON v8 patch set (June 2020), cover letter and appendices
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeVar

from damoos.damon.pattern import AccessPattern, action_of
from damoos.errors import ConfigError, SchemeError
from damoos.units import format_bytes, format_percent, format_us, parse_bytes, parse_percent, parse_us

ATTRS, MODULE = "attrs", "module"
_UNBOUNDED = ("null", "na")
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Word:
    text: str
    line: int
    column: int

    def error(self, message: str) -> SchemeError:
        return SchemeError(f"line {self.line}, column {self.column}: {message}", self.line, self.column)


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


@dataclass(frozen=True)
class Line:
    """One line: a scheme's action, access pattern and words, or the words of the monitoring.

    Parameters
    ----------
    number : int
        Place in the text, from 1; 0 for a line that is not there.
    action : str
        `ATTRS` for the line of the monitoring, `MODULE` for that of one of the kernel's modules.
    name : str
        Of the module.
    """

    number: int
    action: str
    pattern: AccessPattern = field(default_factory=AccessPattern)
    words: dict[str, str] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    name: str = ""

    @property
    def is_attrs(self) -> bool:
        """Whether it is the line of the monitoring."""
        return self.action == ATTRS

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Errors of the block that begin with a word's key are told with its line and column."""
        try:
            yield
        except SchemeError as error:
            column = self.columns.get(str(error).split(": ")[0])
            where = f"line {self.number}, column {column}: " if column else ""
            raise SchemeError(f"{where}{error}", self.number if column else 0, column or 0) from None


def _parse_line(words: list[_Word]) -> Line:
    plain = list(takewhile(lambda word: "=" not in word.text, words))
    extra, columns = _key_values(words[len(plain) :])
    number = words[0].line
    if words[0].text == ATTRS:
        if len(plain) > 1:
            raise plain[1].error(f"'{plain[1].text}' is not of the form key=value")
        return Line(number, ATTRS, words=extra, columns=columns)
    if words[0].text == MODULE:
        if len(plain) != 2:
            raise words[0].error(f"'{MODULE}' is followed by the name of one, and its parameters as key=value")
        return Line(
            number, MODULE, words=extra, columns={plain[1].text: plain[1].column, **columns}, name=plain[1].text
        )
    if not plain:
        raise words[0].error(f"'{words[0].text}': a line begins with a scheme's 7 fields, '{ATTRS}' or '{MODULE}'")
    if len(plain) == 6:  # the older form: no upper bound of the age
        plain = [*plain[:5], _Word("max", plain[5].line, plain[5].column), plain[5]]
    if len(plain) != 7:
        raise plain[-1].error(
            f"a scheme has 7 fields (min/max size, min/max frequency, min/max age, action), found {len(plain)}"
        )
    min_sz, max_sz = _bounds(plain[0], plain[1], parse_bytes, 0)
    min_freq, max_freq = _bounds(plain[2], plain[3], parse_percent, parse_percent("0"))
    min_age, max_age = _bounds(plain[4], plain[5], parse_us, 0)
    # "min min" for frequencies is the paper's way to write "never accessed", which is what 0 to 0 says.
    try:
        pattern = AccessPattern(min_sz, max_sz, min_freq, max_freq, min_age, max_age)
        return Line(number, action_of(plain[6].text), pattern, extra, columns)
    except SchemeError as error:
        raise plain[6].error(str(error)) from None


def _key_values(words: list[_Word]) -> tuple[dict[str, str], dict[str, int]]:
    texts: dict[str, str] = {}
    columns: dict[str, int] = {}
    for word in words:
        key, equals, value = word.text.partition("=")
        if not equals or not key or not value:
            raise word.error(f"'{word.text}' is not of the form key=value")
        if key in texts:
            raise word.error(f"'{key}' is given twice")
        texts[key], columns[key] = value, word.column
    return texts, columns


def parse_lines(text: str) -> list[Line]:
    """The lines of a text that are not empty, in order.

    Raises
    ------
    SchemeError : with line and column, and the nearest valid word where a word is unknown
    """
    lines = (_words(line, number) for number, line in enumerate(text.splitlines(), start=1))
    return [_parse_line(words) for words in lines if words]


def format_line(action: str, pattern: AccessPattern) -> str:
    """The fields of a line that `parse_lines` reads back to the same action and access pattern."""

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
