"""What a study would be: the same numbers that the study then has, and nothing is made to find out."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos import api
from damoos.errors import ConfigError
from damoos.model.trial import Measurement, Run
from damoos.report.study.outline import text
from damoos.store.studies import Store
from damoos.study.config import StudyConfig
from damoos.study.outline import outline
from damoos.study.run_config import plain
from damoos.testing.fake import FakeMachine
from damoos.units import parse_time


def test_a_workload_of_the_catalogue() -> None:
    found = outline(StudyConfig(workload="parsec3/raytrace", machine="guest", nr_samples=10), None)
    assert [(param.name, param.high) for param in found.params] == [("min_age", parse_time("60s"))]
    assert [known.seconds for known in found.run_times] == [120.0]
    assert (found.baselines, found.trials, found.least_runs, found.goes_on) == (3, 10, 19, None)
    lines = text(found).splitlines()
    assert lines[0].startswith("workload  parsec3/raytrace: ")
    assert "space     min_age 0s to 1m (601 values)" in lines
    assert lines[-1] == "study     a new one"


def test_several_policies_name_all_of_their_parameters() -> None:
    said = text(outline(StudyConfig(workload="redis/idle", machine="guest", nr_samples=8, policy="damos,thp"), None))
    assert "policy    damos, thp" in said
    assert "thp.mode always, " in said
    assert "policy damos" not in said


def test_an_unfinished_study_goes_on(fake, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    class Stop(BaseException):
        pass

    fake(FakeMachine(failures={4: Stop()}))  # type: ignore[dict-item]
    with pytest.raises(Stop):
        api.tune(command="true", trials=6, results=tmp_path)
    store = Store(tmp_path)
    config = StudyConfig(**store.load(store.names()[0]).config)
    found = outline(config, store)
    assert (found.goes_on, found.done) == (store.names()[0], 4)
    assert [known.source for known in found.run_times] == store.names()
    assert f"{found.goes_on} continues, 4 runs of it done" in text(found)
    assert outline(config, store, new=True).goes_on is None


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(ConfigError, match="unknown machine 'gest'; did you mean 'guest'"):
        outline(StudyConfig(workload="redis/idle", machine="gest", nr_samples=8), None)


@pytest.mark.slow
@pytest.mark.parametrize("metrics", [{"runtime_s": float("nan")}, {"runtime_s": 10**400}, {"x": 1.0}])
def test_studies_without_a_usable_baseline_are_passed_over(tmp_path: Path, metrics: dict[str, float]) -> None:
    """In a store that a team shares, one of a colleague's stops nobody."""
    config, store = StudyConfig(workload="redis/idle", machine="guest", nr_samples=4), Store(tmp_path)
    for nth, values in enumerate(({"runtime_s": 7.0}, metrics)):
        study = store.create(f"some{nth}", {**plain(config), "seed": 1}, "maximize", f"2026-11-27T0{nth}:00:00+00:00")
        run = Run(0, "baseline", 0, measurement=Measurement(values))
        study.set(f"run:{run.key}", run.to_json())  # as another program than this damoos writes it
        study.add(Run(2, "trial", 0, error="it crashed"))
    (known,) = outline(config, store).run_times
    assert (known.source, known.seconds) == ("some0-1", 7.0)
