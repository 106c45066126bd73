"""A study that begins with a recording, and what is said from one alone, on a machine that is not there."""

from __future__ import annotations

import itertools
import json
import stat
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from damoos import api
from damoos.bench import recorded
from damoos.bench.simulated import table
from damoos.damon.attrs import Attrs
from damoos.errors import ConfigError, MachineLost, UnsupportedError, WorkloadError
from damoos.policies.base import RecordPolicy
from damoos.prediction.forecast import forecast, rightsize
from damoos.prediction.reclaim import Cost, reclaim
from damoos.recordings import files
from damoos.recordings.recording import Recording
from damoos.report.study.text import summary
from damoos.study.frontier import frontier
from damoos.study.recording import record
from damoos.study.run_config import RunConfig
from damoos.study.steps import Watcher
from damoos.testing.fake import FAULT_US, PAGEOUT_US, RSS_BYTES, RUNTIME_S, FakeMachine, cliff_and_fall
from tests.records import MIB, assert_same, recording, stairs

RECORD = 2  # the number of the run that is recorded: two baselines come first
SEEN_S, PERIOD_S = 100, 4


@cache
def seen() -> Recording:
    """Of 100 MiB 30 are hot, 40 are cold, and 30 are accessed every 4 s."""
    snapshots = []
    for nth in range(2 * SEEN_S):
        since = nth % (2 * PERIOD_S)
        rows = [
            (0, 30 * MIB, 20, 5 * nth),
            (30 * MIB, 60 * MIB, 20 * (since == 0), 5 * max(0, since - 1)),
            (60 * MIB, 100 * MIB, 0, 5 * nth),
        ]
        snapshots.append((nth / 2 if nth else 0.4, (nth + 1) / 2, rows))
    return recording(*snapshots, attrs=Attrs())


AGES_S = np.arange(0, 60.1, 0.1)


@cache
def truth() -> tuple[np.ndarray, np.ndarray]:
    """Slowdown and saving of a machine that does what the recording says."""
    cost = Cost(PAGEOUT_US, FAULT_US)
    found = reclaim(seen(), AGES_S * 1e6, cost)
    return cost.seconds(found) / RUNTIME_S, found.saving


def curve(age_s: float) -> tuple[float, float]:
    slowdown, saving = (float(np.interp(age_s, AGES_S, one)) for one in truth())
    return slowdown, saving


def recording_machine(**words) -> FakeMachine:
    return FakeMachine(**{"curve": curve, "noise": 0.005, "seed": 3, "recording": seen(), **words})


def tune(results: Path, **words) -> api.TunedStudy:
    return api.tune(command="true", machine="fake", results=results, **{"trials": 6, "repeats": 2, "seed": 1, **words})


def kinds(found: api.TunedStudy) -> list[str]:
    return [run.key for run in found.study.runs() if run.kind in ("record", "trial")]


def ages(found: api.TunedStudy) -> list[float]:
    return [one["params"]["min_age_us"] / 1e6 for one in found.result["trials"]]


@pytest.mark.slow
def test_the_first_slot_of_the_search_is_a_recording(fake, tmp_path: Path) -> None:
    machine = fake(recording_machine())
    found = tune(tmp_path)
    result = found.result
    assert kinds(found) == ["record-000", *(f"trial-{n:03d}" for n in range(3))]
    validated = sum(arm["repeats"] for arm in result["validation"].values())
    assert machine.nr_runs == 4 + len(result["baselines"]) + validated
    assert found.study.runs()[RECORD].key == "record-000"
    folder = tmp_path / found.name
    for name in ("record-000.parquet", files.FILE_NAME):
        assert (folder / name).stat().st_size > 0
    assert stat.S_IMODE((folder / files.FILE_NAME).stat().st_mode) == 0o600
    assert_same(files.read(folder / files.FILE_NAME), seen())
    # What is accessed every 4 s is asked for again below; above nothing is, and less is saved.
    assert all(3.5 < age_s < 20 for age_s in ages(found)[:2])
    assert result["verdict"] in ("tuned", "indistinguishable")


def test_what_is_expected_under_other_limits_agrees_with_its_chance(fake, tmp_path: Path) -> None:
    """Where a run was stopped, and what lies above it is known from the recording alone."""
    fake(recording_machine(curve=lambda age_s: (0.5, 0.6) if age_s < 5 else (0.0, 0.4)))
    found = tune(tmp_path, tune=["min_age=0s:60s"], trials=4)
    assert any(trial["state"] == "censored" for trial in found.result["trials"])
    points = [(allowed, known) for allowed, known in frontier(found.study).items() if known]
    assert points
    for allowed, known in points:
        assert known.slowdown.low < known.slowdown.high - 0.001
        assert (known.chance > 0.5) == (known.slowdown.mean < allowed)


def test_a_recording_is_made_under_the_limit_that_all_runs_have(fake, tmp_path: Path) -> None:
    fake(recording_machine())
    found = tune(tmp_path, memory="80%")
    assert kinds(found)[0] == "record-000"
    runs = {run.key: run.measurement for run in found.study.runs()}
    free = tune(tmp_path / "free", prior="none").study.runs()[0].measurement
    assert runs["record-000"].metric("runtime_s") == pytest.approx(1.2 * free.metric("runtime_s"), rel=0.05)


@pytest.mark.slow
def test_what_was_predicted_stands_beside_what_was_measured(fake, tmp_path: Path) -> None:
    fake(recording_machine())
    found = tune(tmp_path)
    prediction = found.result["prediction"]
    assert prediction["kept"] is True
    assert [one["number"] for one in prediction["trials"]] == [0, 1, 2]
    for said, trial in zip(prediction["trials"], found.result["trials"], strict=True):
        predicted, measured = said["predicted"], said["measured"]
        assert set(predicted) == {"slowdown", "memory_saving", "score", "chance"}
        assert measured["score"] == trial["score"]
        assert measured["feasible"] == trial["feasible"]
        if trial["state"] == "complete":
            assert predicted["memory_saving"] == pytest.approx(measured["memory_saving"], abs=0.06)
    assert json.loads(json.dumps(prediction)) == prediction
    text = summary(found.result)
    assert "the recording predicted:\n  trial 0: slowdown " in text
    assert text.count("; measured: ") == 3


def test_a_recording_that_the_trials_contradict_is_dropped(fake, tmp_path: Path) -> None:
    fake(recording_machine(curve=lambda age_s: (0.095, 0.0), noise=0.0001))
    found = tune(tmp_path)
    assert found.result["prediction"]["kept"] is False
    assert found.result["prediction"]["trials"][-1]["predicted"] is None
    assert "the recording predicted, until the trials contradicted it:" in summary(found.result)
    assert len(set(ages(found))) >= 3


class Stop(BaseException):
    """As abrupt as a kill, but catchable here."""


@pytest.mark.slow
def test_a_resumed_study_equals_an_unbroken_one(fake, tmp_path: Path) -> None:
    machine = fake(recording_machine())
    whole = tune(tmp_path / "whole").result
    for at in (RECORD, RECORD + 1, RECORD + 8):
        broken = fake(recording_machine(failures={at: Stop()}))
        with pytest.raises(Stop):
            tune(tmp_path / str(at))
        broken.failures, broken.nr_runs = {}, at
        resumed = tune(tmp_path / str(at))
        assert broken.nr_runs == machine.nr_runs  # nothing was recorded twice
        for part in ("trials", "recommended", "validation", "verdict", "baselines", "prediction"):
            assert resumed.result[part] == whole[part]


def test_a_machine_that_is_lost_while_it_records_records_again(fake, tmp_path: Path) -> None:
    machine = fake(recording_machine(failures={RECORD: MachineLost("gone")}))
    found = tune(tmp_path)
    assert machine.nr_opened == 2
    assert found.result["prediction"]["kept"]
    assert_same(files.read(tmp_path / found.name / files.FILE_NAME), seen())


class Ears(Watcher):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def say(self, text: str) -> None:
        self.heard.append(text)


def test_without_being_asked_for_a_recording_may_fail(fake, tmp_path: Path) -> None:
    fake(recording_machine(failures={RECORD: WorkloadError("it crashed")}))
    ears = Ears()
    found = tune(tmp_path, watcher=ears)
    assert ears.heard[0] == "the recording failed (it crashed); the search continues without one"
    assert found.study.runs()[RECORD].error == "it crashed"
    assert found.result["prediction"] is None
    assert "recording" not in summary(found.result)
    assert len(found.result["trials"]) == len(kinds(found)) - 1 >= 2
    fake(FakeMachine(curve))
    assert ages(found)[:2] == ages(tune(tmp_path, prior="none"))[:2]


def test_one_that_was_asked_for_may_not(fake, tmp_path: Path) -> None:
    machine = fake(recording_machine(failures={RECORD: WorkloadError("it crashed")}))
    with pytest.raises(WorkloadError, match="it crashed"):
        tune(tmp_path, prior="record")
    assert machine.nr_runs == RECORD + 1
    found = tune(tmp_path, prior="record")  # goes on, and tries again
    assert kinds(found)[0] == "record-000"
    assert found.result["prediction"]["kept"]


def test_a_machine_that_cannot_record(fake, tmp_path: Path) -> None:
    machine = fake(FakeMachine())
    with pytest.raises(UnsupportedError, match="--prior record: machine 'fake' cannot record what DAMON sees"):
        tune(tmp_path, prior="record")
    assert machine.nr_runs == 0
    assert kinds(tune(tmp_path, trials=4)) == [f"trial-{n:03d}" for n in range(4)]


def test_a_recording_that_is_not_wanted_is_not_made(fake, tmp_path: Path) -> None:
    fake(recording_machine(curve=cliff_and_fall))
    for words in ({"prior": "none", "trials": 4}, {"trials": 3}):
        found = tune(tmp_path, **words)
        assert kinds(found) == [f"trial-{n:03d}" for n in range(words["trials"])]
        assert found.result["prediction"] is None


def made(tmp_path: Path, say=lambda _: None) -> Recording:
    return record(RunConfig(command="true", machine="fake"), RecordPolicy(), tmp_path, say)


def test_a_recording_of_its_own(fake, tmp_path: Path) -> None:
    machine = fake(recording_machine())
    said: list[str] = []
    found = made(tmp_path, said.append)
    assert found.path is not None
    folder = found.path.parent
    assert (machine.nr_runs, machine.nr_closed, said) == (1, 1, [])
    assert sorted(path.name for path in folder.iterdir()) == [files.FILE_NAME, "run.json", "run.parquet"]
    stored = files.read(files.find(folder.name, tmp_path))
    for one in (found, stored):
        assert_same(one, seen())
        assert one.about["workload"] == "true"
        assert one.about["cost"] == {"pageout_us": PAGEOUT_US, "fault_us": FAULT_US, "shared": 1.0}
        assert one.about["metrics"]["rss_max_bytes"] == pytest.approx(RSS_BYTES, rel=0.05)
    assert forecast(stored) == forecast(found)


def test_a_page_fault_of_a_model_costs_as_many_as_it_stands_for(fake, tmp_path: Path) -> None:
    fake(recording_machine())
    found = record(RunConfig(workload="parsec3/raytrace", machine="fake"), RecordPolicy(), tmp_path, lambda _: None)
    assert found.about["cost"]["fault_us"] == 20 * FAULT_US


def test_searchers_race_on_what_a_recording_lets_one_expect(fake, tmp_path: Path) -> None:
    fake(recording_machine())
    found = made(tmp_path)
    assert found.path is not None
    surface = recorded.surface(found.path.parent.name, tmp_path)
    point = {"min_age_us": 5_000_000}
    base, under = surface.mean(None), surface.mean(point)
    slowdown, saving = curve(5.0)
    monitored_s = found.about["metrics"]["runtime_s"]
    assert under.metric("runtime_s") == pytest.approx(monitored_s + slowdown * RUNTIME_S, rel=0.01)
    assert 1 - under.metric("rss_avg_bytes") / base.metric("rss_avg_bytes") == pytest.approx(saving, abs=0.02)
    runs = [surface.run(point, np.random.default_rng(seed)).metric("runtime_s") for seed in range(200)]
    assert np.mean(runs) == pytest.approx(under.metric("runtime_s"), rel=0.005)
    (row,) = table([surface] * 2, ["auto"], [6])
    assert row["lost"] < 0.1
    # A quota that pages out little saves less; without a bound the other parameters change nothing.
    surface = recorded.surface(found.path.parent.name, tmp_path, 4)
    free = {**point, "max_freq_percent": 0, "quota_sz_bytes": 1 << 30, "min_size_bytes": 4096}
    assert surface.mean(free).metrics == pytest.approx(under.metrics, rel=0.01)
    scarce = surface.mean({**free, "quota_sz_bytes": 1 << 20}).metric("rss_avg_bytes")
    assert under.metric("rss_avg_bytes") < scarce < base.metric("rss_avg_bytes")
    with pytest.raises(ConfigError, match="--params 5: a recording tells of 1 to 4 parameters"):
        recorded.surface(found.path.parent.name, tmp_path, 5)
    with pytest.raises(ConfigError, match="no recording of this name"):
        recorded.surface("none", tmp_path)


def test_an_unfit_machine_is_not_recorded(fake, tmp_path: Path) -> None:
    machine = fake(FakeMachine(curve=curve, recording=seen(), damon_in_use="kdamond 77 is not ours"))
    machine.doctor_first = True
    with pytest.raises(UnsupportedError, match=r"is unfit: .*kdamond 77 is not ours"):
        made(tmp_path)
    assert machine.nr_runs == 0
    assert list(tmp_path.iterdir()) == []


def test_of_a_recording_that_was_killed_the_journal_is_left(fake, tmp_path: Path) -> None:
    fake(recording_machine(failures={0: Stop()}))
    with pytest.raises(Stop):
        made(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert [path.name for path in folder.iterdir()] == [files.JOURNAL]
    found = files.read(files.find(folder.name, tmp_path))
    assert_same(found, seen())
    with pytest.raises(ConfigError, match="lacks the measurement of its run"):
        forecast(found)


def test_a_machine_that_cannot_record_is_told_apart(fake, tmp_path: Path) -> None:
    machine = fake(FakeMachine())
    with pytest.raises(UnsupportedError, match="no DAMON that can record"):
        made(tmp_path)
    assert machine.nr_runs == 0
    assert list(tmp_path.iterdir()) == []


def test_the_forecast_of_a_studys_recording(fake, tmp_path: Path) -> None:
    fake(recording_machine(noise=0.0))
    found = tune(tmp_path, trials=4)
    rows = forecast(files.read(files.find(found.name, tmp_path)))
    assert len(rows) == 12
    assert all(a.min_age_s < b.min_age_s for a, b in itertools.pairwise(rows))
    assert all(a.memory_saving >= b.memory_saving for a, b in itertools.pairwise(rows))
    for row in rows:
        slowdown, saving = curve(row.min_age_s)
        assert row.slowdown_low <= row.slowdown <= row.slowdown_high
        assert row.memory_saving_low < row.memory_saving < row.memory_saving_high
        assert row.slowdown_low - 0.01 <= slowdown <= row.slowdown_high + 0.01
        assert row.memory_saving == pytest.approx(saving, abs=0.06)
        assert (row.score is None) == (row.chance < 0.5)
    assert rows[0].score is None  # it thrashes
    assert rows[-1].score is not None


def test_the_memory_that_is_needed(fake, tmp_path: Path) -> None:
    fake(recording_machine(noise=0.0))
    found = made(tmp_path)
    allowed = [rightsize(found, slowdown) for slowdown in (0.05, 0.2, 5.0)]
    assert all(one.slowdown <= one.slowdown_high for one in allowed)
    assert all(one.now_bytes == RSS_BYTES for one in allowed)
    assert [one.memory_bytes for one in allowed] == sorted((one.memory_bytes for one in allowed), reverse=True)
    assert allowed[0].slowdown_high <= 0.05
    # 60 MiB are accessed every 4 s and more often; what is cold at the end was resident for less than 5 % before.
    assert allowed[0].min_age_s > 3
    assert 59 * MIB <= allowed[0].memory_bytes < RSS_BYTES
    none = rightsize(found, -0.5)
    assert (none.memory_bytes, none.min_age_s) == (RSS_BYTES, float("inf"))


def test_what_cannot_be_forecast_is_one_line(fake, tmp_path: Path) -> None:
    fake(recording_machine())
    found = made(tmp_path)
    with pytest.raises(ConfigError, match="make one with 'damoos record'") as refusal:
        forecast(stairs())
    assert "\n" not in str(refusal.value)
    with pytest.raises(ConfigError, match="make one with 'damoos record'"):
        rightsize(stairs(), 0.05)
    with pytest.raises(ConfigError, match=r"score 'psi' reads '.*', which a recording does not predict"):
        forecast(found, "psi")
