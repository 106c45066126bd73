"""Scores of a user's file: the file runs to go on with a study, and never to look at one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import damoos
from damoos.errors import ConfigError, DamoosError, StoreError, WorkloadError
from damoos.report import html
from damoos.store.studies import Store
from damoos.testing.fake import FakeMachine
from tests.unit.conftest import tune

SCORE = """
import pathlib
pathlib.Path({ran!r}).touch()
unit = "share of memory"
max_slowdown = 0.5
def score(run, baseline):
    return 1.0 - run["rss_avg_bytes"] / baseline["rss_avg_bytes"]
"""
PROGRAM = "#!/bin/sh\ntouch {ran}\necho 0.25\n"


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A file that is there once a score file has run."""
    return tmp_path / "ran"


@pytest.fixture(params=["file", "program"])
def score(tmp_path: Path, ran: Path, request: pytest.FixtureRequest) -> str:
    """Name of a score of both kinds."""
    if request.param == "file":
        (tmp_path / "score.py").write_text(SCORE.format(ran=str(ran)))
        return f"{tmp_path}/score.py:score"
    program = tmp_path / "score.sh"
    program.write_text(PROGRAM.format(ran=ran))
    program.chmod(0o755)
    return str(program)


@pytest.mark.slow
def test_one_s_own_study_shows_all_without_its_file(
    machines, results: Path, score: str, ran: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    study = tune(results, score=score)
    scores = [(trial.number, trial.score, trial.interval) for trial in study.trials]
    assert ran.exists()
    ran.unlink()
    Path(score.partition(":")[0]).unlink()
    found = damoos.load_study(study.name, results=results)
    assert [(trial.number, trial.score, trial.interval) for trial in found.trials] == scores
    assert any(value.value is not None for _, value, _ in scores)
    for words in (["show", study.name], ["report", "html", study.name], ["watch", study.name], ["studies"],
                  ["report", "show", study.name], ["compare", study.name]):  # fmt: skip
        code, _, err = command(*words)
        assert code in (0, 2, 4), (words, err)
        assert "Traceback" not in err
        assert "score" not in err, (words, err)
    assert html.write(study.name, results, None)
    assert repr(found).splitlines()[0] == repr(study).splitlines()[0]
    assert not ran.exists()


@pytest.mark.slow
def test_going_on_runs_one_s_own_file(machines, results: Path, score: str, ran: Path) -> None:
    machines["a"] = FakeMachine(failures={3: WorkloadError("no"), 4: WorkloadError("no"), 5: WorkloadError("no")})
    with suppress(DamoosError):
        tune(results, score=score)
    (name,) = Store(results).names()
    ran.unlink()
    machines["a"] = FakeMachine()
    damoos.load_study(name, results=results)
    assert not ran.exists()
    damoos.resume(name, results=results)
    proven = damoos.validate(name, ["slowdown<=0.4"], results=results, repeats=2)
    assert damoos.load_study(proven.name, results=results).trials == proven.trials


def test_a_store_that_names_a_file_runs_nothing(
    machines, results: Path, score: str, ran: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    """The configuration of a study with a score of damoos's own is changed, as another person may do."""
    study = tune(results)
    record = Store(results).load(study.name)
    record.set("config", {**record.config, "scorer": score})
    for words in (["show", study.name], ["report", "html", study.name]):
        code, _, err = command(*words)
        assert (code, err.count("\n")) == (2, 1)
        assert f"study '{study.name}' has not stored the scores of {score}" in err
    for words in (["compare", study.name], ["watch", study.name], ["studies"]):
        command(*words)
    assert not ran.exists()


def test_a_study_of_an_older_damoos_is_told_and_completed(machines, results: Path, score: str) -> None:
    study = tune(results, score=score)
    Store(results).load(study.name).set("scores", None)
    with pytest.raises(ConfigError, match=f"'damoos resume {study.name}' stores them"):
        _ = damoos.load_study(study.name, results=results).trials
    damoos.resume(study.name, results=results)
    assert damoos.load_study(study.name, results=results).trials == study.trials


@pytest.mark.slow
@pytest.mark.parametrize("form", [7, [], {}, {"declared": {}, "scores": {}}, {"declared": 1, "scores": {"a": {}}}])
def test_damaged_scores_are_told(machines, results: Path, tmp_path: Path, ran: Path, form: Any) -> None:
    (tmp_path / "score.py").write_text(SCORE.format(ran=str(ran)))
    study = tune(results, score=f"{tmp_path}/score.py:score")
    Store(results).load(study.name).set("scores", form)
    with pytest.raises(StoreError, match="its scores are none"):
        _ = damoos.load_study(study.name, results=results).trials


@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.slow
def test_the_file_of_a_store_that_all_may_write_to_is_not_run(
    machines, results: Path, score: str, ran: Path, what: str
) -> None:
    study = tune(results, score=score)
    record = Store(results).load(study.name)
    record.set("result", None)
    ran.unlink()
    (results if what == "folder" else results / "damoos.sqlite").chmod(0o777)
    refusal = "results" if what == "folder" else f"score file {score} of study '{study.name}' is not used: .*"
    with pytest.raises(StoreError, match=f"{refusal} is writable by every user"):
        damoos.resume(study.name, results=results)
    assert not ran.exists()
