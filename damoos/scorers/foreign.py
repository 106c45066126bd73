"""Scores that people bring along: a function in a Python file, or any program that prints a number."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from damoos.errors import ConfigError, MeasurementError, nearest
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Direction, Scorer, finite

NEEDS = ("runtime_s", "rss_avg_bytes")
LIMIT_S = 30.0
BROKEN = "infeasible"
_MARK = "damoos:"
_DECLARABLE = ("needs", "direction", "unit", "max_slowdown")


class ForeignScorer(Scorer):
    """A scorer that says itself what it is, in words that have to be checked.

    Parameters
    ----------
    name : str
        What people call it.
    words : mapping
        ``needs`` (names of metrics), ``direction``, ``unit`` and ``max_slowdown``, as far as they are declared.
    """

    def __init__(self, name: str, words: Mapping[str, Any]) -> None:
        self.name = name
        for word in words:
            if word not in _DECLARABLE:
                raise ConfigError(f"score {name}: unknown declaration '{word}'{nearest(word, _DECLARABLE)}")
        directions: dict[str, Direction] = {"maximize": "maximize", "minimize": "minimize"}
        direction = str(words.get("direction", "maximize"))
        if direction not in directions:
            raise ConfigError(f"score {name}: direction '{direction}'{nearest(direction, directions)}")
        self.direction = directions[direction]
        self.unit = str(words.get("unit", "as the score has it"))
        needs = words.get("needs", NEEDS)
        self.needs = (needs,) if isinstance(needs, str) else tuple(needs)
        try:
            self._max_slowdown = float(words.get("max_slowdown", math.inf))
        except (TypeError, ValueError):
            raise ConfigError(f"score {name}: max_slowdown '{words['max_slowdown']}' is not a number") from None

    @property
    def max_slowdown(self) -> float:
        """What is declared."""
        return self._max_slowdown

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """What the user's code says."""
        for name in self.needs:
            run.metric(name)
            baseline.metric(name)
        value = self._ask(dict(run.metrics), dict(baseline.metrics))
        return Score(None, feasible=False) if value is None else Score(finite(value, self.name), feasible=True)

    @abstractmethod
    def _ask(self, run: dict[str, float], baseline: dict[str, float]) -> float | None:
        """A number, or None where a limit is broken; MeasurementError where there is no answer."""


class FileScorer(ForeignScorer):
    """A function of a Python file: ``score(run, baseline)``, both mappings of metrics, gives a number or None.

    None says that a limit is broken. Variables of the file declare what the scorer is.

    Parameters
    ----------
    path : str
        ``FILE.py:FUNCTION``.
    """

    def __init__(self, path: str) -> None:
        file, _, function = path.partition(":")
        module = _module(Path(file))
        super().__init__(path, {name: getattr(module, name) for name in _DECLARABLE if hasattr(module, name)})
        attribute = getattr(module, function, None)
        if not callable(attribute):
            known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            raise ConfigError(f"score {path}: there is no function '{function}'{nearest(function, known)}")
        self._function: Callable[[dict[str, float], dict[str, float]], Any] = attribute

    def _ask(self, run: dict[str, float], baseline: dict[str, float]) -> float | None:
        try:
            value = self._function(run, baseline)
            return None if value is None else float(value)
        except Exception as error:  # whatever it raises, the run is one that cannot be scored
            raise MeasurementError(f"score {self.name}: {type(error).__name__}: {error}") from None


def _module(file: Path) -> Any:
    if not file.is_file():
        raise ConfigError(f"score {file}: there is no such file")
    spec = importlib.util.spec_from_file_location(f"damoos_score_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"score {file}: {type(error).__name__}: {error}") from None
    return module


class ProgramScorer(ForeignScorer):
    """A program that reads ``{"run": {...}, "baseline": {...}}`` on standard input and prints a number.

    It prints ``infeasible`` where a limit is broken. A comment in its first lines may declare what the scorer is:
    ``# damoos: direction=minimize needs=runtime_s,p99_ms max_slowdown=0.1``.

    Parameters
    ----------
    path : str
        The program.
    """

    def __init__(self, path: str) -> None:
        file = Path(path)
        if not file.is_file():
            raise ConfigError(f"score {path}: there is no such file")
        if not os.access(file, os.X_OK):
            raise ConfigError(f"score {path}: it is not executable; chmod +x it, or write FILE.py:FUNCTION")
        super().__init__(path, _declared(file))
        self._file = file.resolve()
        self._answers: dict[str, float | None] = {}

    def _ask(self, run: dict[str, float], baseline: dict[str, float]) -> float | None:
        text = json.dumps({"run": run, "baseline": baseline})
        if text not in self._answers:  # a study is scored again with every run, and a process each time takes long
            self._answers[text] = self._answer(text)
        return self._answers[text]

    def _answer(self, text: str) -> float | None:
        try:
            done = subprocess.run(
                [self._file], input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MeasurementError(f"score {self.name}: {error}") from None
        if done.returncode != 0:
            last = " | ".join(done.stderr.strip().splitlines()[-2:])
            raise MeasurementError(f"score {self.name}: exit status {done.returncode}{': ' + last if last else ''}")
        word = done.stdout.strip()
        try:
            return None if word == BROKEN else float(word)
        except ValueError:
            raise MeasurementError(f"score {self.name}: it printed '{word[:60]}', which is not a number") from None


def _declared(file: Path) -> dict[str, Any]:
    """Words of the comment in which a program declares itself."""
    with open(file, "rb") as program:
        head = program.read(4096).decode(errors="replace")
    for line in head.splitlines()[:20]:
        _, mark, rest = line.partition(_MARK)
        if mark and line.lstrip().startswith(("#", "//")):
            words: dict[str, Any] = dict(word.partition("=")[::2] for word in rest.split())
            if "needs" in words:
                words["needs"] = words["needs"].split(",")
            return words
    return {}
