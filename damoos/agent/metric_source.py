"""A number from wherever somebody keeps it: a command, a file, a URL, a path in JSON."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from damoos.errors import MeasurementError

READING_S = 10.0
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def reading(source: str, argv: list[str]) -> float:
    """A metric's value now.

    Parameters
    ----------
    source : {"cmd", "file", "url"}
    argv : list of str
        Words of a command that prints a number; path of a file that holds one; a URL, and the path of the number in
        the JSON that it returns, if it is JSON.

    Raises
    ------
    MeasurementError : there is no number, with what there was instead
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
                text = answer.read().decode()
            if len(argv) > 1:
                return _in_answer(text, argv[1])
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise MeasurementError(f"'{where}': {error}") from None
    found = _NUMBER.search(text)
    if not found:
        raise MeasurementError(f"'{where}' returned '{text.strip()[:80]}', which is not a number")
    return float(found.group())


def _in_answer(text: str, path: str) -> float:
    document = json.loads(text)
    try:
        return at_path(document, path)
    except (KeyError, IndexError, TypeError, ValueError):
        raise MeasurementError(f"the answer has no number at '{path}': {text.strip()[:80]}") from None


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
