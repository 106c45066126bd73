"""``key=value`` words of scheme text, and the fields of values that they stand for.

Each class of values has a table of its words beside it. A word's key is a dotted path: ``quotas.goals[0].target``. The
same paths name what a study tunes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from damoos.errors import ConfigError, SchemeError, nearest
from damoos.units import MOST, format_bytes, format_us, parse_bytes, parse_us, quoted

_T = TypeVar("_T")
_ITEM = re.compile(r"\[(\d{1,9})\]\.(.+)", re.ASCII)


@dataclass(frozen=True)
class Kind:
    """How values of a field are written.

    Parameters
    ----------
    parse, form : callable
        Text to value and back.
    unit : str
        That of `damoos.model.space.Param`; empty for what cannot be tuned over a range.
    """

    parse: Callable[[str], Any]
    form: Callable[[Any], str]
    unit: str = ""


def _number(text: str) -> int:
    try:
        value = int(text.replace(",", ""))
    except ValueError:  # also of more digits than Python reads
        raise ConfigError(f"{quoted(text)} is not a whole number") from None
    if abs(value) > MOST:
        raise ConfigError(f"{quoted(text)} is more than {MOST}, which nothing can be")
    return value


def _ms(text: str) -> int:
    time_us = parse_us(text)
    if time_us % 1000:
        raise ConfigError(f"'{text}' is not a whole number of milliseconds")
    return time_us // 1000


def _flag(text: str) -> bool:
    if text.upper() not in ("Y", "N"):
        raise ConfigError(f"'{text}' is neither Y nor N")
    return text.upper() == "Y"


def _fraction(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    if not slash:
        raise ConfigError(f"'{text}' is not a fraction such as 1/4096")
    return _number(number), _number(of)


TIME_US = Kind(parse_us, format_us, "us")
TIME_MS = Kind(_ms, lambda value: format_us(value * 1000), "ms")
BYTES = Kind(parse_bytes, format_bytes, "bytes")
NUMBER = Kind(_number, str, "count")
# Shares, whose scale is linear.
PERMIL = Kind(_number, str, "permil")
BASIS_POINTS = Kind(_number, str, "bp")
FLAG = Kind(_flag, lambda value: "Y" if value else "N")
FRACTION = Kind(_fraction, lambda value: f"{value[0]}/{value[1]}")
TEXT = Kind(str, str)


@dataclass(frozen=True)
class Word:
    """The field that a key stands for, and how its value is written."""

    field: str
    kind: Kind


@dataclass(frozen=True)
class Part:
    """A field that holds a value with words of its own, or a tuple of such."""

    field: str
    of: type
    table: Table
    is_list: bool = False


Table = Mapping[str, "Word | Part"]


def build(of: type[_T], table: Table, words: Mapping[str, str], **more: Any) -> _T:
    """A value from its words.

    Parameters
    ----------
    more : dict
        Fields that have no words.

    Raises
    ------
    SchemeError : it begins with the key of the word that is wrong
    """
    values = dict(more)
    parts: dict[str, dict[str, str]] = {}
    for key, text in words.items():
        entry, rest = _entry(table, key)
        if isinstance(entry, Part):
            parts.setdefault(entry.field, {})[rest] = text
        else:
            values[entry.field] = _parsed(entry, key, text)
    for name, entry in table.items():
        if isinstance(entry, Part) and entry.field in parts:
            values[entry.field] = _part(entry, name, parts[entry.field])
    try:
        return of(**values)
    except SchemeError as error:
        raise SchemeError(f"{next(iter(words), '')}: {error}" if words else str(error)) from None
    except TypeError:
        missing = [f.name for f in fields(of) if f.default is MISSING and f.default_factory is MISSING]  # type: ignore[arg-type]
        keys = [key for key, entry in table.items() if entry.field in missing and entry.field not in values]
        raise SchemeError(f"{next(iter(words), '')}: needs {', '.join(keys)}") from None


def flat(value: Any, table: Table) -> dict[str, str]:
    """The words of a value, without those that are as they are by default."""
    defaults = {f.name: f.default_factory() if f.default_factory is not MISSING else f.default for f in fields(value)}
    words: dict[str, str] = {}
    for key, entry in table.items():
        held = getattr(value, entry.field)
        if held is None or held == defaults[entry.field] or held == ():
            continue
        if isinstance(entry, Word):
            words[key] = entry.kind.form(held)
        else:
            items = [(f"{key}[{nth}]", item) for nth, item in enumerate(held)] if entry.is_list else [(key, held)]
            for name, item in items:
                inner_words = flat(item, entry.table) or _first(item, entry.table)
                words |= {f"{name}.{inner}": text for inner, text in inner_words.items()}
    return words


def _first(value: Any, table: Table) -> dict[str, str]:
    """One word of a value that is all as by default, so that it is there."""
    key, word = next((key, entry) for key, entry in table.items() if isinstance(entry, Word))
    return {key: word.kind.form(getattr(value, word.field))}


def word_of(table: Table, key: str) -> Word:
    """The word that a key stands for, through all parts.

    Raises
    ------
    SchemeError : there is none; it begins with the key
    """
    entry, rest = _entry(table, key)
    if isinstance(entry, Word):
        return entry
    try:
        return word_of(entry.table, _ITEM.fullmatch(rest)[2] if entry.is_list else rest)  # type: ignore[index]
    except SchemeError as error:
        raise SchemeError(str(error).replace(rest, key, 1)) from None


def _entry(table: Table, key: str) -> tuple[Word | Part, str]:
    """The entry of a key, and what of the key is left for a part."""
    if key in table and isinstance(table[key], Word):
        return table[key], ""
    for name, entry in table.items():
        if isinstance(entry, Part) and key.startswith(name):
            rest = key[len(name) :]
            if entry.is_list and _ITEM.fullmatch(rest):
                return entry, rest
            if not entry.is_list and rest.startswith("."):
                return entry, rest[1:]
    known = [name + (("[0]." if e.is_list else ".") + "…" if isinstance(e, Part) else "") for name, e in table.items()]
    raise SchemeError(f"{key}: unknown word{nearest(key, known)}")


def _parsed(word: Word, key: str, text: str) -> Any:
    try:
        return word.kind.parse(text)
    except ConfigError as error:
        raise SchemeError(f"{key}: {error}") from None


def _part(entry: Part, name: str, words: Mapping[str, str]) -> Any:
    if not entry.is_list:
        return _inner(entry, f"{name}.", words)
    items: dict[int, dict[str, str]] = {}
    for rest, text in words.items():
        match = _ITEM.fullmatch(rest)
        assert match
        items.setdefault(int(match[1]), {})[match[2]] = text
    for nth in range(len(items)):
        if nth not in items:
            raise SchemeError(f"{name}[{max(items)}].{next(iter(items[max(items)]))}: there is no {name}[{nth}]")
    return tuple(_inner(entry, f"{name}[{nth}].", items[nth]) for nth in range(len(items)))


def _inner(entry: Part, prefix: str, words: Mapping[str, str]) -> Any:
    try:
        return build(entry.of, entry.table, words)
    except SchemeError as error:
        raise SchemeError(f"{prefix}{error}") from None
