"""Which finished studies a new one learns from, and what it says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from damoos import api
from damoos.errors import ConfigError, WorkloadError
from damoos.store.studies import Store
from damoos.study.config import StudyConfig
from damoos.study.experience import experiences
from damoos.testing.fake import FakeMachine
from tests.unit.study.test_frontier import smooth

Use = Callable[[FakeMachine], FakeMachine]
TWO = {"scheme": "4K max  min MAX_FREQ  MIN_AGE max  pageout", "tune": ["min_age=0s:60s", "max_freq=0:20"]}


def tune(results: Path, **words: Any) -> api.TunedStudy:
    return api.tune(
        **{"command": "true", "machine": "fake", "results": results, "seed": 1, "tune": ["min_age=0s:60s"], **words}
    )


@pytest.fixture
def first(fake: Use, tmp_path: Path) -> api.TunedStudy:
    """A finished study of another machine of the same name."""
    fake(FakeMachine(smooth, noise=0.002))
    return tune(tmp_path)


def test_a_finished_study_of_the_workload_tells_what_to_expect(
    first: api.TunedStudy, fake: Use, tmp_path: Path
) -> None:
    machine = fake(FakeMachine(lambda age_s: (1.5 * smooth(age_s)[0], smooth(age_s)[1]), noise=0.002, seed=4))
    found = tune(tmp_path, trials=4)
    assert found.result["transfer"]["kept"]
    assert [one["study"] for one in found.result["transfer"]["studies"]] == [first.name]
    assert found.result["transfer"]["studies"][0]["where"] == "fake, Linux 6.12.0-fake"
    assert found.result["transfer"]["studies"][0]["believed"] == pytest.approx(1)
    assert f"are believed as follows: {first.name}" in repr(found)
    # The limit lies at 3.5 s here, and at 2 s there.
    assert 3.4 <= found.result["recommended"]["params"]["min_age_us"] / 1e6 <= 5
    assert found.result["verdict"] in ("tuned", "indistinguishable")  # the manual 5 s is not far from it
    assert machine.nr_runs <= 14


def test_none_is_asked_where_that_is_said(first: api.TunedStudy, fake: Use, tmp_path: Path) -> None:
    for words in ({"prior": "none"}, {"searcher": "bayes"}, TWO,
                  {"command": "false"}, {"operations": "paddr"}):  # fmt: skip
        fake(FakeMachine(smooth))
        assert tune(tmp_path, trials=3, **words).result["transfer"] is None


def test_a_workload_that_is_not_like_it_drops_what_was_expected(
    first: api.TunedStudy, fake: Use, tmp_path: Path
) -> None:
    fake(FakeMachine(lambda age_s: (0.01, min(0.6, 0.01 * age_s)), noise=0.002))
    found = tune(tmp_path, command="other", like=[first.name])
    assert found.result["transfer"] == {
        "kept": False, "studies": [{"study": first.name, "where": "fake, Linux 6.12.0-fake"}],
    }  # fmt: skip
    assert f"the trials contradicted what {first.name} let one expect" in repr(found)
    assert found.result["recommended"]["params"]["min_age_us"] > 40_000_000


@pytest.mark.slow
def test_a_study_goes_on_with_what_it_began_with(first: api.TunedStudy, fake: Use, tmp_path: Path) -> None:
    """It keeps what it was told, and asks what an unbroken one would have asked."""
    fake(FakeMachine(smooth, noise=0.002, seed=7))
    whole = tune(tmp_path / "whole", trials=5)
    assert whole.result["transfer"] is None
    again = tune(tmp_path / "whole", trials=5)
    fake(FakeMachine(smooth, noise=0.002, seed=7, failures={4: WorkloadError("gone"), 5: WorkloadError("gone")}))
    with pytest.raises(WorkloadError, match="gone"):
        api.tune(command="true", machine="fake", results=tmp_path, seed=1, tune=["min_age=0s:60s"], trials=3, repeats=2)
    fake(FakeMachine(smooth, noise=0.002))
    resumed = api.resume("true-fake-2", results=tmp_path)
    assert resumed.result["transfer"]["studies"][0]["study"] == first.name
    assert again.result["transfer"]["studies"][0]["study"] == whole.name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"like": ["true-fake-9"]}, r"unknown study 'true-fake-9'; did you mean 'true-fake-1'"),
        ({"like": ["true-fake-1"], "prior": "none"}, "--like needs --searcher auto and --prior auto"),
        ({"like": ["true-fake-1"], "searcher": "daos"}, "--like needs --searcher auto and --prior auto"),
        ({"like": ["true-fake-1"], **TWO}, "searched other parameters"),
        ({"like": ["true-fake-1"], "score": "sla", "maximize": "p99_ms"}, "p99_ms"),
    ],
)
def test_what_cannot_be_learned_from(
    first: api.TunedStudy, tmp_path: Path, words: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        tune(tmp_path, **words)


def test_an_unfinished_study_is_not_learned_from(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(smooth, failures={0: WorkloadError("it crashed")}))
    with pytest.raises(WorkloadError):
        tune(tmp_path)
    fake(FakeMachine(smooth))
    with pytest.raises(ConfigError, match=r"--like true-fake-1: the study is not finished"):
        tune(tmp_path, like=["true-fake-1"])
    assert tune(tmp_path, trials=3).result["transfer"] is None


def _change(results: Path, word: str, by: Callable[[dict[str, Any]], object]) -> None:
    record = Store(results).load("true-fake-2")
    value = record._attrs[word]
    by(value)
    record.set(word, value)


@pytest.mark.parametrize(
    ("word", "by"),
    [
        ("setting", lambda form: form["facts"].pop("kernel")),
        ("run:baseline-000", lambda form: form["measurement"]["metrics"].update(runtime_s=float("nan"))),
        ("run:baseline-000", lambda form: form["measurement"]["metrics"].update(runtime_s=10**400)),
    ],
)
def test_a_study_that_cannot_be_read_is_passed_over(
    first: api.TunedStudy, fake: Use, tmp_path: Path, word: str, by: Callable[[dict[str, Any]], object]
) -> None:
    """The newest study is damaged; the one before it is learned from."""
    fake(FakeMachine(smooth, noise=0.002))
    config = StudyConfig(**Store(tmp_path).load(tune(tmp_path, trials=4).name).config)
    _change(tmp_path, word, by)
    assert [experience.study for experience in experiences(Store(tmp_path), config)] == [first.name]
