from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from damoos.bench.simulated import play, table
from damoos.bench.surfaces import RSS_BYTES, RUNTIME_S, Groups, generate, load, made
from damoos.errors import ConfigError
from damoos.model.space import Params
from damoos.searchers.base import best
from damoos.searchers.grid import GridSearcher

# One group that is used every 10 s, give or take a little, and costs a second to fault in.
ONE = Groups(*(np.array([value]) for value in (10.0, 0.01, 1.0, 0.0, float(1 << 30), 1.0)))
SIMULATOR = """
def run(params, random):
    age_s = params["min_age_us"] / 1e6 if params else 0
    slowdown, saving = (0.3 / (1 + age_s), 0.6 / (1 + age_s / 20)) if params else (0, 0)
    return {"runtime_s": 10 * (1 + slowdown + random.normal(0, 0.002)), "rss_avg_bytes": 1e8 * (1 - saving)}
"""


def test_what_a_scheme_saves_and_costs() -> None:
    slowdown, saving = ONE.under(4.0, 100, 1e12, 4096)
    assert slowdown == pytest.approx(1 / 10, rel=0.01)  # a fault of 1 s every 10 s
    assert saving == pytest.approx(6 / 10, rel=0.01)  # paged out from 4 to 10 s
    assert ONE.under(20.0, 100, 1e12, 4096) == pytest.approx((0, 0), abs=1e-9)
    # A quota of half of what it would page out halves both; regions that are too busy or too small are left alone.
    assert ONE.under(4.0, 100, RSS_BYTES / 20, 4096) == pytest.approx((slowdown / 2, saving / 2), rel=0.02)
    busy, small = replace(ONE, frequencies=np.array([90.0])), replace(ONE, regions_bytes=np.array([4096.0]))
    assert busy.under(4.0, 20, 1e12, 4096)[1] < 1e-6
    assert small.under(4.0, 100, 1e12, 1 << 20)[1] < 1e-6


def test_runs_scatter_around_the_mean() -> None:
    surface = made("one", ONE, 0.01, 1)
    point: Params = {"min_age_us": 4_000_000}
    random = np.random.default_rng(1)
    runtimes = [surface.run(point, random).metric("runtime_s") for _ in range(400)]
    assert np.mean(runtimes) == pytest.approx(surface.mean(point).metric("runtime_s"), rel=0.002)
    assert np.std(runtimes) / np.mean(runtimes) == pytest.approx(0.01, rel=0.15)
    assert surface.mean(None).metric("runtime_s") == RUNTIME_S


def test_made_surfaces_are_the_same_for_a_seed() -> None:
    point: Params = {"min_age_us": 4_000_000, "max_freq_percent": 50}
    first, again, other = (generate(3, seed, 2)[2].mean(point).metrics for seed in (5, 5, 6))
    assert first == again != other
    assert generate(5, 5, 2)[2].mean(point).metrics == first
    with pytest.raises(ConfigError, match="made surfaces have 1 to 6 parameters"):
        generate(1, 0, 7)


def test_the_highest_point_lies_between_those_of_the_grid() -> None:
    surface = generate(1, 0, 3)[0]

    def worth(point: Params) -> float:
        place = np.array(surface.space.to_unit(point))
        return -float(np.abs(place - [0.123, 0.456, 0.789]).sum())

    assert max(map(worth, surface.grid())) < -0.02
    assert surface.highest(worth) > -0.02


def test_the_fifth_parameter_is_a_choice_and_the_sixth_a_quota() -> None:
    surface = generate(1, 0, 6)[0]
    point: Params = {
        "min_age_us": 4_000_000, "max_freq_percent": 100, "quota_sz_bytes": 1 << 30, "min_size_bytes": 4096,
        "action": 0, "quota_time_ms": 1000,
    }  # fmt: skip
    saved = {
        name: RSS_BYTES - surface.mean({**point, **change}).metric("rss_avg_bytes")
        for name, change in {"pageout": {}, "cold": {"action": 1}, "slow": {"quota_time_ms": 1}}.items()
    }
    assert saved["cold"] == pytest.approx(0.3 * saved["pageout"])
    assert 0 < saved["slow"] < saved["pageout"]


@pytest.mark.parametrize("nr_params", [1, 2, 3, 4])
def test_the_grid_lies_in_the_space(nr_params: int) -> None:
    surface = generate(1, 0, nr_params)[0]
    points = list(surface.grid())
    assert 100 <= len(points) <= 11_000
    for param in surface.space.params:
        assert {param.low, param.high} <= {point[param.key] for point in points}


class BoldSearcher(GridSearcher):
    """Recommends the most eager point, which breaks the limit."""

    def recommend(self, history):  # type: ignore[no-untyped-def]
        return min((trial.params for trial in history), key=lambda point: point["min_age_us"])

    def shortlist(self, history, count):  # type: ignore[no-untyped-def]
        bold, kept = self.recommend(history), best(history).params
        return [bold, kept][:count]


def test_the_validation_saves_what_the_search_got_wrong() -> None:
    surface = made("one", replace(ONE, costs_s=np.array([3.0]), spreads=np.array([0.8])), 0.002, 1)
    ending = play(surface, BoldSearcher, 20)
    assert ending.lost_before == 1.0
    assert ending.lost < 0.2
    assert not ending.broken
    assert ending.runs > 25


def test_leaving_it_alone_loses_nothing_where_nothing_is_to_be_had() -> None:
    surface = made("one", replace(ONE, costs_s=np.array([9.0]), gaps_s=np.array([0.02])), 0.002, 1)
    ending = play(surface, "auto", 5)
    assert ending.lost == 0.0
    assert ending.verdict in ("baseline", "indistinguishable")


@pytest.mark.slow
def test_a_table_of_whole_studies() -> None:
    (row,) = table(generate(2, 1), ["optuna:qmc"], [4])
    assert (row["searcher"], row["params"], row["trials"], row["broken"]) == ("optuna:qmc", 1, 4, 0.0)
    assert 0 <= row["lost"] < 1
    assert row["lost_ci95"][0] < row["lost"] < row["lost_ci95"][1]


def test_a_simulator_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SIMULATOR)
    surface = load(f"{file}:run", ["min_age=0s:60s"], "4K max  min min  MIN_AGE max  pageout")
    assert surface.mean({"min_age_us": 1_000_000}).metric("rss_avg_bytes") == pytest.approx(1e8 * (1 - 0.6 / 1.05))
    (row,) = table([surface] * 3, ["auto"], [6])
    assert row["lost"] < 0.1


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (SIMULATOR, "rum", "there is no function 'rum'; did you mean 'run'?"),
        ("def run(params):\n    return {}\n", "run", "TypeError"),
        ("import nothing_of_this_name\n", "run", "ModuleNotFoundError"),
        ("def run(params, random):\n    raise ValueError('no')\n", "run", "ValueError: no"),
    ],
)
def test_a_simulator_that_is_none_is_one_line(tmp_path: Path, text: str, name: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        load(f"{file}:{name}", ["min_age=0s:60s"], "4K max  min min  MIN_AGE max  pageout")
    with pytest.raises(ConfigError, match="there is no file"):
        load(f"{tmp_path / 'none.py'}:run", ["min_age=0s:60s"], "4K max  min min  MIN_AGE max  pageout")
