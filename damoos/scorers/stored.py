"""Scores of a user's file as a study has stored them: whoever looks at a study runs no file that its store names."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from damoos.errors import MeasurementError
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Scorer


class NotedScorer(Scorer):
    """Scores by another scorer and notes each answer; a study uses it to store what people who look will ask.

    Parameters
    ----------
    scorer : Scorer
    """

    def __init__(self, scorer: Scorer) -> None:
        self.name, self.direction, self.unit, self.needs = scorer.name, scorer.direction, scorer.unit, scorer.needs
        self._scorer = scorer
        self._scores: dict[str, dict[str, Any]] = {}

    @property
    def max_slowdown(self) -> float:
        """The other scorer's."""
        return self._scorer.max_slowdown

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """The other scorer's answer."""
        try:
            score = self._scorer.score(run, baseline, previous)
        except MeasurementError as error:
            self._scores[_key(run, baseline)] = {"error": str(error)}
            raise
        self._scores[_key(run, baseline)] = asdict(score)
        return score

    def to_json(self) -> dict[str, Any]:
        """Declarations and scores for the store, as `StoredScorer` reads them."""
        declared: dict[str, Any] = {"needs": list(self.needs), "direction": self.direction, "unit": self.unit}
        if math.isfinite(self.max_slowdown):
            declared["max_slowdown"] = self.max_slowdown
        return {"declared": declared, "scores": self._scores}


class StoredScorer(Scorer):
    """Answers from what a study has stored, and computes nothing.

    Parameters
    ----------
    name : str
    form : mapping
        What `NotedScorer.to_json` wrote; it may come from another person.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError : the form is of another kind
    """

    def __init__(self, name: str, form: Mapping[str, Any]) -> None:
        declared = form["declared"]
        if declared["direction"] not in ("maximize", "minimize"):
            raise ValueError(f"direction {declared['direction']!r}")
        self.name, self.direction, self.unit = name, declared["direction"], str(declared["unit"])
        self.needs = tuple(str(need) for need in declared["needs"])
        self._max_slowdown = float(declared.get("max_slowdown", math.inf))
        self._scores = {str(key): _answer(score) for key, score in form["scores"].items()}

    @property
    def max_slowdown(self) -> float:
        """What the file declared."""
        return self._max_slowdown

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """The score that is stored of this run beside this baseline.

        Raises
        ------
        MeasurementError : none is stored, or the file gave none
        """
        answer = self._scores.get(_key(run, baseline))
        if answer is None:
            raise _unknown(self.name)
        if isinstance(answer, str):
            raise MeasurementError(answer)
        return answer


class SeenScorer(Scorer):
    """Answers with the scores that trials had when they were stored, and knows nothing of other runs.

    Parameters
    ----------
    kind : type of Scorer
        Whose name, direction, unit and needs it has.
    seen : iterable of (Measurement, Score)
    """

    def __init__(self, kind: type[Scorer], seen: Iterable[tuple[Measurement, Score]]) -> None:
        self.name, self.direction, self.unit, self.needs = kind.name, kind.direction, kind.unit, kind.needs
        self._scores = {_run_key(run): score for run, score in seen}

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """The score that the run had.

        Raises
        ------
        MeasurementError : none is stored
        """
        if (found := self._scores.get(_run_key(run))) is None:
            raise _unknown(self.name)
        return found


def _unknown(name: str) -> MeasurementError:
    return MeasurementError(f"score {name}: the study has stored none of this run; 'damoos resume' adds it")


def _run_key(run: Measurement) -> str:
    return json.dumps(dict(run.metrics), sort_keys=True)


def _key(run: Measurement, baseline: Measurement) -> str:
    """What a score is stored by: a hash of all that the file is given."""
    text = json.dumps([dict(run.metrics), dict(baseline.metrics)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _answer(form: Mapping[str, Any]) -> Score | str:
    if "error" in form:
        return str(form["error"])
    value = form["value"]
    margins, parts = _numbers(form["margins"]), _numbers(form["parts"])
    return Score(None if value is None else float(value), bool(form["feasible"]), margins, parts)


def _numbers(form: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(number) for name, number in form.items()}
