from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from damoos.model.trial import Measurement, Score, mean_measurement
from damoos.scorers.base import Scorer
from damoos.scorers.daos import DaosScorer
from damoos.scorers.sla import SlaScorer
from damoos.statistics.noise import GAIN, freedom_in_a_row, of_baselines, of_scheme
from tests.unit.statistics.samples import BASE, run


def against(base: Measurement, scorer: Scorer) -> Callable[[Measurement], tuple[Score, float | None]]:
    """Scores of runs, and what they gain over a baseline."""
    usual = scorer.score(base, base, ()).objective
    assert usual is not None
    sign = 1.0 if scorer.direction == "maximize" else -1.0

    def scored(one: Measurement) -> tuple[Score, float | None]:
        score = scorer.score(one, base, ())
        return score, None if score.objective is None else sign * (score.objective - usual)

    return scored


def runs(count: int, random: np.random.Generator, drift: float = 0.0) -> list[Measurement]:
    """Runs that differ by chance, and become slower one after the other."""
    noises = random.standard_normal((count, 2))
    return [
        run(100 * (1 + drift * number) * (1 + 0.01 * a), 1000 * (1 + 0.002 * b)) for number, (a, b) in enumerate(noises)
    ]


@pytest.mark.parametrize("drift", [0.0, 0.005])
@pytest.mark.parametrize("scorer", [DaosScorer(), SlaScorer(minimize="rss_avg_bytes")], ids=["relative", "absolute"])
def test_the_noise_of_baselines_is_that_of_a_gain(scorer: Scorer, drift: float) -> None:
    """A gain is of two runs that differ in nothing but chance; that the machine becomes slower hardly counts."""
    random = np.random.default_rng(9)
    pairs = zip(runs(2000, random), runs(2000, random), strict=True)
    gains = [against(other, scorer)(one)[1] for one, other in pairs]
    variances = []
    for _ in range(200):
        baselines = runs(6, random, drift)
        repeats = of_baselines(baselines)
        assert repeats is not None
        base = mean_measurement(baselines)
        variances.append(repeats.noise(base, against(base, scorer))[GAIN].deviation ** 2)
    assert math.sqrt(np.mean(variances)) == pytest.approx(np.std(gains), rel=0.15)


def test_noise_grows_with_what_it_is_of() -> None:
    """Where a scheme makes a latency ten times as long, its noise is ten times as large."""
    scorer = SlaScorer(minimize="rss_avg_bytes")
    repeats = of_baselines([run(*values) for values in BASE])
    assert repeats is not None
    one, ten = run(100, 1000), run(100, 10_000)
    noises = [repeats.noise(each, against(run(100, 1000), scorer))[GAIN].deviation for each in (one, ten)]
    assert noises[1] == pytest.approx(10 * noises[0])


def test_a_metric_that_is_0_without_a_scheme_has_the_noise_of_its_differences() -> None:
    scorer = SlaScorer(minimize="swapped", limits=[])
    baselines = [Measurement({"swapped": value}) for value in (0.0, 2.0, 0.0)]
    repeats = of_baselines(baselines)
    assert repeats is not None
    noise = repeats.noise(Measurement({"swapped": 50.0}), against(baselines[0], scorer))[GAIN]
    assert noise.deviation == pytest.approx(2.0)


def test_margins_have_a_noise_of_their_own() -> None:
    repeats = of_baselines([run(*values) for values in BASE])
    assert repeats is not None
    base = run(100, 1000)
    found = repeats.noise(base, against(base, DaosScorer()))
    assert set(found) == {GAIN, "slowdown<=0.1"}
    # Neighbours are 1 % and 1.5 % apart, which is 10 and 15 % of a limit of 10 %.
    assert found["slowdown<=0.1"].deviation == pytest.approx(math.hypot(0.1, 0.1485) / math.sqrt(2), rel=0.02)


def test_the_noise_of_a_scheme_is_beside_the_baselines_of_its_rounds() -> None:
    """The machine became twice as slow, and the scheme with it."""
    base = {0: run(100, 1000), 1: run(200, 1000), 2: run(200, 1000)}
    repeats = of_scheme({0: run(110, 500), 1: run(220, 500), 2: run(226.6, 500)}, base)
    assert repeats is not None
    noise = repeats.noise(run(110, 500), against(run(100, 1000), DaosScorer()))[GAIN]
    # One of two neighbours is 3 % slower, of which the score has half; a change has the noise of two gains.
    assert noise.deviation == pytest.approx(0.5 * 1.1 * 0.03 * math.sqrt(0.5) * math.sqrt(0.5))
    assert noise.freedom == freedom_in_a_row(3) == pytest.approx(8 / 5)
    assert of_scheme({0: run(110, 500)}, base) is None
    assert of_baselines([run(100, 1000)]) is None


def test_each_machine_tells_its_own_noise() -> None:
    def here(host: str, runtime_s: float) -> Measurement:
        return Measurement({"runtime_s": runtime_s, "rss_avg_bytes": 1.0}, provenance={"host": host})

    one, two = ([here(host, of_host) for _ in range(2)] for host, of_host in (("a", 100.0), ("b", 300.0)))
    repeats = of_baselines([one[0], two[0], one[1], two[1]])
    assert repeats is not None
    assert repeats.noise(one[0], against(one[0], DaosScorer()))[GAIN].deviation == 0.0
