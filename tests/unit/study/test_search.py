"""The loop on a machine that is not there."""

import json
import os
from pathlib import Path

import optuna
import pytest

from damoos import api
from damoos.damon.damo_json import context_from_json
from damoos.damon.quotas import Quotas
from damoos.errors import (
    ConfigError,
    MachineLost,
    StoreError,
    TooManyFailures,
    WorkloadError,
)
from damoos.model.trial import mean_measurement
from damoos.report.html import write
from damoos.service.specification import specification
from damoos.study.plan import least_runs, plan, validation_round
from damoos.testing.fake import RSS_BYTES, FakeMachine


def tune(results: Path, **words) -> api.TunedStudy:
    return api.tune(command="true", machine="fake", results=results, **{"trials": 10, "seed": 1, **words})


def test_baselines_stand_before_and_between_the_trials() -> None:
    """The one behind them is the first run of the validation."""
    for nr_samples in (2, 3, 5, 10, 11, 24):
        runs = plan(nr_samples)
        search = [run.kind for run in runs]
        assert search[0] == search[1] == "baseline"
        assert search[-1] == "trial"
        assert "baseline" in search[3:-1]
        assert search.count("trial") == nr_samples
        assert len({run.key for run in runs}) == len(runs)
        assert [run.number for run in runs if run.kind == "baseline"] == list(range(search.count("baseline")))
        longest = max(len(part) for part in "".join("b" if k == "baseline" else "t" for k in search).split("b"))
        assert longest <= 5


def test_validation_alternates() -> None:
    """By chance, and in every second round the other way round."""
    names = ["baseline", "manual", "candidate-1"]
    rounds = [[run.arm for run in validation_round(number, names, 10)] for number in range(6)]
    assert [sorted(one) for one in rounds] == [sorted(names)] * 6
    assert [one[::-1] for one in rounds[::2]] == rounds[1::2]
    assert rounds[0][0] == "baseline"
    assert len({tuple(validation_order(seed)) for seed in range(20)}) == 6
    indices = [run.index for number in range(3) for run in validation_round(number, names, 10)]
    assert indices == list(range(10, 19))


def validation_order(seed: int) -> list[str]:
    """The arms of the third round, in their order."""
    return [run.arm for run in validation_round(2, ["baseline", "manual", "candidate-1"], 10, seed=seed)]


@pytest.mark.figures
def test_a_whole_study(fake, tmp_path: Path) -> None:
    machine = fake(FakeMachine(noise=0.0002))
    found = tune(tmp_path)
    result = found.result
    trials = result["trials"]
    assert machine.nr_runs == len(trials) + len(result["baselines"]) + 2 * 3 < least_runs(10)
    assert machine.nr_opened == machine.nr_closed == 1
    assert [t["number"] for t in trials] == list(range(len(trials)))
    assert result["verdict"] in ("tuned", "manual", "indistinguishable")
    assert result["recommended"]["scheme"].startswith("4K max  min min  ")
    assert list(result["validation"]) == ["baseline", "manual", "tuned"]
    assert [arm["repeats"] for arm in result["validation"].values()] == [2, 2, 2]
    for trial in result["trials"]:
        assert trial["feasible"] == (trial["params"]["min_age_us"] >= 3_000_000)
        assert trial["state"] == ("complete" if trial["feasible"] else "censored")
        assert (trial["margins"]["slowdown<=0.1"] > 0) == trial["feasible"]
        assert trial["damos"]["sz_applied_bytes"] == 8 << 20
        if trial["feasible"]:
            low, high = trial["score_ci95"]
            assert low < trial["score"] < high
    tuned = result["validation"]["tuned"]
    assert tuned["params"] == result["recommended"]["params"]
    shrinkage = result["shrinkage"]
    assert shrinkage["validated"] == tuned["score"]
    assert shrinkage["searched"] in [trial["score"] for trial in result["trials"]]
    assert shrinkage["shrinkage"] == pytest.approx(shrinkage["searched"] - shrinkage["validated"])
    folder = tmp_path / found.name
    for name in (
        "result.json",
        "recommended.damos",
        "recommended.json",
        "figure.png",
        "figure.svg",
        "baseline-000.parquet",
    ):
        assert (folder / name).stat().st_size > 0
    assert json.loads((folder / "result.json").read_text()) == result
    assert list(found.trials_df["number"]) == list(range(len(trials)))
    assert list(found.trials_df["margin"]) == [trial["margins"]["slowdown<=0.1"] for trial in result["trials"]]
    stored = optuna.load_study(study_name=found.name, storage=f"sqlite:///{tmp_path / 'damoos.sqlite'}").trials
    assert [max(trial.constraints.values()) <= 0 for trial in stored] == [t["feasible"] for t in result["trials"]]
    assert [set(trial.user_attrs["margins"]) for trial in stored] == len(trials) * [{"slowdown<=0.1"}]
    assert "verdict" in repr(found)
    assert found.damo(7)["kdamonds"][0]["contexts"][0]["targets"][0]["pid"] == 7
    with pytest.raises(ConfigError, match="needs its pid"):
        found.damo()


def test_all_runs_of_a_study_can_be_limited_in_memory(fake, tmp_path: Path) -> None:
    """A share is of the peak that one run without a limit tells, once, whatever is resumed; so are baselines."""
    machine = fake(FakeMachine(noise=0.0))
    free = tune(tmp_path / "free", trials=2, repeats=2).result
    machine.failures, machine.nr_runs = {3: Stop()}, 0  # type: ignore[dict-item]
    words = {"trials": 2, "repeats": 2, "memory": "60%"}
    with pytest.raises(Stop):
        tune(tmp_path, **words)
    machine.failures = {}
    found = tune(tmp_path, **words)
    assert found.result["memory_limits"] == {"memory.max": int(0.6 * RSS_BYTES)}
    slower = found.result["baselines"][0]["metrics"]["runtime_s"] / free["baselines"][0]["metrics"]["runtime_s"] - 1
    assert slower == pytest.approx(0.4, abs=0.01)
    assert machine.nr_runs == len(found.runs_df) + 2  # the one for the peak, and the one that was broken off
    assert (tmp_path / found.name / "peak.parquet").is_file()
    assert "each run was limited: memory.max 60 MiB" in repr(found)
    assert tune(tmp_path, trials=2, repeats=2, memory="high:48M").result["memory_limits"] == {"memory.high": 48 << 20}


def test_optuna_sees_the_same_scores(fake, tmp_path: Path) -> None:
    import optuna

    fake(FakeMachine())
    found = tune(tmp_path)
    theirs = optuna.load_study(study_name=found.name, storage=f"sqlite:///{tmp_path}/damoos.sqlite")
    assert len(theirs.trials) == len(found.result["trials"])
    best = max((t for t in found.result["trials"] if t["feasible"]), key=lambda t: t["score"])
    assert theirs.best_value == pytest.approx(best["score"])


class Stop(BaseException):
    """As abrupt as a kill, but catchable here."""


@pytest.fixture
def unbroken(fake, tmp_path: Path):
    """A whole study by each searcher, made once: how many runs it had, and its result."""

    def of(searcher: str) -> tuple[int, dict]:
        if searcher not in WHOLE:
            machine = fake(FakeMachine(noise=0.02, seed=3))
            WHOLE[searcher] = (tune(tmp_path / "whole", searcher=searcher).result, machine.nr_runs)[::-1]
        return WHOLE[searcher]

    return of


WHOLE: dict[str, tuple[int, dict]] = {}


@pytest.mark.parametrize(
    ("searcher", "at"),
    [
        *(("auto", at) for at in (0, 1, 2, 4, 7, 9, 10, 11, 12, 14, 16, 17)),
        *(("optuna:cmaes", at) for at in (4, 9, 13)),
        ("daos", 9),
    ],
)
@pytest.mark.slow
def test_a_resumed_study_equals_an_unbroken_one(fake, unbroken, tmp_path: Path, at: int, searcher: str) -> None:
    words = {"searcher": searcher}
    nr_runs, whole = unbroken(searcher)
    assert nr_runs > at

    class Breaking(FakeMachine):
        pass

    broken = fake(Breaking(noise=0.02, seed=3, failures={at: Stop()}))  # type: ignore[dict-item]
    with pytest.raises(Stop):
        tune(tmp_path / "broken", **words)
    broken.failures = {}
    broken.nr_runs = at
    resumed = tune(tmp_path / "broken", **words).result
    assert broken.nr_runs == nr_runs
    for part in ("trials", "recommended", "validation", "verdict", "baselines"):
        assert resumed[part] == whole[part]


def test_a_lost_machine_costs_one_run(fake, tmp_path: Path) -> None:
    machine = fake(FakeMachine(failures={5: MachineLost("gone")}))
    result = tune(tmp_path).result
    assert machine.nr_opened == machine.nr_closed == 2
    stored = (
        len(result["trials"]) + len(result["baselines"]) + sum(arm["repeats"] for arm in result["validation"].values())
    )
    assert machine.nr_runs == stored + 1
    assert all(trial["state"] in ("complete", "censored") for trial in result["trials"])


def test_a_machine_that_stays_lost_is_given_up(fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.dispatch.lease.BACKOFF_S", 0)
    fake(FakeMachine(failures={n: MachineLost("gone") for n in range(5, 99)}))
    with pytest.raises(MachineLost):
        tune(tmp_path)


def test_a_failed_trial_is_kept_and_the_search_goes_on(fake, tmp_path: Path) -> None:
    fake(FakeMachine(failures={3: WorkloadError("it crashed")}))
    trial = tune(tmp_path).result["trials"][1]
    assert (trial["state"], trial["feasible"], trial["score"], trial["error"]) == ("fail", False, None, "it crashed")


def test_three_failures_in_a_row_end_the_study(fake, tmp_path: Path) -> None:
    fake(FakeMachine(failures={n: WorkloadError("it crashed") for n in (2, 3, 4)}))
    with pytest.raises(TooManyFailures, match="it crashed"):
        tune(tmp_path)


def test_a_broken_baseline_ends_the_study(fake, tmp_path: Path) -> None:
    fake(FakeMachine(failures={0: WorkloadError("it crashed")}))
    with pytest.raises(WorkloadError, match="without any scheme: it crashed"):
        tune(tmp_path)


@pytest.mark.parametrize("at", [0, 7, 11, 16])
def test_a_broken_baseline_is_tried_again_by_a_resumed_study(fake, tmp_path: Path, at: int) -> None:
    machine = fake(FakeMachine(failures={at: WorkloadError("it crashed")}))
    with pytest.raises(WorkloadError):
        tune(tmp_path)
    machine.failures = {}
    result = tune(tmp_path).result
    stored = (
        len(result["trials"]) + len(result["baselines"]) + sum(arm["repeats"] for arm in result["validation"].values())
    )
    assert machine.nr_runs == stored + 1
    assert len(result["baselines"]) == 3


@pytest.mark.figures
def test_nothing_feasible_is_a_result(fake, tmp_path: Path) -> None:
    fake(FakeMachine(curve=lambda age_s: (0.5, 0.9)))
    found = tune(tmp_path, trials=4)
    assert found.best is None
    assert found.result["validation"] is None
    assert found.result["verdict"] == "baseline"
    assert (tmp_path / found.name / "figure.png").exists()


def test_nothing_feasible_prints_its_result_and_ends_with_4(
    fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from damoos import cli

    fake(FakeMachine(curve=lambda age_s: (0.5, 0.9)))
    words = ["damoos", "tune", "--command", "true", "--trials", "3", "--results", str(tmp_path), "--format", "json"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr()
    assert end.value.code == 4
    assert json.loads(said.out)["recommended"] is None
    assert "kept the limits" in said.err.splitlines()[-1]


def study_names(results: Path) -> list[str]:
    from damoos.store.studies import Store

    return Store(results).names()


def test_a_finished_study_is_followed_by_a_new_one(fake, tmp_path: Path) -> None:
    fake(FakeMachine())
    first, second = tune(tmp_path, trials=3), tune(tmp_path, trials=3)
    assert study_names(tmp_path) == [first.name, second.name]
    assert first.name != second.name


def test_a_study_whose_score_fails_can_still_be_looked_at(fake, tmp_path: Path) -> None:
    fake(FakeMachine())
    file = tmp_path / "mine.py"
    file.write_text("def score(run, baseline):\n    return run['no_such']\n")
    with pytest.raises(TooManyFailures):
        tune(tmp_path, score=f"{file}:score")
    (name,) = study_names(tmp_path)
    assert [trial.state for trial in api.load_study(name, results=tmp_path).study.trials()] == ["fail"] * 3


def test_useless_schemes_lose_to_leaving_it_alone(fake, tmp_path: Path) -> None:
    fake(FakeMachine(curve=lambda age_s: (0.05, 0.0)))
    result = tune(tmp_path, trials=4).result
    assert result["verdict"] == "baseline"
    assert "nothing beats leaving it alone" in result["verdict_text"]


def test_no_winner_inside_the_noise(fake, tmp_path: Path) -> None:
    fake(FakeMachine(curve=lambda age_s: (0.0, 0.0), noise=0.02))
    assert tune(tmp_path, trials=4).result["verdict"] == "indistinguishable"


def test_another_parameter_is_tuned_against_the_same_hand_made_scheme(fake, tmp_path: Path) -> None:
    fake(FakeMachine(curve=lambda age_s: (0.0, 0.2)))
    found = tune(tmp_path, trials=3, tune=["min_size=4K:2M"], scheme="MIN_SIZE max  min min  4s max  pageout")
    assert set(found.result["trials"][0]["params"]) == {"min_size_bytes"}
    assert found.result["manual"]["params"] == {"min_age_us": 5_000_000}
    assert found.result["manual"]["scheme"] == "4K max  min min  5s max  pageout"
    assert found.result["recommended"]["scheme"].endswith("4s max  pageout")


@pytest.mark.figures
@pytest.mark.slow
def test_several_parameters_at_once(fake, tmp_path: Path) -> None:
    fake(FakeMachine(curve=lambda age_s: (0.02, max(0.0, 0.6 - age_s / 100))))
    words = {"tune": ["min_age=0s:60s", "max_freq=0:20", "action=pageout,cold", "quota_sz=1M:1G"], "trials": 8}
    found = tune(tmp_path, scheme="4K max  min MAX_FREQ  MIN_AGE max  ACTION", **words)
    best = found.best
    assert set(best["params"]) == {"min_age_us", "max_freq_percent", "action", "quota_sz_bytes"}
    assert best["params"]["action"] in ("pageout", "cold")
    assert best["scheme"].split()[6] == best["params"]["action"]
    (scheme,) = context_from_json(best["damo"]).schemes
    sz_bytes = best["params"]["quota_sz_bytes"]
    assert scheme.quotas == Quotas(sz_bytes=sz_bytes, reset_interval_ms=1000, weight_age_permil=1000)
    assert set(found.param_names) <= set(found.trials_df)
    assert (tmp_path / found.name / "figure.png").exists()


def test_hopeless_trials_are_stopped(fake, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.0005))
    found = tune(tmp_path, searcher="random", trials=12, seed=3)
    result = found.result
    stopped = [trial for trial in result["trials"] if trial["state"] == "censored"]
    assert stopped
    for trial in stopped:
        assert (trial["feasible"], trial["score"], trial["score_ci95"]) == (False, None, None)
        assert trial["error"].startswith("stopped: runtime >= 11.")
        assert -0.3 < trial["margins"]["slowdown<=0.1"] < 0  # stopped at about 11 s; 15 s would be -4
    # Each would have taken 15 s of the machine's time and was stopped soon after 11.
    abort = result["early_abort"]
    assert abort["runs"] == len(stopped)
    assert abort["ran_s"] == pytest.approx(11 * len(stopped), rel=0.05)
    assert abort["saved_s"] == pytest.approx(4 * len(stopped), rel=0.1)
    assert f"{len(stopped)} trials stopped early" in repr(found)


def test_a_score_to_be_minimised(fake, tmp_path: Path) -> None:
    fake(FakeMachine())
    words = {"score": "sla", "minimize": "rss_avg_bytes", "limits": ["slowdown<=0.1"]}
    found = tune(tmp_path, **words)
    scores = [trial["score"] for trial in found.result["trials"] if trial["feasible"]]
    assert 3_000_000 <= found.best["params"]["min_age_us"] <= 3_500_000
    assert found.result["shrinkage"]["searched"] == min(scores)
    assert found.result["verdict"] == "tuned"
    assert found.result["score"] == {
        "direction": "minimize",
        "unit": "rss_avg_bytes: as the run reports it",
        "options": {"minimize": "rss_avg_bytes", "limits": ["slowdown<=0.1"]},
        "shown_in": "bytes",
        "limits": [],
    }
    import optuna

    theirs = optuna.load_study(study_name=found.name, storage=f"sqlite:///{tmp_path}/damoos.sqlite")
    assert theirs.direction == optuna.study.StudyDirection.MINIMIZE


def test_a_metric_that_nobody_reports_is_found_before_the_first_run(fake, tmp_path: Path) -> None:
    machine = fake(FakeMachine())
    words = {"score": "sla", "limits": ["p99_ms<=1.2x"]}
    with pytest.raises(
        ConfigError, match="needs the metric 'p99_ms', which neither workload 'true' nor machine 'fake'"
    ):
        tune(tmp_path, **words)
    assert machine.nr_runs == 0


def test_a_score_that_fails_is_a_failed_trial(fake, tmp_path: Path) -> None:
    fake(FakeMachine())
    file = tmp_path / "mine.py"
    file.write_text("def score(run, baseline):\n    return run['no_such']\n")
    with pytest.raises(TooManyFailures, match=r"mine\.py:score \(mine\.py:2\) raised KeyError: 'no_such'"):
        tune(tmp_path, score=f"{file}:score")


@pytest.mark.parametrize(
    ("name", "now", "message"),
    [
        ("kernel", "6.13.0-fake", r"began on kernel 6\.12\.0-fake, and machine 'fake' has 6\.13\.0-fake now"),
        ("clock", "emulated CPU of 4,000 MIPS", r'began with clock "none", and machine .* has "emulated CPU of 4,000'),
    ],
)
def test_a_study_stays_on_its_kernel_and_its_clock(fake, tmp_path: Path, name: str, now: str, message: str) -> None:
    fake(FakeMachine(failures={3: Stop()}))  # type: ignore[dict-item]
    with pytest.raises(Stop):
        tune(tmp_path)
    (study,) = study_names(tmp_path)
    updated = FakeMachine()
    setattr(updated, name, now)
    fake(updated)
    with pytest.raises(ConfigError, match=message):
        api.resume(study, results=tmp_path)
    assert updated.nr_runs == 0


def test_two_writers_are_refused(fake, tmp_path: Path) -> None:
    fake(FakeMachine(failures={3: Stop()}))  # type: ignore[dict-item]
    with pytest.raises(Stop):
        tune(tmp_path)
    (name,) = study_names(tmp_path)
    from damoos.store.studies import Store

    with Store(tmp_path).load(name).writing(), pytest.raises(StoreError, match="another damoos process"):
        api.resume(name, results=tmp_path)


def test_a_store_of_another_schema_is_refused(fake, tmp_path: Path) -> None:
    import optuna

    fake(FakeMachine())
    name = tune(tmp_path, trials=3).name
    theirs = optuna.load_study(study_name=name, storage=f"sqlite:///{tmp_path}/damoos.sqlite")
    theirs.set_user_attr("damoos", 99)
    with pytest.raises(StoreError, match="another version of damoos"):
        api.load_study(name, results=tmp_path)
    # It is in nobody's way.
    assert tune(tmp_path, trials=3).name != name


def test_a_store_that_is_no_store_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "damoos.sqlite").write_text("this is not a database, it is a text file\n" * 100)
    with pytest.raises(StoreError, match=r"store sqlite:///.*damoos\.sqlite: file is not a database; "):
        study_names(tmp_path)


def test_a_locked_store_is_one_line(fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    fake(FakeMachine())
    tune(tmp_path, trials=3)
    monkeypatch.setattr("damoos.store.connection.LOCK_WAIT_S", 0.1)
    other = sqlite3.connect(tmp_path / "damoos.sqlite")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="locked"):
        tune(tmp_path, trials=3)
    other.rollback()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    from damoos.store.artifacts import Artifacts

    with pytest.raises(StoreError, match="No space left on device"):
        Artifacts(tmp_path).write_bytes("x", lambda draft: Path("/dev/full").write_text("x" * 100_000) and None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"score": "doas"}, "unknown scorer 'doas'; did you mean 'daos'"),
        ({"searcher": "randon"}, "unknown searcher 'randon'; did you mean 'random'"),
        ({"scheme": "4K max min min MIN_AGE max pagout"}, "did you mean 'pageout'"),
        ({"scheme": "4K max min min 5s max pageout"}, "MIN_AGE is not in the scheme"),
        ({"tune": ["min_ago=0s:5s"]}, "unknown tunable 'min_ago'; did you mean 'min_age'"),
        ({"tune": ["min_age=5s:5s"]}, "range 5s:5s is empty"),
        ({"tune": ["min_age"]}, "name=low:high"),
        ({"trials": 1}, "--trials 1: give 2 or more"),
        ({"repeats": 1}, "--repeats 1: give 2 or more"),
        ({"candidates": 0}, "--candidates 0: give 1 or more"),
        ({"policy": "senpay"}, "unknown policy 'senpay'; did you mean 'senpai'"),
        ({"policy": "senpai", "scheme": "min max min max MIN_AGE max cold"}, "not by 'senpai'; leave one of them out"),
        ({"policy": "senpai", "tune": ["min_age=0s:5s"]}, "unknown tunable 'min_age' of senpai"),
        ({"policy": "senpai", "prior": "record"}, "a recording says nothing of senpai"),
        ({"memory": "much"}, "much"),
        ({"tune": ["min_age=0s:5s", "min_age=0s:9s"]}, "tunable 'min_age' is given twice"),
        ({"tune": ["min_age=0s:5s", "max_freq=0:20"]}, "MAX_FREQ is not in the scheme"),
        (
            {
                "tune": ["min_freq=0:50", "max_freq=20:60"],
                "scheme": "4K max MIN_FREQ MAX_FREQ 5s max pageout",
            },
            "below the lower bound",
        ),
        ({"tune": ["action=pageout,colt,cold"], "scheme": "4K max min min 5s max ACTION"}, "unknown action 'colt'"),
        ({"searcher": "optuna:tpf"}, "unknown sampler 'optuna:tpf'; did you mean 'tpe'"),
        ({"searcher": "optuna:gp"}, "needs a package that is not installed: torch"),
        ({"limits": ["slowdown<=0.1"]}, "score 'daos' has no option 'limits'; it takes none"),
        ({"score": "sla", "score_options": {"limit": []}}, "no option 'limit'; did you mean 'limits'"),
        ({"score": "sla", "limits": ["slowdown=0.1"]}, "write NAME<=NUMBER"),
        ({"score": "cost"}, "needs --prices FILE"),
        ({"score": "./no-such.sh"}, "there is no such file"),
        ({"operations": "padr"}, "did you mean 'paddr'"),
    ],
)
def test_wrong_words_are_found_before_a_machine_starts(fake, tmp_path: Path, words: dict, message: str) -> None:
    machine = fake(FakeMachine())
    with pytest.raises(ConfigError, match=message):
        tune(tmp_path, **words)
    assert machine.nr_opened == 0


def test_scores_come_from_the_baselines_on_both_sides(fake, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.02, seed=5))
    found = tune(tmp_path, trials=4)
    runs = found.study.runs()
    before, after = (run.measurement for run in runs if run.kind == "baseline" and run.number in (1, 2))
    trial = next(run for run in runs if run.kind == "trial")
    between = mean_measurement([before, after])
    expected = found.study.scorer.score(trial.measurement, between, [])
    assert found.result["trials"][0]["score"] == expected.value


@pytest.mark.figures
@pytest.mark.slow
def test_a_rule_in_user_space_is_tuned_against_the_values_of_its_source(fake, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.001))
    found = tune(tmp_path, policy="senpai", trials=8, repeats=3)
    result = found.result
    assert set(result["trials"][0]["params"]) == {"ratio_ppm", "pressure_ppm"}
    assert result["manual"]["params"] == {"ratio_ppm": 500, "pressure_ppm": 1000}
    assert result["manual"]["scheme"] == "senpai"
    assert result["manual"]["damo"] is None
    assert result["verdict"] == "tuned"  # the source's values are for services that run for days
    assert result["validation"]["tuned"]["score"] > result["validation"]["manual"]["score"] > 0
    best = result["recommended"]["scheme"]
    assert best.startswith("senpai:ratio=")
    folder = tmp_path / found.name
    assert (folder / "winner.txt").read_text() == best + "\n"
    assert not (folder / "winner.json").exists()
    assert all(path.is_file() for path in found.plot())
    assert best in repr(found)
    assert best in found._repr_html_()
    assert best in write(found.name, tmp_path)[0].read_text()
    with pytest.raises(ConfigError, match="is no scheme for damo"):
        found.damo()
    assert specification(found.name, tmp_path)["arm"] == "tuned"
