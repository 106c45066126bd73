"""Quantities as people write them: bytes, times and percents, exactly.

Everything is kept in integer base units (bytes, microseconds) or in `fractions.Fraction` (percent), so that
a round trip through text loses nothing. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from damoos.errors import ConfigError, nearest

Number = TypeVar("Number", int, Fraction)
MIB = float(1 << 20)
BYTE_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LATENCY_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
TIME_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
# Commas only between thousands, as damo writes them.
_QUANTITY = re.compile(r"((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*([A-Za-z%]*)", re.ASCII)
# More than a kernel's 64 bits can hold is nonsense.
MOST = 1 << 64
# Of a number as it is written; Python computes with longer ones, up to 4300 digits, and then raises an error.
_MOST_DIGITS = 100
_SHOWN = 40


def quoted(text: str) -> str:
    """Text in quotes for a message; of a long one the beginning, and how long it is."""
    return f"'{text}'" if len(text) <= 2 * _SHOWN else f"'{text[:_SHOWN]}…' ({len(text)} characters)"


def _split(text: str, what: str) -> tuple[Fraction, str]:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or len(match[1]) > _MOST_DIGITS:
        raise ConfigError(f"{quoted(text)} is not a {what}")
    return Fraction(match[1].replace(",", "")), match[2]


def _whole(value: Fraction, text: str, unit: str) -> int:
    if value > MOST:
        raise ConfigError(f"'{text}' is more than {MOST} {unit}, which nothing can be")
    if value.denominator != 1:
        raise ConfigError(f"'{text}' is not a whole number of {unit}")
    return int(value)


def parse_bytes(text: str) -> int:
    """Size in bytes of text such as ``4K``, ``2MB``, ``1.5GiB`` or ``4096``; units are powers of 1024."""
    number, unit = _split(text, "size")
    letter = unit.upper().removesuffix("IB").removesuffix("B")
    if letter not in BYTE_UNITS:
        raise ConfigError(f"'{text}': unknown size unit '{unit}'{nearest(unit, ['B', 'K', 'M', 'G', 'T'])}")
    return _whole(number * BYTE_UNITS[letter], text, "bytes")


def parse_us(text: str) -> int:
    """Time in microseconds of text such as ``5s``, ``100ms`` or ``2m``; a bare number is microseconds."""
    number, unit = _split(text, "time")
    if unit and unit not in TIME_UNITS_US:
        raise ConfigError(f"'{text}': unknown time unit '{unit}'{nearest(unit, TIME_UNITS_US)}")
    return _whole(number * TIME_UNITS_US[unit or "us"], text, "microseconds")


def parse_time(text: str) -> int:
    """Time in microseconds of a text that people write: it must have a unit, but for 0."""
    time_us, (number, unit) = parse_us(text), _split(text, "time")
    if number and not unit:
        raise ConfigError(f"'{text}' has no unit; write {text}s, {text}ms, or another of {', '.join(TIME_UNITS_US)}")
    return time_us


def parse_latency(text: str) -> int:
    """Latency of memory in nanoseconds, of text such as ``80ns``."""
    number, unit = _split(text, "latency")
    if unit not in LATENCY_UNITS_NS:
        raise ConfigError(f"'{text}': expected one of the units {', '.join(LATENCY_UNITS_NS)}")
    return _whole(number * LATENCY_UNITS_NS[unit], text, "nanoseconds")


def of_option(parse: Callable[[str], Number], words: str, option: str) -> Number:
    """What a parser of these makes of an option's words; its errors name the option.

    Raises
    ------
    ConfigError : as the parser has it
    """
    try:
        return parse(words)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None


def parse_percent(text: str) -> Fraction:
    """Percent between 0 and 100 of text such as ``80%``, ``80 %`` or ``80``."""
    number, unit = _split(text, "percentage")
    if unit not in ("", "%"):
        raise ConfigError(f"'{text}': a percentage has no unit '{unit}'")
    if number > 100:
        raise ConfigError(f"'{text}' is more than 100 percent")
    return number


def format_bytes(size: int) -> str:
    """Shortest exact text for a size in bytes, for example ``4K``."""
    for unit, factor in reversed(list(BYTE_UNITS.items())):
        if unit and size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def format_us(time_us: int) -> str:
    """Shortest exact text for a time in microseconds, for example ``5s`` or ``1500ms``."""
    if time_us == 0:
        return "0s"
    for unit, factor in reversed(TIME_UNITS_US.items()):
        if time_us % factor == 0:
            return f"{time_us // factor}{unit}"
    return f"{time_us}us"


def format_percent(percent: Fraction) -> str:
    """Text of a percentage that `parse_percent` reads back exactly, where decimals can say it."""
    return f"{int(percent)}%" if percent.denominator == 1 else f"{float(percent)!r}%"


def show_bytes(size: float) -> str:
    """Size for people's eyes, rounded to three digits, for example ``54.3 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def show_number(number: float) -> str:
    """Number for people's eyes: four digits or more, thousands parted, no exponent for what people count."""
    if not 1e-4 <= abs(number) < 1e12:
        return f"{number:.4g}"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def show_score(score: float, unit: str = "") -> str:
    """Score for people's eyes: with its unit where it has one; else three decimals, or four digits of a large one."""
    if unit == "bytes":
        return show_bytes(score)
    if unit:
        return f"{show_number(score)} {unit}"
    return f"{score:+.3f}" if abs(score) < 1000 else f"{score:+.4g}"


def show_count(number: int, noun: str) -> str:
    """Number and noun: ``1 machine``, ``3 machines``, ``2 studies``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"


def show_clock(seconds: float) -> str:
    """Time for people's eyes as a clock shows it: ``4:05``, or ``2:04:05`` with hours."""
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{left:02d}" if minutes >= 60 else f"{minutes}:{left:02d}"
