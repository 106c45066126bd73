"""A study at a Python prompt and in a notebook: objects, frames, HTML."""

from __future__ import annotations

from pathlib import Path

import pytest

import damoos
from damoos.errors import ConfigError, WorkloadError
from damoos.testing.fake import FakeMachine
from tests.unit.conftest import html, tune

from .conftest import assert_tidy


def test_a_study(machines, tmp_path: Path) -> None:
    found = tune(tmp_path)
    assert [trial.number for trial in found.trials] == found.trials_df["number"].tolist() == [0, 1, 2]
    runs = found.runs_df
    for frame in (found.trials_df, runs, found.samples("trial-000")):
        assert_tidy(frame)
    assert runs["run"].tolist() == [run.key for run in found.study.runs()]
    assert set(runs["kind"]) == {"baseline", "trial", "validation"}
    assert runs.loc[runs["kind"] == "trial", "min_age_us"].tolist() == found.trials_df["min_age_us"].tolist()
    with pytest.raises(ConfigError, match=r"has no run 'trial-00'; did you mean 'trial-00"):
        found.samples("trial-00")
    assert repr(damoos.load_study(found.name, results=tmp_path)) == repr(found)


def test_a_run_that_failed_has_no_samples(machines, tmp_path: Path) -> None:
    machines["a"] = FakeMachine(failures={2: WorkloadError("it crashed")})
    found = tune(tmp_path)
    assert found.runs_df.set_index("run").loc["trial-000", "error"] == "it crashed"
    with pytest.raises(ConfigError, match=r"trial-000.parquet is not there: it crashed"):
        found.samples("trial-000")
    assert "fail: it crashed" in html(found.trials[0])


def test_a_study_and_its_trials_show_themselves(machines, tmp_path: Path) -> None:
    found = tune(tmp_path)
    text = html(found)
    assert "&lt;script&gt;" in text
    for arm in found.result["validation"].values():
        assert f"<td>{arm['runtime_s']:.2f} s</td>" in text
    assert found.result["recommended"]["scheme"] in text
    best = max((one for one in found.trials if one.score.feasible), key=lambda one: one.score.value)
    assert f"{best.score.value:+.4g}" in html(best)
    assert f'<th scope="row">min_age_us</th><td>{best.params["min_age_us"]}</td>' in html(best)


def test_an_unfinished_study_shows_itself(machines, tmp_path: Path) -> None:
    machines["a"] = FakeMachine(failures={0: WorkloadError("no")})
    with pytest.raises(WorkloadError):
        tune(tmp_path)
    (name,) = [one.name for one in tmp_path.iterdir() if one.is_dir()]
    assert "unfinished" in html(damoos.load_study(name, results=tmp_path))
