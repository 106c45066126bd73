"""A number from wherever somebody keeps it: what a command prints, a file, a URL."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damoos import regular_file
from damoos.agent.command_output import output_of
from damoos.agent.regex import RegexProcess
from damoos.errors import MeasurementError

READING_S = 10.0
MOST_BYTES = 4 << 20
"""What a command may print, and a file or a page may have."""
# These match what others have written: each in one way only, so that a long text takes no longer than it is long.
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_WHOLE = re.compile(r"-?\d+")
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")
_LABEL = re.compile(r'\b(\w+)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"')
# A line of a page that is longer is no series, and a word that is longer no number.
_LINE_CHARS, _WORD_CHARS = 64 << 10, 400
_regexes = RegexProcess()


def reading(source: str, argv: Sequence[str], key: str = "") -> float:
    """A metric's value now.

    Parameters
    ----------
    source : {"cmd", "file", "url"}
    argv : sequence of str
        Words of a command, a file's path, or a URL.
    key : str
        Which of its numbers, see `number_in`; empty where it has one.

    Raises
    ------
    MeasurementError : there is no number, or more than one, with what there was instead
    """
    return dated_reading(source, argv, key)[0]


def dated_reading(source: str, argv: Sequence[str], key: str = "") -> tuple[float, float | None]:
    """A metric's value, and how old it is in seconds; None where its source does not tell that.

    A file tells when it was written, and a page of Prometheus may have a time beside the value. Both are compared with
    this machine's clock.

    Raises
    ------
    MeasurementError : see `reading`
    """
    where = " ".join(argv)
    try:
        content, written_s = {"cmd": _printed, "file": _content, "url": _page}[source](argv)
        text = content.decode()
        value = number_in(text, key)
        at_s = written_s if written_s is not None else time_beside(text, key)
    except (OSError, ValueError, LookupError) as error:
        raise MeasurementError(f"'{where}': {error}") from None
    return value, None if at_s is None else max(time.time() - at_s, 0.0)


def _printed(argv: Sequence[str]) -> tuple[bytes, None]:
    status, out, err = output_of(argv, READING_S, MOST_BYTES)
    if status != 0:
        raise ValueError(f"it ended with {status}: {err.decode(errors='replace').strip()[-200:]}")
    return out, None


def _content(argv: Sequence[str]) -> tuple[bytes, float | None]:
    """What a file has, and when it was written; others than regular files may have no end."""
    try:
        return regular_file.dated(Path(argv[0]), MOST_BYTES)
    except regular_file.NotRegularError:
        raise ValueError("it is no regular file") from None
    except regular_file.TooLargeError:
        raise ValueError(f"the file is larger than {MOST_BYTES >> 20} MiB") from None


def _page(argv: Sequence[str]) -> tuple[bytes, None]:
    from damoos.agent.page import page  # slow to import, and most runs have no use for it

    return page(argv[0], READING_S, MOST_BYTES), None


def number_in(text: str, key: str) -> float:
    """The one number that a key names.

    Parameters
    ----------
    key : str
        Empty: the only word of the text that is a number. ``/REGEX/``: what its group matches, or all of it without a
        group. In JSON a path, see `at_path`. Else a series of the Prometheus text format, ``latency{quantile="0.99"}``,
        by its name and as many labels as tell it from others.

    Raises
    ------
    ValueError : there is no such number, there are several, or it is not finite
    """
    shown = " ".join(text.split())[:80]
    values: Sequence[str | float]
    if not key:
        words = [word for word in text.split() if len(word) <= _WORD_CHARS and _NUMBER.fullmatch(word)]
        count, values = len(words), words[-1:]
    elif len(key) > 1 and key.startswith("/") and key.endswith("/"):
        found = _regexes.matches(key[1:-1], text, re.MULTILINE)
        count, values = found.count, [found.last]
    elif text.lstrip()[:1] in ("{", "["):
        count, values = 1, [_in_json(text, key, shown)]
    else:
        values = [value for value, _ in _series(text, key)]
        count = len(values)
    named = f"at '{key}'" if key else "in it"
    if not count:
        raise ValueError(f"no number {named}: '{shown}'" + ("" if key else "; name one by #KEY behind it"))
    if count > 1:
        raise ValueError(f"{count} numbers {named}: '{shown}'; name one by #KEY behind it")
    value = number(values[0])
    if not math.isfinite(value):
        raise ValueError(f"the number {named} is {value}: '{shown}'")
    return value


def time_beside(text: str, key: str) -> float | None:
    """When a series of the Prometheus text format was measured, in seconds since 1970; None where that is not told."""
    if not key or key.startswith("/") or text.lstrip()[:1] in ("{", "["):
        return None
    times = [at_ms for _, at_ms in _series(text, key)]
    return int(times[0]) / 1e3 if times and times[0] else None


def number(word: Any) -> float:
    """The number that a word is; an error shows only how a longer one begins.

    Raises
    ------
    ValueError, TypeError, OverflowError : it is none
    """
    if isinstance(word, str) and len(word) > _WORD_CHARS:
        raise ValueError(f"could not convert {word[:40]!r}... to a number: it has {len(word)} characters")
    return float(word)


def _in_json(text: str, path: str, shown: str) -> float:
    try:
        document = json.loads(text, parse_int=float)  # long whole numbers would take the square of their length
    except RecursionError:
        raise ValueError(f"the answer is JSON that nests too deeply: {shown}") from None
    try:
        return at_path(document, path)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise ValueError(f"the answer has no number at '{path}': {shown}") from None


def at_path(document: Any, path: str) -> float:
    """The number at a path such as ``jobs.0.read.iops``; the rest of the path may be one key (``99.000000``)."""
    value, keys = document, path.split(".")
    while keys:
        rest = ".".join(keys)
        if isinstance(value, dict) and rest in value:
            value, keys = value[rest], []
        elif isinstance(value, dict) and keys[0] not in value:
            raise KeyError(f"no '{keys[0]}' of '{path}' in the JSON")
        else:
            value, keys = value[int(keys[0])] if isinstance(value, list) else value[keys[0]], keys[1:]
    return number(value)


def _series(text: str, key: str) -> list[tuple[str, str]]:
    """Values and times of the Prometheus series that have the key's name and all of its labels."""
    name, brace, labels = key.partition("{")
    its_labels = set(_LABEL.findall(brace + labels))
    values = []
    for line in text.splitlines():
        series = _parts(line) if len(line) <= _LINE_CHARS and line.startswith(name.strip()) else None
        if series and series[0] == name.strip() and its_labels <= set(_LABEL.findall(series[1])):
            values.append(series[2:])
    return values


def _parts(line: str) -> tuple[str, str, str, str] | None:
    """Name, labels, value and time of a line of the Prometheus text format; "" without a time. None for other lines."""
    name = _NAME.match(line)
    rest, labels = line[name.end() :] if name else "", ""
    if rest.lstrip().startswith("{"):
        labels, _, rest = rest.rpartition("}")
    words = rest.split() if rest[:1].isspace() else []
    is_series = 1 <= len(words) <= 2 and words[0][0] != "{" and all(map(_WHOLE.fullmatch, words[1:]))
    return (name[0], labels, words[0], words[1] if words[1:] else "") if name and is_series else None
