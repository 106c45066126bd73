"""Runs that lie far beyond what the others let one expect."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damoos import api
from damoos.errors import WorkloadError
from damoos.model.trial import Measurement, Run
from damoos.study.outliers import OUTLIER, joined, kept, outlier
from damoos.testing.fake import FakeMachine

Use = Callable[[FakeMachine], FakeMachine]
METRICS = ("runtime_s", "rss_avg_bytes")


def runs(*runtimes_s: float, arm: str = "", rss_bytes: float = 100.0) -> list[Run]:
    """Baselines of the search, or runs of an arm of the validation."""
    kind = "validation" if arm else "baseline"
    return [
        Run(10 * n + len(arm), kind, n, arm, measurement=Measurement({"runtime_s": one, "rss_avg_bytes": rss_bytes}))
        for n, one in enumerate(runtimes_s)
    ]


def found(done: list[Run]) -> str | None:
    far = outlier(done, METRICS)
    return None if far is None else far.key


def test_a_run_that_takes_three_times_as_long_is_one() -> None:
    assert found(runs(10, 10.1, 30)) == "baseline-002"
    assert found(runs(30, 10.1, 10)) == "baseline-000"
    assert found(runs(10, 10.1, 9.9)) is None
    assert found([*runs(10, 10.1, 9.9), *runs(12, 12.1, 36, arm="manual")]) == "validation-002-manual"
    assert found([]) is None


def test_of_two_runs_nobody_knows_which_it_is_until_one_is_done_again() -> None:
    first, second = runs(30, 10)
    assert outlier([first, second], METRICS) == second
    again = runs(0, 10.1)[1]
    assert outlier([first, kept(second), again], METRICS) == first
    assert outlier([kept(first), runs(9.9)[0], kept(second), again], METRICS) is None


def test_what_happens_twice_is_no_accident() -> None:
    *others, far = runs(10, 10.1, 30)
    again = runs(0, 0, 29)[2]
    assert outlier([*others, kept(far), again], METRICS) is None
    the_very_same = runs(0, 0, 30)[2]
    assert the_very_same == far
    assert outlier([*others, kept(far), the_very_same], METRICS) is None


def test_one_that_was_found_and_not_done_again_is_due() -> None:
    """Its study was broken off between the two."""
    *others, far = runs(10, 10.1, 30)
    assert outlier([*others, far, kept(far)], METRICS) == far
    read = [replace(run, measurement=deepcopy(run.measurement)) for run in (*others, far, kept(far))]
    assert outlier(joined({run.key: run for run in read}).values(), METRICS) == far


def test_a_machine_that_becomes_slower_and_slower_has_none() -> None:
    assert found(runs(*(10 * 1.05**n for n in range(12)))) is None


def test_what_is_noisy_is_expected_to_be() -> None:
    random = np.random.default_rng(4)
    noisy = runs(*10 * np.exp(random.normal(0, 0.2, 12)), arm="manual")
    assert found([*noisy, *runs(10, 10.01, 9.99, 10)]) is None


def test_other_metrics_are_judged_once_their_noise_is_known() -> None:
    def memory(*bytes_: float) -> list[Run]:
        return [
            Run(n, "baseline", n, measurement=Measurement({"runtime_s": 1.0, "rss_avg_bytes": one}))
            for n, one in enumerate(bytes_)
        ]

    assert found(memory(100, 300, 101)) is None
    assert found(memory(100, 101, 300, 99, 100, 101)) == "baseline-002"
    assert found(memory(0, 0, 300, 0, 0, 0)) is None


class Hiccups(FakeMachine):
    """Some of its runs take three times as long."""

    def __init__(self, at: set[int], **words: Any) -> None:
        super().__init__(noise=0.0002, **words)
        calm = self.curve
        self.curve = lambda age_s: calm(age_s)
        self._at = at

    def dice(self, number: int, document: dict[str, Any] | None) -> Any:
        if number not in self._at:
            return super().dice(number, document)

        class Far:
            """Noise that makes a run three times as long."""

            def standard_normal(self) -> float:
                return 2 / 0.0002

        return Far()


def tune(results: Path) -> api.TunedStudy:
    return api.tune(command="true", machine="fake", results=results, trials=10, seed=1)


@pytest.mark.parametrize(
    "at", ["baseline-001", "validation-000-baseline", "validation-000-manual", "validation-001-baseline"]
)
def test_a_study_runs_it_again_and_says_so(fake: Use, tmp_path: Path, at: str) -> None:
    fake(FakeMachine(noise=0.0002))
    calm = tune(tmp_path / "calm")
    fake(Hiccups({[run.key for run in calm.study.runs()].index(at)}))
    study = tune(tmp_path / "hiccup")
    result = study.result
    expected = calm.result
    assert result["verdict"] == expected["verdict"] == "tuned"
    assert result["validation"]["tuned"]["score"] == pytest.approx(expected["validation"]["tuned"]["score"], abs=0.01)
    slowest = max(one["metrics"]["runtime_s"] for one in result["outliers"])
    assert slowest > 20
    assert expected["outliers"] == []
    kinds = [run.kind for run in study.study.runs()]
    assert kinds.count(OUTLIER) == len(result["outliers"]) <= 2
    assert "lay far beyond the runs beside it" in repr(study)
    for one in result["outliers"]:
        copy = next(run.key for run in study.study.runs() if run.arm == one["run"])
        assert not study.samples(copy).equals(study.samples(one["run"]))


def test_a_study_that_is_broken_off_before_it_runs_again_does_so_later(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.0002))
    last = len(tune(tmp_path / "calm").study.runs()) - 1
    fake(Hiccups({last}, failures={last + 1: WorkloadError("the machine went away")}))
    with pytest.raises(WorkloadError, match="went away"):
        tune(tmp_path)
    fake(FakeMachine(noise=0.0002))
    result = tune(tmp_path).result
    assert [one["run"] for one in result["outliers"]] == ["validation-001-baseline"]
    assert result["verdict"] == "tuned"
