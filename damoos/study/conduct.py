"""Doing studies in this process: one, or several in turn.

What is stored decides what is next, so an interrupted study goes on where it stopped and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from damoos.dispatch.lease import Lease
from damoos.errors import DamoosError, StoreError
from damoos.study.configurations import Listing
from damoos.study.kept_scores import keep
from damoos.study.log import Logged
from damoos.study.search import Search
from damoos.study.steps import Step, Steps, Watcher
from damoos.study.study import SCORES, EvaluationStudy, Study


def conduct(study: Study | EvaluationStudy, watcher: Watcher | None = None) -> dict[str, Any]:
    """Do all that is left of a study and return its result; ``recommended`` is None if nothing was feasible.

    Raises
    ------
    TooManyFailures : trials failed one after the other
    DamoosError : as the machine, the workload or the store has it
    """
    return conduct_in_turn([study], watcher)[0]


def conduct_in_turn(studies: Sequence[Study | EvaluationStudy], watcher: Watcher | None = None) -> list[dict[str, Any]]:
    """Do all that is left of several studies, all of their machines open, and return their results.

    The studies take turns: none begins a round before all have finished the one before, and within a round none is more
    than one run ahead. The study that begins changes from round to round. So drift of the host affects all alike.

    Raises
    ------
    DamoosError : as the machine, the workload or the store of one of them has it; what had finished stays
    """
    watcher = watcher or Watcher()
    # A searcher's matrices have tens of rows. More threads only wait for each other, on CPUs that guests need.
    with threadpool_limits(1), ExitStack() as stack:
        turns: list[_Turn] = []
        for study in studies:
            if isinstance(study, Study):
                _load_scorer(study)
            if study.record.result is not None:
                continue
            stack.enter_context(study.record.writing())
            lease = stack.enter_context(Lease(study.config.machine_for(), watcher.say))
            turn = _Turn(steps(study, watcher), lease, len(turns))
            stack.callback(turn.steps.close)
            turns.append(turn)
        for turn in turns:
            turn.begin()
        while waiting := [turn for turn in turns if turn.step]:
            min(waiting, key=lambda turn: turn.place(len(turns))).do_step()
    return [study.record.result or {} for study in studies]


def _load_scorer(study: Study) -> None:
    """Refuse another person's score file before a machine is started; store what an older damoos has not stored."""
    if study.record.result is None:
        study.load_scorer()
    elif study.config.scores_by_file and study.record.get(SCORES) is None:
        study.load_scorer()
        with study.record.writing():
            keep(study, is_finished=True)


@dataclass
class _Turn:
    """A study on its machine, with the step that it wants done next (None at its end).

    ``round`` is that of its last step, and ``done`` how many runs of this round it has had.
    """

    steps: Steps
    lease: Lease
    number: int
    step: Step | None = None
    round: int = -1
    done: int = 0

    def begin(self) -> None:
        self.step = next(self.steps)

    def place(self, nr_studies: int) -> tuple[int, int, int]:
        """What the studies are ordered by: the round of the next step, its runs so far, the place in this round."""
        upcoming = -1 if self.step is None or self.step.run is None else self.step.run.number
        done = self.done if upcoming == self.round else 0
        return upcoming, done, (self.number - max(0, upcoming)) % nr_studies

    def do_step(self) -> None:
        """Do the step here and now."""
        assert self.step
        upcoming = self.place(1)[0]
        self.done = self.done + 1 if upcoming == self.round else 1
        self.round = upcoming
        try:
            try:
                value = self.step.job(self.lease)
            except DamoosError as error:
                self.step = self.steps.throw(error)
            else:
                self.step = self.steps.send(value)
        except StopIteration:
            self.step = None


def steps(study: Study | EvaluationStudy, watcher: Watcher) -> Steps:
    """Everything that is left of a study, job by job; its result is stored before it is returned."""
    logged = Logged(study, watcher)
    kind = Listing(study, logged) if isinstance(study, EvaluationStudy) else Search(study, logged)
    try:
        result = yield from kind.whole()
    except BaseException as error:
        with suppress(StoreError):  # that the log cannot be written matters less than what has ended the study
            logged.ended(error)
        raise
    logged.ended(None)
    return result
