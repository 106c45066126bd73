"""Scores that people bring along: a function in a Python file, or any program that prints a number."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from damoos.errors import ConfigError, MeasurementError, nearest
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Direction, Scorer, finite

NEEDS = ("runtime_s", "rss_avg_bytes")
LIMIT_S = 30.0
BROKEN = "infeasible"
_DECLARED = "damoos:"


class FileScorer(Scorer):
    """A function of a Python file: ``score(run, baseline)``, both mappings of metrics, gives a number or None.

    None says that a limit is broken. The file may declare ``needs`` (names of metrics), ``direction``, ``unit`` and
    ``max_slowdown``.

    Parameters
    ----------
    path : str
        ``FILE.py:FUNCTION``.
    """

    def __init__(self, path: str) -> None:
        file, _, function = path.partition(":")
        self.name = path
        module = _module(Path(file))
        found = getattr(module, function, None)
        if not callable(found):
            known = [name for name, one in vars(module).items() if callable(one) and not name.startswith("_")]
            raise ConfigError(f"score {path}: there is no function '{function}'{nearest(function, known)}")
        self._function: Callable[[dict[str, float], dict[str, float]], Any] = found
        self._declare({name: getattr(module, name) for name in _DECLARABLE if hasattr(module, name)})

    def _declare(self, words: dict[str, Any]) -> None:
        self.direction: Direction = words.get("direction", "maximize")
        known = ("maximize", "minimize")
        if self.direction not in known:
            raise ConfigError(f"score {self.name}: direction '{self.direction}'{nearest(str(self.direction), known)}")
        self.unit = str(words.get("unit", "as the file has it"))
        self.needs = tuple(words.get("needs", NEEDS))
        self._max_slowdown = float(words.get("max_slowdown", math.inf))

    @property
    def max_slowdown(self) -> float:
        """What the file declares."""
        return self._max_slowdown

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """What the function returns."""
        for name in self.needs:
            run.metric(name), baseline.metric(name)
        try:
            value = self._function(dict(run.metrics), dict(baseline.metrics))
            return (
                Score(None, feasible=False) if value is None else Score(finite(float(value), self.name), feasible=True)
            )
        except MeasurementError:
            raise
        except Exception as error:  # whatever a user's function raises is a measurement that cannot be scored
            raise MeasurementError(f"score {self.name}: {type(error).__name__}: {error}") from None


_DECLARABLE = ("needs", "direction", "unit", "max_slowdown")


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


class ProgramScorer(Scorer):
    """A program that reads ``{"run": {...}, "baseline": {...}}`` on standard input and prints a number.

    It prints ``infeasible`` where a limit is broken. A comment in its first lines may declare what the scorer is:
    ``# damoos: direction=minimize needs=runtime_s,p99_ms max_slowdown=0.1``.

    Parameters
    ----------
    path : str
        The program.
    """

    def __init__(self, path: str) -> None:
        file = Path(path).resolve()
        if not file.is_file():
            raise ConfigError(f"score {path}: there is no such file")
        if not os.access(file, os.X_OK):
            raise ConfigError(f"score {path}: it is not executable; chmod +x it, or write FILE.py:FUNCTION")
        self.name = path
        self._file = file
        words = _declared(file)
        self.direction: Direction = "minimize" if words.get("direction") == "minimize" else "maximize"
        self.unit = words.get("unit", "as the program prints it")
        self.needs = tuple(words["needs"].split(",")) if "needs" in words else NEEDS
        self._max_slowdown = float(words.get("max_slowdown", math.inf))

    @property
    def max_slowdown(self) -> float:
        """What the program declares."""
        return self._max_slowdown

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """What the program prints."""
        for name in self.needs:
            run.metric(name), baseline.metric(name)
        text = json.dumps({"run": dict(run.metrics), "baseline": dict(baseline.metrics)})
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
        if word == BROKEN:
            return Score(None, feasible=False)
        try:
            return Score(finite(float(word), self.name), feasible=True)
        except ValueError:
            raise MeasurementError(f"score {self.name}: it printed '{word[:60]}', which is no number") from None


def _declared(file: Path) -> dict[str, str]:
    """Words of the comment in which a program declares itself."""
    with open(file, "rb") as program:
        head = program.read(4096).decode(errors="replace")
    for line in head.splitlines()[:20]:
        _, mark, rest = line.partition(_DECLARED)
        if mark and line.lstrip().startswith(("#", "//")):
            words = dict(word.partition("=")[::2] for word in rest.split())
            for name in words:
                if name not in _DECLARABLE:
                    raise ConfigError(f"score {file}: unknown declaration '{name}'{nearest(name, _DECLARABLE)}")
            return words
    return {}
