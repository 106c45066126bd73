"""The league: every policy with the same trials on every workload, and what each saves at a bounded slowdown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.api import comparisons
from damoos.comparison import league
from damoos.errors import ConfigError, UnsupportedError, WorkloadError
from damoos.machines import catalog
from damoos.report import html
from damoos.report.comparison import league as report
from damoos.sweeps import sweep as sweeps
from damoos.testing.fake import FakeMachine
from damoos.words.studies import LeagueWords

THREE = ["damos", "senpai", "memory-high"]
WORKLOADS = ["synthetic/hot-cold", "synthetic/stairs"]
MODEL = "parsec3/raytrace"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeMachine], FakeMachine]:
    """Every machine is the one that is given."""

    def use(machine: FakeMachine) -> FakeMachine:
        monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine)
        return machine

    return use


def play(results: Path, policies: list[str] = THREE, **words: object) -> comparisons.League:
    return comparisons.league(WORKLOADS, policies, ["fake"], results=results, trials=3, **words)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> comparisons.League:
    """One of two workloads."""
    with pytest.MonkeyPatch.context() as patch:
        machine = FakeMachine(noise=0.0005)
        patch.setattr(catalog, "machine", lambda name, kernel=None: machine)
        return play(tmp_path_factory.mktemp("league"))


def test_a_league_says_who_saves_most(found: comparisons.League) -> None:
    (machine,) = found.result
    assert machine["workloads"] == {"real": 2, "models": 0}
    assert next(iter(machine["policies"])) == "damos"  # the curve of this machine is a scheme's
    damos, senpai = machine["policies"]["damos"], machine["policies"]["senpai"]
    assert damos["wins"] == 2
    assert damos["kept"] == damos["of"] == 2
    assert damos["saved"]["0.05"]["mean"] > senpai["saved"]["0.05"]["mean"]
    assert senpai["tuning"]["of"] == 2
    for row in machine["policies"].values():  # a looser limit never saves less
        means = [row["saved"][f"{slowdown:g}"]["mean"] for slowdown in league.SLOWDOWNS]
        assert means == sorted(means)


def test_each_policy_has_the_same_budget(found: comparisons.League) -> None:
    assert {about["trials"] for one in found.entries for about in one["searched"].values()} == {3}
    assert {row["policy"] for row in league.rows(found.entries)} >= {"damos", "senpai"}


def test_a_limit_that_is_broken_saves_nothing(use: Callable[[FakeMachine], FakeMachine], tmp_path: Path) -> None:
    use(FakeMachine(curve=lambda _: (0.04, 0.5), noise=0.0005))
    one = comparisons.league(WORKLOADS[:1], THREE, ["fake"], results=tmp_path, trials=3).entries[0]
    assert league.saved(one, "damos", 0.02) == {"mean": 0.0, "ci95": [0.0, 0.0], "values": [0.0, 0.0],
                                               "defaults": False}  # fmt: skip
    kept = league.saved(one, "damos", 0.05)
    assert kept is not None
    assert kept["mean"] == pytest.approx(0.5, abs=0.01)
    assert one["limits"]["0.1"]["first"] == ["damos"]


@pytest.mark.slow
def test_ties_are_said(use: Callable[[FakeMachine], FakeMachine], tmp_path: Path) -> None:
    use(FakeMachine(curve=lambda _: (0.0, 0.0), noise=0.03, seed=5))
    tied = play(tmp_path, ["damos", "senpai", "gswap"])
    firsts = [report.first_text(one, 0.05) for one in tied.entries]
    assert any(" = " in first for first in firsts)


def test_what_cannot_run_is_told_with_the_reason(use: Callable[[FakeMachine], FakeMachine], tmp_path: Path) -> None:
    cannot = UnsupportedError("the kernel has no multi-generational LRU")
    runs = {3: cannot, 6: cannot}  # two baselines, then the policies in turns with a baseline in their middle
    machine = use(FakeMachine(failures=runs))
    without = comparisons.league(WORKLOADS[:1], ["damos", "mglru"], ["fake"], results=tmp_path, trials=3)
    assert machine.nr_runs > 7
    error = without.entries[0]["searched"]["mglru"]["error"]
    assert "multi-generational" in error
    assert without.result[0]["policies"]["mglru"]["cannot"] == error
    assert "cannot run" in repr(without)


@pytest.mark.slow
def test_the_reports(use: Callable[[FakeMachine], FakeMachine], tmp_path: Path) -> None:
    use(FakeMachine(noise=0.0005))
    shown = comparisons.league([MODEL], THREE, ["fake"], results=tmp_path, trials=3)
    assert "at ≤ 5%" in repr(shown)
    assert "parsec3/raytrace (model)" in repr(shown)
    assert "| damos |" in report.markdown(shown.entries)
    assert {path.suffix for path in shown.write()} == {".json", ".csv", ".png", ".svg"}
    assert set(shown.table["policy"]) >= {"damos", "senpai"}
    assert "<section" in shown._repr_html_()
    page, *figures = html.write(shown.name, tmp_path, None, None)
    assert "Every validated point" in page.read_text()
    assert figures


def test_a_study_that_failed_is_tried_again(use: Callable[[FakeMachine], FakeMachine], tmp_path: Path) -> None:
    use(FakeMachine(failures={0: WorkloadError("killed")}))
    first = play(tmp_path)
    assert [one["workload"] for one in first.entries] == WORKLOADS[1:]
    machine = use(FakeMachine())
    again = play(tmp_path)
    assert len(sweeps.folders(tmp_path)) == 1
    assert [one["workload"] for one in again.entries] == WORKLOADS
    assert machine.nr_runs == again.entries[0]["runs"] + 1  # and the run that tells the peak


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"policies": ["damos"]}, "a league needs two policies"),
        ({"policies": ["damos", "senpia"]}, "did you mean 'senpai'"),
        ({"trials": 1}, "give 2 or more"),
        ({"limits": ["slowdown=0.05"]}, "write NAME<=NUMBER"),
        ({"workloads": ["redis/idel"]}, "redis/idle"),
    ],
)
def test_wrong_words(words: dict[str, object], line: str, tmp_path: Path) -> None:
    given = {"workloads": WORKLOADS, "policies": THREE, "machines": ["guest"], "limits": ["slowdown<=0.05"],
             "trials": 3} | words  # fmt: skip
    with pytest.raises(ConfigError) as error:
        comparisons.league_config(LeagueWords(**given)).check()  # type: ignore[arg-type]
    assert line in str(error.value)


def test_there_is_no_table_of_nothing() -> None:
    with pytest.raises(ConfigError, match="no study of the league has finished"):
        league.table([])
