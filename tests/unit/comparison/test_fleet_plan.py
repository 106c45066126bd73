"""What a fleet would save, from studies on some machines: by simulation, held against fleets whose truth is known."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from damoos import api
from damoos.api import comparisons
from damoos.comparison.fleet_plan import Hosts, Measured, plan, read
from damoos.errors import ConfigError
from damoos.machines import catalog
from damoos.report.comparison.fleet_plan import text
from damoos.scorers.cost import Prices
from damoos.testing.fake import FakeMachine


def studies(chance: np.random.Generator, truth: dict[str, float], machines: int, spread: float, error: float = 0.01):
    return [
        Measured(name, f"m{nth}", saving + chance.normal(0, spread) + chance.normal(0, error), error)
        for name, saving in truth.items()
        for nth in range(machines)
    ]


def test_a_workload_that_was_studied_saves_what_its_studies_say() -> None:
    found = [Measured("a", f"m{nth}", 0.3 + 0.01 * nth, 0.01) for nth in (-1, 0, 1)]
    found += [Measured("b", f"m{nth}", 0.1, 0.01) for nth in range(3)]
    said = plan([Hosts("a", 100, 10.0), Hosts("b", 50, 20.0)], found)
    a, b = said["workloads"]
    assert a["saving"]["mean"] == pytest.approx(0.3, abs=0.02)
    assert b["saved_gib"]["mean"] == pytest.approx(0.1 * 50 * 20, rel=0.15)
    assert said["total"]["saved_gib"]["mean"] == pytest.approx(a["saved_gib"]["mean"] + b["saved_gib"]["mean"])
    assert (a["measured_on"], a["deserves_a_study"]) == (3, False)
    assert said["total"]["memory_gib"] == 2000


def test_one_that_nobody_has_studied_is_like_the_others_and_less_certain() -> None:
    found = [Measured(name, "m0", saving, 0.01) for name, saving in {"a": 0.1, "b": 0.2, "c": 0.3}.items()]
    known, unknown = plan([Hosts("b", 100, 10.0), Hosts("d", 100, 10.0)], found)["workloads"]
    width = [one["saving"]["ci95"][1] - one["saving"]["ci95"][0] for one in (known, unknown)]
    assert unknown["saving"]["mean"] == pytest.approx(0.2, abs=0.03)
    assert width[1] > 1.3 * width[0]
    assert (unknown["measured_on"], unknown["deserves_a_study"]) == (0, True)
    assert unknown["variance_share"] > known["variance_share"]


def test_hosts_that_differ_need_a_larger_canary() -> None:
    chance = np.random.default_rng(1)
    canaries = [
        plan([Hosts("a", 1000, 10.0)], studies(chance, {"a": 0.2, "b": 0.2}, 8, spread))["workloads"][0]["canary_hosts"]
        for spread in (0.01, 0.15)
    ]
    assert canaries[0] <= 2 < canaries[1]
    assert plan([Hosts("a", 9, 1.0)], [Measured("a", "m0", -0.3, 0.01)])["workloads"][0]["canary_hosts"] is None


@pytest.mark.parametrize("machines", [1, 3])
@pytest.mark.slow
def test_the_truth_is_in_the_interval_as_often_as_it_says(machines: int) -> None:
    inside, rounds = 0, 50
    for nth in range(rounds):
        chance = np.random.default_rng(nth)
        truth = {f"w{one}": chance.normal(0.2, 0.1) for one in range(6)}
        known = dict(list(truth.items())[:4])
        said = plan([Hosts(name, 20, 10.0) for name in truth], studies(chance, known, machines, 0.08), seed=nth)
        saved = sum((saving + chance.normal(0, 0.08, 20)).sum() * 10.0 for saving in truth.values())
        low, high = said["total"]["saved_gib"]["ci95"]
        inside += low <= saved <= high
    assert inside / rounds >= 0.86  # of 200 rounds, 97 and 96 %


def test_money_and_the_table(tmp_path: Path) -> None:
    found = [Measured("a", "m0", 0.25, 0.01), Measured("a", "m1", 0.25, 0.01)]
    said = plan([Hosts("a", 40, 10.0), Hosts("x", 4, 10.0)], found, prices=Prices(gib_hour=0.005, core_hour=0.04))
    total = said["total"]
    assert total["saved_money"]["mean"] == pytest.approx(total["saved_gib"]["mean"] * 0.005 * 730)
    lines = text(said).splitlines()
    assert lines[0].split()[:3] == ["workload", "hosts", "GiB"]
    assert "2 machines" in lines[1]
    assert " none " in lines[2]
    assert "44 hosts with 440 GiB in use" in lines[4]
    assert "$ a month" in lines[4]
    assert said["workloads"][0]["canary_bake_hours"] == {"0.5": 1, "0.9": 3, "0.95": 12}
    assert lines[6].startswith(
        "A canary bakes, by the correlation of its windows of 10 s with the next ones: 1 h for 0.5"
    )


def test_the_smaller_a_saving_the_longer_its_canary_bakes() -> None:
    found = [Measured("a", f"m{nth}", 0.12, 0.01) for nth in range(3)]
    (line,) = plan([Hosts("a", 100, 10.0)], found)["workloads"]
    assert line["canary_bake_hours"] == {"0.5": 3, "0.9": 12, "0.95": 24}
    (line,) = plan([Hosts("a", 100, 10.0)], [Measured("a", "m0", 0.0, 0.01)])["workloads"]
    assert set(line["canary_bake_hours"].values()) == {None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no hosts; it is a CSV file with the columns workload, hosts, memory_gib"),
        ("workload,hosts,hosts,memory_gib\na,1,1,2\n", "there are two columns 'hosts'; leave one of them out"),
        ("workload,hosts\na,1\n", "there is no column 'memory_gib'"),
        ("workload,hosts,memory_gib\na,1,2\nb,many,2\n", "line 3: hosts 'many' is not a number"),
        ("workload,hosts,memory_gib\na,0,2\n", "line 2: hosts '0' is not above 0"),
        ("workload,hosts,memory_gib\na,1,nan\n", "line 2: memory_gib 'nan' is not above 0"),
        ("workload,hosts,memory_gib\na,1\n", "line 2: memory_gib 'None' is not a number"),
    ],
)
def test_files_that_cannot_be(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "fleet.csv"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read(file)
    with pytest.raises(ConfigError, match="No such file or directory"):
        read(tmp_path / "none.csv")


def test_from_the_studies_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = FakeMachine(lambda age_s: (0.02, 0.4), noise=0.001)
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine)
    study = api.tune(command="true", machine="fake", results=tmp_path, trials=3, repeats=2, prior="none", seed=1)
    (tmp_path / "fleet.csv").write_text("workload,hosts,memory_gib\ntrue,400,12\n")
    said = comparisons.fleet_plan(study.name, tmp_path / "fleet.csv", results=tmp_path)
    (line,) = said["workloads"]
    assert line["saving"]["mean"] == pytest.approx(0.4, abs=0.05)
    assert line["measured_on"] == 1
    with pytest.raises(ConfigError, match="unknown study"):
        comparisons.fleet_plan("nothing", tmp_path / "fleet.csv", results=tmp_path)


def fleet_file(folder: Path, lines: Sequence[str]) -> Path:
    file = folder / "fleet.csv"
    file.write_text("workload,hosts,memory_gib\n" + "\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([f"w{nth},1,1" for nth in range(1001)], "more than 1000 lines"),
        (["same,1,1"] * 1001, "more than 1000 lines"),
        ([f"w{nth},1,1" for nth in range(300_000)], "larger than 262144 bytes"),
        (["w,1e300,1"], "line 2: hosts '1e300' is not above 0 and at most 1000000000"),
        ([f"w,{'9' * 5000},1"], r"\(5000 characters\) is not above 0"),
        ([",1,1"], "line 2: there is no workload"),
        (["w"], "line 2: hosts 'None' is not a number"),
    ],
    ids=["names", "lines", "bytes", "hosts", "digits", "no name", "short"],
)
def test_a_fleet_is_bounded_before_anything_is_computed(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(fleet_file(tmp_path, lines))


def test_a_fleet_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fleet.csv")
    with pytest.raises(ConfigError, match=r"fleet\.csv: not a regular file"):
        read(tmp_path / "fleet.csv")


@pytest.mark.slow
def test_matrices_are_as_large_as_there_are_studies() -> None:
    """A thousand workloads that nobody has studied have their draws and no matrix."""
    fleet = [Hosts(f"w{nth}", 1, 1.0) for nth in range(1000)]
    tracemalloc.start()
    said = plan(fleet, [Measured("w1", "m", 0.1, 0.05), Measured("w2", "m", 0.1, 0.05)])
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(said["workloads"]) == 1000
    assert peak_bytes < 256 << 20
    with pytest.raises(ConfigError, match="at most 1000 lines"):
        plan([*fleet, Hosts("x", 1, 1.0)], [Measured("w1", "m", 0.1, 0.05)])
