"""Scores that people bring along: a function in a Python file, or any program that prints a number."""

from __future__ import annotations

import json
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from damoos import regular_file
from damoos.common import programs
from damoos.common.plugins import answer, function_of, guarded, python_file
from damoos.errors import ConfigError, MeasurementError, nearest
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import LIMIT_S, Direction, Scorer, finite, within
from damoos.scorers.terms import slowdown_margin

NEEDS = ("runtime_s", "rss_avg_bytes")
# What a program may print.
MOST_BYTES = 1 << 20
BROKEN = "infeasible"
_MARK = "damoos:"
_ANSWERS = ("value", "margins")
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
        answer = self._ask(dict(run.metrics), dict(baseline.metrics))
        if isinstance(answer, Mapping):
            return self._with_margins(answer)
        margins = slowdown_margin(run, baseline, self.max_slowdown) if "runtime_s" in self.needs else {}
        if answer is None:
            return Score(None, False, margins)
        value = self._number(answer, "answer")
        return Score(value, True, margins, {self.name: value})

    @abstractmethod
    def _ask(self, run: dict[str, float], baseline: dict[str, float]) -> Any:
        """What the user's code answers: a number, None where a limit is broken, or a mapping with margins.

        Raises
        ------
        MeasurementError : there is no answer
        """

    def _with_margins(self, answer: Mapping[str, Any]) -> Score:
        """The score of an answer that tells the margins; its value counts also where one of them is negative."""
        for word in answer:
            if word not in _ANSWERS:
                raise MeasurementError(f"score {self.name}: its answer has '{word}'{nearest(word, _ANSWERS)}")
        margins = answer.get("margins", {})
        if not isinstance(margins, Mapping):
            raise MeasurementError(f"score {self.name}: its margins are no mapping of limits to numbers: {margins!r}")
        known = {str(limit): self._number(margin, f"margin '{limit}'") for limit, margin in margins.items()}
        value = answer.get("value")
        if value is None:
            return Score(None, False, known)
        return within({self.name: self._number(value, "value")}, known, self.name)

    def _number(self, value: Any, what: str) -> float:
        try:
            return finite(float(value), self.name)
        except (TypeError, ValueError):
            raise MeasurementError(f"score {self.name}: its {what} is not a number: {value!r}") from None


class FileScorer(ForeignScorer):
    """A function of a Python file: ``score(run, baseline)``, both mappings of metrics, gives a number or None.

    None says that a limit is broken. With ``{"value": 0.3, "margins": {"p99_ms": -0.1}}`` it also says by how much.
    Variables of the file declare what the scorer is.

    Parameters
    ----------
    path : str
        ``FILE.py:FUNCTION``.
    """

    def __init__(self, path: str) -> None:
        file, _, function = path.partition(":")
        module = python_file(Path(file), f"score {file}")
        super().__init__(path, {name: getattr(module, name) for name in _DECLARABLE if hasattr(module, name)})
        self._function: Callable[[dict[str, float], dict[str, float]], Any]
        self._function = function_of(module, function, f"score {path}")

    def _ask(self, run: dict[str, float], baseline: dict[str, float]) -> Any:
        with guarded(f"score {self.name}", MeasurementError):  # whatever it raises, the run cannot be scored
            return answer(f"score {self.name}", LIMIT_S, self._function, run, baseline)


class ProgramScorer(ForeignScorer):
    """A program that reads ``{"run": {...}, "baseline": {...}}`` on standard input and prints a number.

    It prints ``infeasible`` where a limit is broken, or a JSON object with ``value`` and ``margins``. A comment in its
    first lines may declare what the scorer is, as in ``# damoos: direction=minimize needs=runtime_s,p99_ms``.

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
        self._answers: dict[str, Any] = {}

    def _ask(self, run: dict[str, float], baseline: dict[str, float]) -> Any:
        text = json.dumps({"run": run, "baseline": baseline})
        if text not in self._answers:  # a study is scored again with every run, and a process each time takes long
            try:
                self._answers[text] = self._answer(text)
            except MeasurementError as error:  # one that hangs is not waited for again
                self._answers[text] = error
        answer = self._answers[text]
        if isinstance(answer, MeasurementError):
            raise answer
        return answer

    def _answer(self, text: str) -> Any:
        try:
            done = programs.answer([str(self._file)], text, LIMIT_S, MOST_BYTES)
        except (OSError, programs.NoAnswer) as error:
            raise MeasurementError(f"score {self.name}: {error}") from None
        if done.exit_status != 0:
            last = " | ".join(done.stderr.strip().splitlines()[-2:])
            raise MeasurementError(f"score {self.name}: exit status {done.exit_status}{': ' + last if last else ''}")
        word = done.stdout.strip()
        try:
            if word.startswith("{"):
                return json.loads(word)
            return None if word == BROKEN else float(word)
        except ValueError:
            raise MeasurementError(f"score {self.name}: it printed '{word[:60]}', which is not a number") from None


def _declared(file: Path) -> dict[str, Any]:
    """Words of the comment in which a program declares itself."""
    with regular_file.opened(file) as program:
        head = program.read(4096).decode(errors="replace")
    for line in head.splitlines()[:20]:
        _, mark, rest = line.partition(_MARK)
        if mark and line.lstrip().startswith(("#", "//")):
            words: dict[str, Any] = dict(word.partition("=")[::2] for word in rest.split())
            if "needs" in words:
                words["needs"] = words["needs"].split(",")
            return words
    return {}
