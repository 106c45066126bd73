"""Studies of several policies: who has the trials, what is validated, what a machine cannot do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from damoos import api
from damoos.common import plugins
from damoos.errors import ConfigError, UnsupportedError
from damoos.model.conditional import ConditionalSpace, split
from damoos.policies import catalog
from damoos.policies.senpai import SenpaiPolicy
from damoos.report import html
from damoos.report.study import tuning
from damoos.study.config import DAMOS, StudyConfig
from damoos.testing.fake import FakeMachine

Use = Callable[[FakeMachine], FakeMachine]
THREE = "damos,senpai,gswap"


def tune(results: Path, policy: str = THREE, trials: int = 12, league: bool = False, **words: Any) -> api.TunedStudy:
    config = api.study_config(command="true", machine="fake", policy=policy, trials=trials, **words)
    return api.studies.tuned(replace(config, league=league), results)


def policies(found: api.TunedStudy) -> list[str]:
    """The policy of each trial, in order."""
    return [str(found.study.space.readable(trial.params)["policy"]) for trial in found.trials]


def test_each_policy_begins_with_its_defaults_and_the_better_half_goes_on(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine())
    found = tune(tmp_path)
    asked = policies(found)
    assert asked[:3] == ["damos", "senpai", "gswap"]
    assert found.trials[0].params == {"policy": 0, "damos.min_age_us": 5_000_000}
    default = catalog.rule("senpai").default_point(catalog.rule("senpai").space())
    assert found.trials[1].params == {"policy": 1, **{f"senpai.{key}": value for key, value in default.items()}}
    assert asked[-1] == "damos"  # on this machine nothing saves as much
    assert Counter(asked)["damos"] > Counter(asked)["senpai"] >= 1


def test_the_validation_compares_the_best_of_each(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.0005))
    found = tune(tmp_path)
    table = found.result["validation"]
    assert {arm["policy"] for arm in table.values()} == {None, "damos", "senpai", "gswap"}
    assert table["tuned"]["policy"] == "damos"
    assert {"baseline", "manual", "tuned", "senpai", "gswap"} == set(table)
    assert found.result["verdict"] == "tuned"
    assert "tuned (damos) is best" in found.result["verdict_text"]
    assert found.best is not None
    assert found.best["params"]["policy"] == "damos"
    assert "pageout" in found.best["scheme"]
    assert {arm["repeats"] for name, arm in table.items() if name in ("senpai", "gswap")} == {2}


def test_another_policy_can_win(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(curve=lambda _: (0.5, 0.0)))  # every scheme thrashes
    found = tune(tmp_path)
    assert found.best is not None
    assert found.best["params"]["policy"] in ("senpai", "gswap")
    assert found.best["damo"] is None
    assert "damos" not in {arm["policy"] for name, arm in found.result["validation"].items() if name != "manual"}


def test_in_a_league_all_have_the_same_trials_and_their_defaults_are_validated(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.0005))
    found = tune(tmp_path, league=True)
    assert policies(found) == ["damos", "senpai", "gswap"] * 4
    table = found.result["validation"]
    arms = {(arm["policy"], arm["defaults"]) for arm in table.values() if arm["policy"]}
    assert arms == {(name, defaults) for name in ("damos", "senpai", "gswap") for defaults in (False, True)}
    assert table["senpai-defaults"]["scheme"] == "senpai"
    runs = found.study.runs()
    assert len({run.index for run in runs}) == len(runs)


def test_what_the_machine_cannot_do_is_left_out(fake: Use, tmp_path: Path) -> None:
    cannot = UnsupportedError("the kernel has no multi-generational LRU")
    machine = FakeMachine(failures={3: cannot, 6: cannot})  # two baselines, then every third run
    fake(machine)
    found = tune(tmp_path, policy="damos,mglru,senpai", league=True)
    failed = [trial for trial in found.trials if trial.state == "fail"]
    assert len(failed) == 2
    assert all("multi-generational" in trial.error for trial in failed)
    assert Counter(policies(found)) == {"damos": 4, "senpai": 4, "mglru": 2}
    assert "mglru" not in {arm["policy"] for arm in found.result["validation"].values()}


def test_it_goes_on_where_it_was_cut(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine())
    whole = tune(tmp_path / "whole", league=True)
    fake(FakeMachine(failures={9: KeyboardInterrupt()}))  # type: ignore[dict-item]
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path / "cut", league=True)
    fake(FakeMachine())
    again = tune(tmp_path / "cut", league=True)
    assert [trial.params for trial in again.trials] == [trial.params for trial in whole.trials]
    assert again.result["verdict"] == whole.result["verdict"]


def test_other_limits_are_proven_on_fresh_runs(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.0005))
    found = tune(tmp_path)
    with pytest.raises(ConfigError, match=r"damoos validate .*slowdown<=0.01"):
        found.prospect("slowdown<=0.01")
    proven = api.validate(found.name, ["slowdown<=0.01"], results=tmp_path)
    assert proven.result["verdict"] != "tuned" or proven.best is not None
    assert "damos" not in {arm["policy"] for arm in proven.result["validation"].values() if not arm.get("defaults")}


@pytest.mark.slow
def test_reports_of_several_policies(fake: Use, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.0005))
    found = tune(tmp_path)
    page, *_ = html.write(found.name, tmp_path, None, None)
    text = page.read_text()
    assert "senpai:" in text
    assert [panel.x.column for panel in tuning.chart(found.study).panels] == ["policy", "damos.min_age_s"]
    assert "tuned (damos)" in repr(found)
    assert "policy" in found.trials_df
    assert "<section" in found._repr_html_()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"policy": "damos,senpia"}, "unknown policy 'senpia'; did you mean 'senpai'"),
        ({"policy": "damos,damos"}, "given twice"),
        ({"policy": "any", "nr_samples": 5}, "--trials 5: too few"),
        ({"policy": THREE, "tune": ["min_age=0s:5s"]}, "--tune is for one policy"),
        ({"policy": "senpai", "league": True}, "a league needs two policies"),
        ({"policy": THREE, "runs": 12}, "--trials 2: too few for 3 policies"),
        ({"policy": THREE, "like": ["other-1"]}, "--like is for one policy"),
        ({"policy": THREE, "memory": "60%", "write_limit": "1M"}, "use --memory high:"),
        ({"policy": THREE, "write_limit": "0"}, "is not above 0"),
        ({"policy": THREE, "prior": "record"}, "a recording says nothing"),
        ({"policy": "ani"}, "did you mean 'any'"),
    ],
)
def test_what_makes_no_sense_is_refused(words: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as error:
        StudyConfig(command="true", machine="guest", **{"nr_samples": 12, **words}).check()
    assert line in str(error.value)


def test_any_is_every_policy_that_needs_no_tiers() -> None:
    config = StudyConfig(command="true", machine="guest", nr_samples=40, policy="any")
    assert config.policies == (DAMOS, *catalog.general())
    assert {"senpai", "thp"} < set(config.policies)
    assert {name for name in catalog.RULES if catalog.RULES[name].of_tiers}.isdisjoint(config.policies)
    config.check()


def test_the_space_comes_back_from_its_parameters() -> None:
    from damoos.study.config import space_of
    from damoos.workloads.base import Tuning

    space = space_of(StudyConfig(command="true", machine="guest", nr_samples=12, policy=THREE), Tuning())
    assert isinstance(space, ConditionalSpace)
    templates = {name: own.template for name, own in space.branches.items()}
    assert split(space.params, templates) == space
    for corner in space.corners:
        assert space.lifted(space.name(corner), space.own(corner)) == corner
        assert {param.key for param in space.params_of(corner)} == set(corner)


def test_a_plugins_policy_for_tiers_is_no_part_of_any(monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs(SenpaiPolicy):
        name = "theirs"

    class TheirsForTiers(Theirs):
        name = "theirs-for-tiers"
        of_tiers = True

    theirs = {policy.name: policy for policy in (Theirs, TheirsForTiers)}
    ours = catalog.names()
    monkeypatch.setattr(catalog, "names", lambda: [*ours, *theirs])
    monkeypatch.setattr(plugins, "find", lambda room, name, known: {**known, **theirs}[name])
    assert "theirs" in catalog.general()
    assert "theirs-for-tiers" not in catalog.general()
    assert "tpp" not in catalog.general()
