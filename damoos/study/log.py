"""What a study did, line by line: in its folder, and for Python's `logging`."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from damoos.common.terminal import printable
from damoos.model.trial import Run, Score
from damoos.study.steps import Watcher
from damoos.study.study import EvaluationStudy, Study

FILE = "study.log"
_TOLD = ("runtime_s", "elapsed_s", "rss_avg_bytes")
# As libraries do: without it, Python prints warnings of loggers that nobody has set up.
logging.getLogger("damoos").addHandler(logging.NullHandler())


class Logged(Watcher):
    """Tells another watcher all that it is told, and writes it down.

    Each line begins with the time (UTC). A script has the same from the loggers ``damoos.study.NAME``.

    Parameters
    ----------
    study : Study or EvaluationStudy
    watcher : Watcher

    Raises
    ------
    StoreError : from each of its methods, where the study's folder cannot be written
    """

    def __init__(self, study: Study | EvaluationStudy, watcher: Watcher) -> None:
        self._artifacts = study.record.artifacts
        self._logger = logging.getLogger(f"damoos.study.{study.name}")
        self._watcher = watcher

    def say(self, text: str) -> None:
        """News."""
        self._write(logging.INFO, text)
        self._watcher.say(text)

    def begin(self, study: Study | EvaluationStudy, total: int, done: int) -> None:
        """What runs where, and how far it is."""
        setting = study.setting
        self._write(
            logging.INFO,
            f"{study.config.target} ({setting.variant}) on {study.config.machine}, Linux {setting.facts['kernel']}:"
            f" {done} of about {total} runs done",
        )
        self._watcher.begin(study, total, done)

    def skipped(self, nr_runs: int) -> None:
        """Fewer runs are needed."""
        self._watcher.skipped(nr_runs)

    def started(self, run: Run, left_s: float | None) -> None:
        """A run has begun."""
        self._write(logging.INFO, f"{run.key} begins" + (f" {json.dumps(dict(run.params))}" if run.params else ""))
        self._watcher.started(run, left_s)

    def finished(self, run: Run, score: Score | None) -> None:
        """What a run has come to."""
        if run.measurement is None:
            self._write(logging.WARNING, f"{run.key} failed: {run.error}")
        else:
            metrics = run.measurement.metrics
            said = [f"{name}={metrics[name]:g}" for name in _TOLD if name in metrics]
            if score is not None:
                said += [f"score={'none' if score.value is None else format(score.value, '+.4f')}"]
                said += [] if score.feasible else ["a limit is broken"]
            self._write(logging.INFO, f"{run.key} ended: {' '.join(said)}")
        self._watcher.finished(run, score)

    def ended(self, error: BaseException | None) -> None:
        """The study is done, or something has ended it."""
        if error is None:
            self._write(logging.INFO, "done")
        elif isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            self._write(logging.WARNING, "interrupted")
        else:
            self._write(logging.ERROR, f"ended by {type(error).__name__}: {error}".rstrip(": "))

    def _write(self, level: int, text: str) -> None:
        line = printable(" ".join(text.split()))
        self._logger.log(level, "%s", line)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._artifacts.append(FILE, f"{now} {logging.getLevelName(level):<7} {line}")
