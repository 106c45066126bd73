"""Prices of the score ``cost``: a study stores them, and whoever looks at a study reads no file that it names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import damoos
from damoos.errors import ConfigError, MeasurementError, StoreError
from damoos.report import html
from damoos.store.studies import Store
from damoos.study.study import tuning_study
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.sweep import Sweep
from damoos.testing.fake import FakeMachine
from tests.unit.conftest import tune

PRICES = {"currency": "EUR", "gib_hour": 0.005, "core_hour": 0.03}
SECRET = 'password_hunter2 = "x"\n'


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    file = tmp_path / "prices.toml"
    file.write_text('currency = "EUR"\ngib_hour = 0.005\ncore_hour = 0.03\n')
    return file


def as_an_older_damoos_or_another_person_writes_it(results: Path, name: str, file: Path | str) -> None:
    """Have a stored study name a file of prices, and store nothing that the file says."""
    record = Store(results).load(name)
    options = {**record.config["scorer_options"], "prices": str(file)}
    record.set("config", {**record.config, "scorer_options": options})


@pytest.mark.slow
def test_a_study_stores_the_prices_and_needs_their_file_no_more(
    machines, results: Path, prices: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    study = tune(results, score="cost", prices=str(prices))
    assert Store(results).load(study.name).config["scorer_options"] == {"prices": PRICES}
    prices.unlink()
    found = damoos.load_study(study.name, results=results)
    assert found.trials == study.trials
    assert any(trial.score.value is not None for trial in found.trials)
    assert tuning_study(Store(results).load(study.name)).scorer.unit == "EUR per hour of the workload"
    for words in (["show", study.name], ["report", "html", study.name], ["watch", study.name], ["studies"],
                  ["compare", study.name]):  # fmt: skip
        code, out, err = command(*words)
        assert code in (0, 2, 4), (words, out, err)
        assert "prices" not in err, (words, err)
    proven = damoos.validate(study.name, ["slowdown<=0.9"], results=results, repeats=2)
    assert damoos.load_study(proven.name, results=results).trials == proven.trials


@pytest.mark.parametrize("kind", ["secret", "link", "pipe"])
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.slow
def test_who_looks_at_a_store_reads_no_file_that_it_names(
    machines, results: Path, prices: Path, tmp_path: Path, command: Callable[..., tuple[int, str, str]], kind: str,
    finished: bool,
) -> None:  # fmt: skip
    """Its scores are those that are stored; of old code, the message quoted the file."""
    study = tune(results, score="cost", prices=str(prices))
    secret, file = tmp_path / "secret", tmp_path / "file"
    secret.write_text(SECRET)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(secret)
    else:
        file.write_text(SECRET)
    as_an_older_damoos_or_another_person_writes_it(results, study.name, file)
    if not finished:
        Store(results).load(study.name).set("result", None)
    for words in (["show", study.name], ["report", "html", study.name], ["watch", study.name], ["studies"],
                  ["compare", study.name]):  # fmt: skip
        if words[0] == "watch" and not finished:
            continue  # it waits for the study to go on
        code, out, err = command(*words)
        assert "hunter2" not in out + err, words
        assert "Traceback" not in err
        assert code != 70, (words, err)
        assert str(file) not in err, (words, err)
    found = tuning_study(Store(results).load(study.name))
    stored = {key: score.value for key, score in found.record.scores().items()}
    shown = [trial.score.value for trial in found.trials_of(found.runs())]
    assert shown == [stored[run.key] for run in found.runs() if run.kind == "trial"]
    assert None not in shown
    assert found.direction == "maximize"
    if finished:  # its validation has no scores in the store
        with pytest.raises(MeasurementError, match="has stored none of this run; 'damoos resume' adds it"):
            html.write(study.name, results, None)


def test_a_study_of_an_older_damoos_is_completed_from_its_file(machines, results: Path, prices: Path) -> None:
    study = tune(results, score="cost", prices=str(prices))
    as_an_older_damoos_or_another_person_writes_it(results, study.name, prices)
    damoos.resume(study.name, results=results)
    prices.unlink()
    assert damoos.load_study(study.name, results=results).trials == study.trials


@pytest.mark.parametrize("what", ["folder", "file"])
def test_going_on_reads_no_file_that_all_may_have_named(machines, results: Path, prices: Path, what: str) -> None:
    study = tune(results, score="cost", prices=str(prices))
    as_an_older_damoos_or_another_person_writes_it(results, study.name, prices)
    (results if what == "folder" else results / "damoos.sqlite").chmod(0o777)
    for go_on in (
        lambda: damoos.resume(study.name, results=results),
        lambda: damoos.validate(study.name, ["slowdown<=0.9"], results=results, repeats=2),
    ):
        refusal = f"file {prices} of score 'cost' of study '{study.name}' is not used: .*"
        with pytest.raises(StoreError, match=f"{'results' if what == 'folder' else refusal} is writable by every user"):
            go_on()


def test_nor_one_that_a_sweep_names(machines, results: Path, prices: Path) -> None:
    settings = {"nr_samples": 4, "scorer": "cost", "scorer_options": {"prices": str(prices)}}
    sweep = Sweep.create(results, SweepConfig(["a"], ["a"], settings))
    results.chmod(0o777)
    with pytest.raises(StoreError, match="results is writable by every user, so damoos uses nothing there"):
        sweep.study(SweepConfig(["a"], ["a"], settings).configs()[0])


def test_going_on_waits_for_no_pipe(machines, results: Path, prices: Path) -> None:
    study = tune(results, score="cost", prices=str(prices))
    as_an_older_damoos_or_another_person_writes_it(results, study.name, prices)
    prices.unlink()
    os.mkfifo(prices)
    machines["a"] = FakeMachine()
    with pytest.raises(ConfigError, match=r"prices\.toml: not a regular file"):
        damoos.resume(study.name, results=results)


@pytest.mark.parametrize("value", [{}, {"gib_hours": 1, "core_hour": 1}, {"gib_hour": "x", "core_hour": 1}, 7, [1]])
def test_stored_prices_of_another_kind_are_one_line(machines, results: Path, prices: Path, value: Any) -> None:
    study = tune(results, score="cost", prices=str(prices))
    record = Store(results).load(study.name)
    record.set("config", {**record.config, "scorer_options": {"prices": value}})
    with pytest.raises(ConfigError, match="prices") as refused:
        _ = tuning_study(Store(results).load(study.name)).scorer
    assert "\n" not in str(refused.value)
