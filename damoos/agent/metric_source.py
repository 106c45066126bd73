"""A number from wherever somebody keeps it: what a command prints, a file, a URL."""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damoos.errors import MeasurementError

READING_S = 10.0
_MOST_BYTES = 4 << 20
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
# A line of the Prometheus text format: a name, labels, a value, maybe a time.
_SERIES = re.compile(r"([a-zA-Z_:][\w:]*)\s*(\{.*\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


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
    where = " ".join(argv)
    try:
        if source == "cmd":
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=READING_S, check=False
            )
            if done.returncode != 0:
                raise MeasurementError(f"'{where}' ended with {done.returncode}: {done.stderr.strip()[-200:]}")
            text = done.stdout
        elif source == "file":
            text = Path(argv[0]).read_text()
        else:
            from urllib.request import urlopen  # slow to import, and most runs have no use for it

            with urlopen(argv[0], timeout=READING_S) as answer:
                text = _page(answer).decode()
        return number_in(text, key)
    except (OSError, ValueError, LookupError, subprocess.TimeoutExpired) as error:
        raise MeasurementError(f"'{where}': {error}") from None


def _page(answer: Any) -> bytes:
    """What a server answers, which may be another program than the one that was asked: in time, and not too much."""
    deadline, page = time.monotonic() + READING_S, b""
    while part := answer.read1(_MOST_BYTES):
        page += part
        if len(page) > _MOST_BYTES:
            raise ValueError(f"the page is larger than {_MOST_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise ValueError(f"the page took longer than {READING_S:g} s")
    return page


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
    if not key:
        values = [float(word) for word in text.split() if _NUMBER.fullmatch(word)]
    elif len(key) > 1 and key.startswith("/") and key.endswith("/"):
        values = [float(match[match.re.groups and 1]) for match in re.finditer(key[1:-1], text, re.MULTILINE)]
    elif text.lstrip()[:1] in ("{", "["):
        return _in_json(text, key, shown)
    else:
        values = _series(text, key)
    named = f"at '{key}'" if key else "in it"
    if not values:
        raise ValueError(f"no number {named}: '{shown}'" + ("" if key else "; name one by #KEY behind it"))
    if len(values) > 1:
        raise ValueError(f"{len(values)} numbers {named}: '{shown}'; name one by #KEY behind it")
    if not math.isfinite(values[0]):
        raise ValueError(f"the number {named} is {values[0]}: '{shown}'")
    return values[0]


def _in_json(text: str, path: str, shown: str) -> float:
    document = json.loads(text)
    try:
        return at_path(document, path)
    except (KeyError, IndexError, TypeError, ValueError):
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
    return float(value)


def _series(text: str, key: str) -> list[float]:
    """Values of the Prometheus series that have the key's name and all of its labels."""
    name, brace, labels = key.partition("{")
    its_labels = set(_LABEL.findall(brace + labels))
    values = []
    for line in text.splitlines():
        series = _SERIES.fullmatch(line)
        if series and series[1] == name.strip() and its_labels <= set(_LABEL.findall(series[2] or "")):
            values.append(float(series[3]))
    return values
