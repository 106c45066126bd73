"""Driving a sweep: many studies, many machines, one thread.

A machine does one study at a time, from its first run to its last, so that baselines belong to the machine whose trials
they judge. A machine that has done a job gets the next one at once; nobody waits for anybody else. Only this thread
asks searchers and writes the store.
"""

from __future__ import annotations

import heapq
import itertools
import resource
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from damoos import doctor
from damoos.dispatch.base import Dispatcher, Job, Order, Outcome, Slot, job
from damoos.dispatch.retries import Strikes
from damoos.errors import MOST_CHARS, DamoosError, MachineError, StoreError, UnsupportedError
from damoos.machines import prices
from damoos.model.trial import Measurement, Run, Score, best_of
from damoos.scorers.terms import memory_saving, slowdown
from damoos.study import jobs
from damoos.study.conduct import steps
from damoos.study.config import StudyConfig
from damoos.study.evaluation_config import EvaluationConfig
from damoos.study.result import write
from damoos.study.steps import Step, Steps, Watcher
from damoos.study.study import EvaluationStudy, Study
from damoos.sweeps.events import Event
from damoos.sweeps.sweep import RESULT, STATUS, Sweep

STATUS_EVERY_S = 2.0
DONE = "done"


@dataclass
class Row:
    """One study as people watch it."""

    study: str
    workload: str
    machine: str
    nr_samples: int
    state: str = "waiting"
    on: str = ""
    trials: int = 0
    runs: int = 0
    best: float | None = None
    left_s: float | None = None
    verdict: str = ""
    score: float | None = None
    slowdown: float | None = None
    saving: float | None = None
    error: str = ""

    def take(self, result: Mapping[str, Any]) -> None:
        """Fill in what a finished study has come to."""
        self.state, self.left_s = "done", None
        if "configs" in result:  # a listed study: there is nothing to judge
            self.trials = self.runs = sum(config["nr_runs"] for config in result["configs"].values())
            return
        self.verdict = result["verdict"]
        self.trials = len(result["trials"])
        arms = result["validation"] or {}
        self.runs = self.trials + len(result["baselines"]) + sum(arm["repeats"] for arm in arms.values())
        if tuned := arms.get("tuned"):
            means = Measurement(tuned), Measurement(arms["baseline"])
            self.score, self.slowdown, self.saving = tuned["score"], slowdown(*means), memory_saving(*means)


@dataclass
class Tenancy:
    """A study that has a slot."""

    study: Study | EvaluationStudy
    row: Row
    steps: Steps
    held: ExitStack


@dataclass
class Place:
    """A slot and how it has done; ``gone`` says why it gets no more work, `DONE` if only because there is none."""

    slot: Slot
    strikes: Strikes = field(default_factory=Strikes)
    tenancy: Tenancy | None = None
    examined: bool = False
    gone: str = ""
    since: float = 0.0


def drive(
    sweep: Sweep, dispatcher: Dispatcher, event: Event = lambda kind, said: None, steady_s: float = doctor.STEADY_S
) -> dict[str, Any]:
    """Do all that is left of a sweep and return its summary, which is also its ``result.json``.

    Parameters
    ----------
    sweep : Sweep
    dispatcher : Dispatcher
    event : callable
        Told of each thing that happens: its kind, and what there is to say of it (docs/fleet.md lists them).
    steady_s : float, seconds
        How long the doctor listens for noisy neighbours; 0 where nothing is measured in earnest.

    Raises
    ------
    StoreError : nothing can be stored any more; what was is safe
    """
    _many_files()
    # Searchers solve small systems: threads for that would only keep the cores from the machines that are emulated.
    with sweep.driving(), threadpool_limits(1):
        return _Driver(sweep, dispatcher, event, steady_s).whole()


def _many_files() -> None:
    """A thousand studies under way hold a lock each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Driver:
    def __init__(self, sweep: Sweep, dispatcher: Dispatcher, event: Event, steady_s: float) -> None:
        self._sweep = sweep
        self._dispatcher = dispatcher
        self._event = event
        self._steady_s = steady_s
        self._rows: dict[str, Row] = {}
        self._waiting: dict[str, deque[StudyConfig | EvaluationConfig]] = {
            name: deque() for name in sweep.config.machines
        }
        self._places: dict[Slot, Place] = {}
        self._open: set[Slot] = set()
        self._later: list[tuple[float, int, Order]] = []
        self._numbers = itertools.count()
        self._failures: list[dict[str, Any]] = []
        self._machines: dict[str, dict[str, Any]] = {}
        self._spent_s: dict[str, float] = dict(sweep.status.get("spent_s", {}))
        self._retries: dict[str, int] = dict(sweep.status.get("retries", {}))
        self._told = 0.0

    def whole(self) -> dict[str, Any]:
        """Everything that is left."""
        self._line_up()
        try:
            for name, waiting in self._waiting.items():
                if waiting:
                    self._take_machines(name)
            self._loop()
        finally:
            self._let_go()
        result = self._summary()
        self._sweep.artifacts.write_json(RESULT, result)
        return result

    def _line_up(self) -> None:
        """Put what is not finished into the queue of its machine."""
        for config in self._sweep.config.configs():
            row = Row(self._sweep.study_name(config), config.target, config.machine, config.nr_steps)
            self._rows[row.study] = row
            result = self._sweep.finished(row.study)
            if result:
                row.take(result)
            else:
                self._waiting[config.machine].append(config)
        left = sum(map(len, self._waiting.values()))
        self._event("sweep", {"sweep": self._sweep.name, "studies": len(self._rows), "left": left})

    def _take_machines(self, name: str) -> None:
        try:
            count = self._dispatcher.capacity(name)
        except DamoosError as error:
            self._give_up_machine(name, str(error))
            return
        for number in range(min(count, len(self._waiting[name]))):
            place = self._places[Slot(name, number)] = Place(Slot(name, number), since=time.monotonic())
            self._open.add(place.slot)
            self._next(place)

    def _loop(self) -> None:
        while self._open:
            self._resubmit()
            self._tell()
            left_s = max(0.0, self._later[0][0] - time.monotonic()) if self._later else STATUS_EVERY_S
            if outcome := self._dispatcher.wait(min(left_s, STATUS_EVERY_S)):
                self._arrived(self._places[outcome.order.slot], outcome)

    def _resubmit(self) -> None:
        while self._later and self._later[0][0] <= time.monotonic():
            self._dispatcher.submit(heapq.heappop(self._later)[2])

    def _arrived(self, place: Place, outcome: Outcome) -> None:
        error = outcome.error
        if isinstance(error, MachineError):
            self._machine_failed(place, outcome.order, error)
            return
        if error is None:
            place.strikes.success()
        if place.examined:
            self._go_on(place, outcome)
        elif error is None:
            self._examined(place, outcome.value)
        else:
            self._close(place, f"unfit: {_text(error)}")

    def _machine_failed(self, place: Place, order: Order, error: MachineError) -> None:
        """Try a study again later, or go on with another one if the error is its own; or give the machine up."""
        again_s = place.strikes.failure(error)
        if again_s is not None:
            self._retries[str(place.slot)] = self._retries.get(str(place.slot), 0) + 1
            self._event(
                "retry",
                {"machine": str(place.slot), "study": order.tenant, "error": str(error), "backoff_s": again_s},
            )
            heapq.heappush(self._later, (time.monotonic() + again_s, next(self._numbers), order))
        elif place.strikes.out or not place.examined:
            self._close(place, f"quarantined: {error}" if place.strikes.out else f"unfit: {error}")
        else:
            self._go_on(place, Outcome(order, error=error))

    def _examined(self, place: Place, findings: list[doctor.Finding]) -> None:
        place.examined = True
        fit = doctor.fit(findings)
        report = {"fit": fit, "findings": [asdict(finding) for finding in findings]}
        self._machines[str(place.slot)] = report
        self._event("machine", {"machine": str(place.slot), **report})
        if fit:
            self._next(place)
        else:
            self._close(place, f"unfit: {doctor.why_unfit(findings)}")

    def _next(self, place: Place) -> None:
        """The doctor first; then the next study that waits for such a machine; the machine is let go when none does."""
        waiting = self._waiting[place.slot.machine]
        if not waiting:
            self._close(place, DONE)
        elif not place.examined:
            self._submit(place, waiting[0], job(jobs.examine, waiting[0], self._steady_s))
        else:
            self._begin(place, waiting.popleft())

    def _begin(self, place: Place, config: StudyConfig | EvaluationConfig) -> None:
        row = self._rows[self._sweep.study_name(config)]
        row.state, row.on, row.error = "running", str(place.slot), ""
        held = ExitStack()
        try:
            study = self._sweep.study(config)
            held.enter_context(study.record.writing())
            place.tenancy = Tenancy(study, row, steps(study, _Told(self, row)), held)
        except DamoosError as error:
            held.close()
            self._failed(row, error)
            self._next(place)
            return
        self._event("study", {"study": row.study, "state": "running", "machine": row.on})
        self._advance(place, place.tenancy, lambda steps: next(steps))

    def _go_on(self, place: Place, outcome: Outcome) -> None:
        assert place.tenancy
        error = outcome.error
        if error is None:
            self._advance(place, place.tenancy, lambda steps: steps.send(outcome.value))
        else:
            self._advance(place, place.tenancy, lambda steps: steps.throw(error))

    def _advance(self, place: Place, tenancy: Tenancy, move: Callable[[Steps], Step]) -> None:
        """Let a study go on to its next job, or to its end."""
        try:
            step = move(tenancy.steps)
        except StopIteration as end:
            self._finished(tenancy, end.value)
        except Exception as error:
            if isinstance(error, StoreError) and not self._stores(tenancy.study):
                raise  # nothing can be kept any more: the sweep ends here, and goes on from here
            self._failed(tenancy.row, error)
        else:
            self._submit(place, tenancy.study.config, step.job)
            return
        self._leave(place)
        self._next(place)

    def _stores(self, study: Study | EvaluationStudy) -> bool:
        """Whether a small word and a small file can still be written: then the fault is in one machine's answer."""
        try:
            study.record.set("elapsed_s", study.record.get("elapsed_s", 0.0))
            self._tell(now=True)
        except StoreError:
            return False
        return True

    def _submit(self, place: Place, config: StudyConfig | EvaluationConfig, job: Job) -> None:
        self._dispatcher.submit(Order(place.slot, self._sweep.study_name(config), config.machine_for, job))

    def _finished(self, tenancy: Tenancy, result: dict[str, Any]) -> None:
        write(tenancy.study, result)
        tenancy.row.take(result)
        self._event("study", {"state": "done", **_said(tenancy.row)})

    def _failed(self, row: Row, error: Exception) -> None:
        """A study that cannot go on; the others can."""
        text = _text(error)
        row.state, row.error, row.left_s = "failed", text, None
        kind = "machine" if isinstance(error, MachineError | UnsupportedError) else "study"
        failure = {"study": row.study, "machine": row.on or row.machine, "of": kind, "error": text}
        self._failures.append(failure)
        self._event("study", {"state": "failed", **failure})

    def _leave(self, place: Place) -> None:
        """The study is off its machine; what was not finished of it is still in the store."""
        if tenancy := place.tenancy:
            with suppress(StoreError):  # it only adds up its time; what broke the store has been said
                tenancy.steps.close()
            tenancy.held.close()
            place.tenancy = None

    def _close(self, place: Place, why: str) -> None:
        """No more work for a slot. A study that it had goes to another one, or has failed."""
        self._spend(place)
        place.gone = why
        self._open.discard(place.slot)
        self._dispatcher.release(place.slot)
        tenancy = place.tenancy
        self._leave(place)
        if why == DONE:
            return
        self._machines[str(place.slot)] = {**self._machines.get(str(place.slot), {}), "fit": False, "error": why}
        self._event("machine", {"machine": str(place.slot), "fit": False, "error": why})
        waiting = self._waiting[place.slot.machine]
        if tenancy:
            tenancy.row.state = "waiting"
            waiting.appendleft(tenancy.study.config)
        same = [other for other in self._places.values() if other.slot.machine == place.slot.machine]
        idle = next((other for other in same if other.gone == DONE), None)
        if idle and waiting:
            self._open.add(idle.slot)
            idle.gone, idle.since = "", time.monotonic()
            self._next(idle)
        elif all(other.gone for other in same):
            self._give_up_machine(place.slot.machine, f"machine '{place.slot.machine}' is {why}")

    def _give_up_machine(self, name: str, error: str) -> None:
        """What waits for a machine that nobody will ever have has failed."""
        waiting = self._waiting[name]
        while waiting:
            row = self._rows[self._sweep.study_name(waiting.popleft())]
            self._failed(row, MachineError(error))

    def _let_go(self) -> None:
        """Leave nothing under way, whatever the way out."""
        for place in self._places.values():
            self._leave(place)
        with suppress(StoreError):  # of a disk that is full, say; that has been said
            self._tell(now=True)

    def _spend(self, place: Place) -> None:
        """Add up the seconds for which a machine has been held."""
        now, name = time.monotonic(), place.slot.machine
        self._spent_s[name] = self._spent_s.get(name, 0.0) + now - place.since
        place.since = now

    def _tell(self, now: bool = False) -> None:
        """Write the status for others to read, now and then."""
        if now or time.monotonic() - self._told >= STATUS_EVERY_S:
            for slot in self._open:
                self._spend(self._places[slot])
            rows = [_said(row) for row in self._rows.values()]
            status = {
                "sweep": self._sweep.name, "studies": rows, "failures": self._failures, "spent_s": self._spent_s,
                "retries": self._retries,
            }  # fmt: skip
            self._sweep.artifacts.write_json(STATUS, status)
            self._event("rows", {row["study"]: row for row in rows})
            self._told = time.monotonic()

    def _summary(self) -> dict[str, Any]:
        return {
            "sweep": self._sweep.name,
            "studies": [_said(row) for row in self._rows.values()],
            "machines": self._machines,
            "failures": self._failures,
            "retries": self._retries,
            "cost": prices.cost(self._spent_s),
        }

    def told_finished(self, row: Row, run: Run, score: Score | None, direction: str) -> None:
        """Take in a finished run."""
        row.runs += 1
        row.trials += run.kind in ("trial", "config")
        if score and score.feasible and score.value is not None:
            row.best = best_of((value for value in (score.value, row.best) if value is not None), direction)
        metrics = run.measurement.metrics if run.measurement else {}
        self._event(
            "run",
            {
                "study": row.study,
                "machine": row.on,
                "run": run.key,
                "params": dict(run.params) if run.params else None,
                "runtime_s": metrics.get("runtime_s", metrics.get("elapsed_s")),
                "stopped": run.measurement is not None and run.measurement.censored,
                "rss_avg_bytes": metrics.get("rss_avg_bytes"),
                "score": score.value if score else None,
                "feasible": score.feasible if score else None,
                "error": run.error,
            },
        )

    def say(self, row: Row, text: str) -> None:
        """Pass a line of news on."""
        self._event("say", {"study": row.study, "text": text})


def _said(row: Row) -> dict[str, Any]:
    return dict(vars(row))  # all plain; a thousand of them are told every second


def _text(error: Exception) -> str:
    """One line; what is not ours is a defect, and names its kind. The files that have it are read up to a size."""
    text = str(error) if isinstance(error, DamoosError) else f"{type(error).__name__}: {error}"
    return text[:MOST_CHARS]


class _Told(Watcher):
    """Tells the driver how one of its studies goes."""

    def __init__(self, driver: _Driver, row: Row) -> None:
        self._driver = driver
        self._row = row
        self._direction = "maximize"

    def say(self, text: str) -> None:
        self._driver.say(self._row, text)

    def begin(self, study: Study | EvaluationStudy, total: int, done: int) -> None:
        self._direction = study.direction
        values = [
            trial.score.value for trial in study.trials() if trial.score.feasible and trial.score.value is not None
        ]
        self._row.runs = done
        self._row.trials = sum(run.kind in ("trial", "config") for run in study.runs())
        self._row.best = best_of(values, self._direction)

    def started(self, run: Run, left_s: float | None) -> None:
        self._row.left_s = left_s

    def finished(self, run: Run, score: Score | None) -> None:
        self._driver.told_finished(self._row, run, score, self._direction)
