"""What a finished study knows of other limits, and how that is proven on fresh runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from damoos import api
from damoos.errors import ConfigError, WorkloadError
from damoos.report.html import write
from damoos.report.study import frontier as shown
from damoos.study.frontier import frontier, prospect
from damoos.testing.fake import FakeMachine

Use = Callable[[FakeMachine], FakeMachine]


def smooth(min_age_s: float) -> tuple[float, float]:
    """A slowdown and a saving that both shrink with the age: 10 % at 2 s, 5 % at 5 s, 2 % at 14 s, 1 % at 29 s."""
    return 0.3 / (1 + min_age_s), 0.6 / (1 + min_age_s / 20)


def slowdown_of(found: api.TunedStudy, limit: float) -> tuple[float, float]:
    """What is truly lost and saved where a study expects the best point under a limit on the slowdown."""
    known = prospect(found.study, [f"slowdown<={limit}"])
    assert known
    return smooth(known.params["min_age_us"] / 1e6)


@pytest.fixture
def study(fake: Use, tmp_path: Path) -> api.TunedStudy:
    """Finished, at the score's own limit of 10 %."""
    fake(FakeMachine(smooth, noise=0.002))
    return api.tune(command="true", machine="fake", results=tmp_path, trials=10, seed=1, tune=["min_age=0s:60s"])


def test_each_limit_has_its_own_best_point(study: api.TunedStudy) -> None:
    found = frontier(study.study)
    assert list(found) == [0.01, 0.02, 0.05, 0.1]
    ages_s = [known.params["min_age_us"] / 1e6 for known in found.values() if known]
    assert len(ages_s) >= 3
    assert ages_s == sorted(ages_s, reverse=True)
    for allowed, known in found.items():
        if known is None:
            continue
        slowdown, saving = smooth(known.params["min_age_us"] / 1e6)
        assert slowdown <= 1.2 * allowed
        for expected, true in ((known.slowdown, slowdown), (known.memory_saving, saving)):
            assert expected.low - 0.005 <= true <= expected.high + 0.005
            assert expected.low <= expected.mean <= expected.high
        assert known.score.mean == pytest.approx(0.5 * (saving - slowdown), abs=0.01)
        assert 0.4 <= known.chance <= 1
    # A tighter limit costs saving.
    assert slowdown_of(study, 0.05)[1] < slowdown_of(study, 0.1)[1]


def test_a_point_that_was_never_tried_can_be_the_best(study: api.TunedStudy) -> None:
    tried = [trial.params["min_age_us"] for trial in study.trials]
    known = [prospect(study.study, [f"slowdown<={limit}"]) for limit in (0.015, 0.03, 0.04, 0.06, 0.07)]
    fresh = [point for point in known if point and point.params["min_age_us"] not in tried]
    assert fresh
    assert all(point.runs == 0 for point in fresh)


def test_a_limit_that_nothing_is_known_to_keep(study: api.TunedStudy) -> None:
    assert prospect(study.study, ["slowdown<=0.0001"]) is None
    assert prospect(study.study, ["memory_saving>=0.9"]) is None
    assert "no point is known" in shown.single(study.study, ["slowdown<=0.0001"], None)
    with pytest.raises(ConfigError, match=r"have no metric 'p99_ms'"):
        prospect(study.study, ["p99_ms<=1.2x"])
    with pytest.raises(ConfigError, match=r"write NAME<=NUMBER"):
        prospect(study.study, ["fast"])


def test_limits_on_other_terms_stay(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(smooth, noise=0.002))
    words = {"score": "sla", "limits": ["slowdown<=0.1", "memory_saving<=0.4"]}
    found = api.tune(command="true", machine="fake", results=tmp_path, seed=1, tune=["min_age=0s:60s"], **words)
    known = prospect(found.study, ["slowdown<=0.09"])
    assert known
    assert smooth(known.params["min_age_us"] / 1e6)[1] <= 0.42


@pytest.mark.slow
def test_it_is_shown(study: api.TunedStudy) -> None:
    text = repr(study)
    assert "careful" in text
    assert "thrifty" in text
    page = study.study.record.artifacts.path / "report.html"
    write(study.name, page.parent.parent)
    html = page.read_text()
    assert 'id="frontier-table"' in html
    assert (page.parent / "report-figures" / "frontier.csv").read_text().count("\n") >= 3


@pytest.mark.slow
def test_one_is_validated_on_fresh_runs(study: api.TunedStudy, tmp_path: Path, fake: Use) -> None:
    machine = fake(FakeMachine(smooth, noise=0.0005, seed=5))
    proven = api.validate(study.name, ["slowdown<=0.04"], results=tmp_path)
    assert proven.name == f"{study.name}-validate-1"
    assert (proven.result["of"], proven.result["score"]["limits"]) == (study.name, ["slowdown<=0.04"])
    tuned = proven.result["validation"]["tuned"]
    expected = prospect(study.study, ["slowdown<=0.04"])
    assert expected
    assert tuned["feasible"]
    assert tuned["params"]["min_age_us"] == pytest.approx(expected.params["min_age_us"], rel=0.05)
    assert proven.result["verdict"] == "tuned"
    # Only the validation ran; the search is that of the other study, with its raw data.
    fresh = [run for run in proven.study.runs() if run.kind == "validation"]
    assert machine.nr_runs == len(fresh)
    assert len(proven.study.runs()) - len(fresh) >= len(study.trials) + 2
    assert proven.samples("trial-000").equals(study.samples("trial-000"))
    assert f"those of {study.name}, now under slowdown<=0.04" in repr(proven)
    # The other one is as it was, and a proof can be asked again, too.
    assert api.load_study(study.name, results=tmp_path).result == study.result
    again = api.validate(proven.name, ["slowdown<=0.06"], results=tmp_path)
    assert again.result["score"]["limits"] == ["slowdown<=0.06"]


def test_a_validation_that_was_broken_off_goes_on(study: api.TunedStudy, tmp_path: Path, fake: Use) -> None:
    fake(FakeMachine(smooth, noise=0.002, failures={5: WorkloadError("the machine went away")}))
    with pytest.raises(WorkloadError, match="the machine went away"):
        api.validate(study.name, ["slowdown<=0.05"], results=tmp_path, repeats=3)
    machine = fake(FakeMachine(smooth, noise=0.002))
    proven = api.resume(f"{study.name}-validate-1", results=tmp_path)
    assert isinstance(proven, api.TunedStudy)
    fresh = [run for run in proven.study.runs() if run.kind == "validation"]
    assert 0 < machine.nr_runs < len(fresh)


def test_an_unfinished_study_has_nothing_to_prove(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(smooth, failures={0: WorkloadError("it crashed")}))
    with pytest.raises(WorkloadError):
        api.tune(command="true", machine="fake", results=tmp_path)
    with pytest.raises(ConfigError, match=r"is not finished; continue it with damoos resume"):
        api.validate("true-fake-1", ["slowdown<=0.05"], results=tmp_path)
