"""Looking on at a study or a sweep that somebody else runs: here another thread, on machines that are not there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from damoos import api
from damoos.errors import WorkloadError
from damoos.machines import catalog
from damoos.model.trial import Run, Score
from damoos.report import follow
from damoos.study.steps import Watcher
from damoos.study.study import Study
from damoos.testing.fake import FakeMachine

NAME = "true-fake-1"


class Slow(FakeMachine):
    """Waits with its third run until somebody looks on."""

    seen: threading.Event | None = None

    def begin_run(self, number: int) -> None:
        if self.seen and number == 2:
            assert self.seen.wait(60)
        super().begin_run(number)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.sweeps.driver.STATUS_EVERY_S", 0.05)
    monkeypatch.setattr(follow, "ALONE_S", 0.0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Slow]:
    def use(**words: Any) -> Slow:
        made = Slow(**words)
        monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: made)
        return made

    return use


def tune(results: Path) -> api.TunedStudy:
    return api.tune(command="true", machine="fake", results=results, trials=4, repeats=2, seed=1)


@contextmanager
def meanwhile(work: Callable[[], Any], until: Path) -> Iterator[None]:
    """Do it in another thread, from when something of it is there until it is done."""
    thread = threading.Thread(target=work)
    thread.start()
    while not until.exists():
        time.sleep(0.01)
    yield
    thread.join()


class Notes(Watcher):
    def __init__(self) -> None:
        self.begins = threading.Event()
        self.said: list[str] = []
        self.begun: list[tuple[int, int]] = []
        self.runs: list[Run] = []
        self.scores: dict[str, float | None] = {}

    def say(self, text: str) -> None:
        self.said.append(text)

    def begin(self, study: Study, total: int, done: int) -> None:
        self.begun.append((total, done))
        self.begins.set()

    def finished(self, run: Run, score: Score | None) -> None:
        self.runs.append(run)
        self.scores[run.key] = score and score.value


def look(results: Path, notes: Notes) -> dict[str, Any]:
    return follow.study(api.load_study(NAME, results=results).study, notes, every_s=0.01)


def test_every_run_is_told_once(machine, tmp_path: Path) -> None:
    notes = Notes()
    machine(noise=0.001).seen = notes.begins
    with meanwhile(lambda: tune(tmp_path), tmp_path / NAME / "baseline-000.parquet"):
        result = look(tmp_path, notes)
    found = api.load_study(NAME, results=tmp_path)
    runs = found.study.runs()
    ((total, done),) = notes.begun
    assert done <= 2
    assert total == found.study.config.nr_runs
    # The store is read in two goes: of two runs that end meanwhile the later one may be told first.
    assert sorted(notes.runs, key=lambda run: run.index) == runs[done:]
    assert result == found.result
    assert notes.said == []
    scored = [key for key, value in notes.scores.items() if value is not None]
    assert sorted(scored) == [f"trial-{one.number:03d}" for one in found.trials if one.score.value is not None]


def test_of_a_finished_study_nothing_is_told(machine, tmp_path: Path) -> None:
    machine()
    found = tune(tmp_path)
    notes = Notes()
    assert look(tmp_path, notes) == found.result
    assert (notes.said, notes.begun, notes.runs) == ([], [], [])


def test_it_is_told_once_that_nobody_runs_it_and_once_that_somebody_does(machine, tmp_path: Path) -> None:
    used = machine(failures={4: WorkloadError("no")})  # a baseline
    with pytest.raises(WorkloadError):
        tune(tmp_path)
    used.failures = {}
    notes = Notes()
    looking = threading.Thread(target=look, args=(tmp_path, notes))
    looking.start()
    while not notes.said:
        time.sleep(0.01)
    time.sleep(0.1)
    api.resume(NAME, results=tmp_path)
    looking.join()
    assert notes.said == [
        f"{NAME}: no process of this computer runs it; continue it with 'damoos resume {NAME}'",
        f"{NAME}: a process runs it again",
    ]
    assert notes.begun[0][1] == 4


def test_a_sweep(machine, tmp_path: Path) -> None:
    heard: list[tuple[str, dict[str, Any]]] = []
    looked = machine().seen = threading.Event()

    def hear(kind: str, said: dict[str, Any]) -> None:
        heard.append((kind, said))
        if kind == "study" and said["state"] == "running":
            looked.set()

    def sweep() -> None:
        api.sweep(["synthetic/idle", "synthetic/hot-cold"], ["fake"], trials=2, repeats=2, results=tmp_path)

    with meanwhile(sweep, tmp_path / "sweep-1" / "status.json"):
        found = api.load_sweep("sweep-1", results=tmp_path)
        result = follow.sweep(found.sweep, hear, every_s=0.01)
    assert result == found.result
    names = [row["study"] for row in result["studies"]]
    told = [(said["study"], said["state"]) for kind, said in heard if kind == "study"]
    # One may begin and end between two looks.
    assert [one for one in told if one[1] == "done"] == [(name, "done") for name in names]
    assert (names[0], "running") in told
    rows = [said for kind, said in heard if kind == "rows"]
    assert [row["state"] for row in rows[-1].values()] == ["done", "done"]
    heard.clear()
    assert follow.sweep(found.sweep, hear) == result
    assert heard == []


def test_looking_whether_somebody_runs_it_makes_nothing(machine, tmp_path: Path) -> None:
    from damoos.store.artifacts import Artifacts

    folder = Artifacts(tmp_path / "none")
    assert not folder.in_use()
    assert not folder.path.exists()
    with folder.held("taken"):
        assert folder.in_use()
    assert not folder.in_use()
