"""The manual and the tuned schemes side by side, from sweeps on machines that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from damoos import api
from damoos.api import comparisons
from damoos.cli import app
from damoos.comparison import manual_tuned
from damoos.dispatch.local import LocalDispatcher
from damoos.errors import ConfigError, DamoosError
from damoos.machines import catalog
from damoos.statistics.arms import BASELINE, TUNED, rounds_of
from damoos.store.studies import Store
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.driver import drive
from damoos.sweeps.sweep import Sweep
from damoos.testing.fake import FakeMachine

WORKLOADS = ("synthetic/hot-cold", "synthetic/idle")
SHORT = {"repeats": 2, "candidates": 1, "seed": 3}


def curve(age_s: float) -> tuple[float, float]:
    """The manual 5 s cost 8 % of the time and save half of the memory; at 8 s and more it is 1 % and 40 %."""
    return (0.08, 0.5) if age_s < 8 else (0.01, 0.4)


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMachine]:
    machines: dict[str, FakeMachine] = {}

    def machine(name: str, kernel: str | None = None) -> FakeMachine:
        return machines.setdefault(name, FakeMachine(curve, noise=0.001, seed=len(machines)))

    monkeypatch.setattr(catalog, "machine", machine)
    monkeypatch.setattr("damoos.dispatch.retries.BACKOFF_S", 0.0)
    return machines


def swept(results: Path, workloads=WORKLOADS, machines=("a", "b"), **words) -> Sweep:
    one = Sweep.create(results, SweepConfig(workloads, machines, {"nr_samples": 4, **SHORT, **words}))
    dispatcher = LocalDispatcher()
    try:
        drive(one, dispatcher, steady_s=0)
    finally:
        dispatcher.close()
    return one


def test_rounds_without_a_baseline_are_compared_with_those_beside_them(fake, tmp_path: Path) -> None:
    fake(FakeMachine(noise=0.03, seed=5))
    api.tune(command="true", machine="a", trials=6, seed=1, repeats=8, results=tmp_path)
    study = manual_tuned.load(Store(tmp_path), "true-a-1")
    rounds = rounds_of(study.runs())
    assert any(BASELINE not in one and TUNED in study.arms()[0] for one in rounds), "more rounds are needed"
    (found,) = comparisons.compare([study.name], results=tmp_path).result
    (pair,) = found["studies"]
    assert len(pair["manual"]["slowdown"]["values"]) == sum("manual" in one for one in rounds)


def test_studies_of_different_scores_are_compared_apart(fake, tmp_path: Path) -> None:
    fake(FakeMachine(curve, noise=0.001))
    words = {"command": "true", "machine": "a", "trials": 4, "seed": 1, "results": tmp_path, "tune": ["min_age=8s:10s"]}
    api.tune(**words)
    api.tune(**words, score="sla", maximize="net_saving", limits=["slowdown<=0.05"])
    found = comparisons.compare(["true-a-1", "true-a-2"], results=tmp_path)
    assert [one["machine"] for one in found.result] == [
        "a, score daos",
        "a, score sla (maximize net_saving, limits slowdown<=0.05)",
    ]
    assert all(one["average"]["workloads"] == 1 for one in found.result)


@pytest.mark.parametrize("changed", [{"scorer_options": {"maximize": True}}, {"workload": "\ud800x"}], ids=str)
def test_a_study_of_another_person_ends_in_one_line(fake, tmp_path: Path, changed: dict) -> None:
    """An option of another type; half a surrogate, which JSON can have and no file."""
    fake(FakeMachine(curve, noise=0.001))
    words = {"maximize": "net_saving", "limits": ["slowdown<=0.05"], "results": tmp_path}
    api.tune(workload="synthetic/hot-cold", machine="a", trials=4, seed=1, score="sla", **words)
    record = Store(tmp_path).load("synthetic-hot-cold-a-1")
    record.set("config", {**record.config, **changed})
    with pytest.raises(DamoosError):
        comparisons.compare([record.name], results=tmp_path)


@pytest.mark.slow
def test_two_machines_side_by_side(fleet, tmp_path: Path) -> None:
    one = swept(tmp_path, machines=("i3", "b"), tune=["min_age=8s:10s"])
    found = comparisons.compare([one.name], results=tmp_path)
    i3, b = found.result
    assert (i3["machine"], b["machine"]) == ("i3", "b")
    average = i3["average"]
    assert average["workloads"] == average["scored"] == 2
    assert average["manual"]["slowdown"]["mean"] == pytest.approx(0.08, abs=0.005)
    assert average["tuned"]["saving"]["mean"] == pytest.approx(0.4, abs=0.005)
    assert average["slowdown_removed"] == pytest.approx(0.875, abs=0.05)
    assert average["saving_kept"] == pytest.approx(0.8, abs=0.01)
    assert average["score_gain"] == pytest.approx(0.195 / 0.21 - 1, abs=0.03)
    assert average["manual"]["broken"] == average["tuned"]["broken"] == []
    low, high = average["manual"]["slowdown"]["ci95"]
    assert low < average["manual"]["slowdown"]["mean"] < high
    said = repr(found)
    assert "the paper's:  slowdown removed 93.3%, saving kept 67.3%, score gain +20.0%" in said
    assert said.count("the paper's:") == 1  # the paper has no machine b
    assert len(found.table) == 2 * (2 + 1) * 2
    written = found.write(tmp_path / "here")
    assert sorted(path.name for path in written) == sorted(
        ["compare.json", "compare.csv"] + [f"compare-{m}.{e}" for m in ("i3", "b") for e in ("png", "svg")]
    )
    assert json.loads((tmp_path / "here/compare.json").read_text()) == found.result


def test_a_manual_scheme_that_breaks_the_limit_is_said_to(fleet, tmp_path: Path) -> None:
    fleet["a"] = FakeMachine(lambda age: (0.5, 0.5) if age < 8 else (0.01, 0.4), noise=0.001)
    one = swept(tmp_path, WORKLOADS[:1], ("a",), tune=["min_age=8s:10s"])
    found = comparisons.compare([one.name], results=tmp_path)
    (machine,) = found.result
    assert machine["average"]["manual"]["broken"] == [machine["studies"][0]["study"]]
    assert machine["average"]["tuned"]["broken"] == []
    assert machine["average"]["slowdown_removed"] == pytest.approx(0.98, abs=0.01)
    assert repr(found).count("breaks the limit") == 1  # of one study there is no average


def test_a_study_without_a_tuned_scheme_is_left_out_and_named(fleet, tmp_path: Path) -> None:
    one = swept(tmp_path, machines=("a",))
    fleet["b"] = FakeMachine(lambda age: (0.5, 0.5), noise=0.001)
    other = swept(tmp_path, WORKLOADS[:1], ("b",))
    a, b = comparisons.compare([one.name, other.name], results=tmp_path).result
    assert a["average"]["workloads"] == 2
    assert b["average"] is None
    assert b["studies"][0]["error"] == "no trial kept the limits of its score"
    found = comparisons.compare([other.name], results=tmp_path)
    assert "0 of 1 study with both schemes validated" in repr(found)
    assert len(found.write(tmp_path / "here")) == 2  # no figure of nothing


def test_shares_are_not_taken_of_nothing(fleet, tmp_path: Path) -> None:
    fleet["a"] = FakeMachine(lambda age: (0.0, 0.0), noise=0.01)
    one = swept(tmp_path, WORKLOADS[:1], ("a",), repeats=3)
    (machine,) = comparisons.compare([one.name], results=tmp_path).result
    assert machine["average"]["slowdown_removed"] is None
    assert machine["average"]["score_gain"] is None
    assert "slowdown removed - (there was none)" in repr(comparisons.compare([one.name], results=tmp_path))


def test_studies_by_name_count_once(fleet, tmp_path: Path) -> None:
    one = swept(tmp_path, machines=("a",))
    studies = [study.name for study in manual_tuned.studies_of(one)]
    (machine,) = comparisons.compare([one.name, studies[0]], results=tmp_path).result
    assert [each["study"] for each in machine["studies"]] == studies


def test_the_papers_own_numbers_hold_together() -> None:
    """Shares that the paper reports follow from the averages that it reports, as `manual_tuned` counts them."""
    for about in manual_tuned.PAPER.values():
        removed = 1 - about["tuned"]["slowdown"] / about["manual"]["slowdown"]
        assert removed == pytest.approx(about["slowdown_removed"], abs=0.001)


def cli(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    error = done.exception
    return getattr(error, "exit_code", done.exit_code), f"{done.output}{error or ''}"


@pytest.mark.slow
def test_the_commands(fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.doctor.STEADY_S", 0.0)
    where = ["--results", str(tmp_path)]
    run = [
        "evaluate",
        "--workloads",
        "synthetic/hot-cold",
        "--machines",
        "a",
        "--configs",
        "thp,ethp",
        "--repeats",
        "3",
    ]
    status, said = cli(*run, *where)
    assert status == 0, said
    assert "evaluation sweep-1" in said
    assert "ethp on synthetic/hot-cold: removes" in said
    assert (tmp_path / "sweep-1/evaluation-a.png").stat().st_size > 10_000
    status, said = cli("resume", "sweep-1", *where, "--format", "json")
    assert status == 0
    found = json.loads(said[said.index("{") :])
    assert list(found["studies"][0]["configs"]) == ["baseline", "thp", "ethp"]
    assert fleet["a"].nr_runs == 9  # a finished one is shown again, not run
    status, said = cli("resume", "sweep-1", *where, "--format", "jsonl")
    assert [json.loads(line)["event"] for line in said.splitlines() if line.startswith("{")][-1] == "end"
    assert "configurations compared" in cli("studies", *where)[1]
    (study,) = (row["study"] for row in json.loads(cli("studies", *where, "--format", "json")[1]))
    assert "memory efficiency" in cli("show", study, *where)[1]
    assert "compares configurations and tunes no scheme" in cli("apply", study, *where)[1]
    assert "compares configurations" in cli("compare", "sweep-1", *where)[1]
    dry = cli(*run, "--dry-run", *where)
    assert "9 runs" in dry[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate"], "Missing option '--workloads'"),
        (["kernel", "compare", "--kernels", "debian"], "give either a workload, a command or a pid"),
        (["kernel", "compare", "--command", "x", "--kernels", "debian", "--scheme", "x"], "a scheme has 7 fields"),
        (["evaluate", "--workloads", "synthetic/idle", "--configs", "thpp"], "unknown configuration 'thpp'"),
        (["evaluate", "--workloads", "synthetic/idle", "--configs", "thp,thp"], "expected different names"),
        (["evaluate", "--workloads", "synthetic/idle", "--repeats", "1"], "--repeats 1: give 3 or more"),
        (["compare", "sweep-1"], "unknown study 'sweep-1'"),
        (["evaluate", "--workloads", "synthetic/idle", "--format", "xml"], "unknown format 'xml'"),
    ],
)
def test_wrong_words_on_the_command_line(tmp_path: Path, words: list[str], message: str) -> None:
    status, said = cli(*words, "--results", str(tmp_path))
    assert message in said
    assert status == ConfigError.exit_code
