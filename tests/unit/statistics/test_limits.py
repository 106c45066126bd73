from __future__ import annotations

import numpy as np
import pytest

from damoos.model.trial import Score
from damoos.statistics.intervals import Noise, alpha_of_a_look
from damoos.statistics.limits import Standing, looks_broken, standing

RISK = alpha_of_a_look(5)


def of(*margins: float, every: tuple[str, ...] = (), noise: Noise | None = None) -> Standing:
    scores = [Score(0.1 if margin >= 0 else None, margin >= 0, {"slowdown<=0.1": margin}) for margin in margins]
    return standing(scores, every, {} if noise is None else {"slowdown<=0.1": [noise]}, RISK)


def test_the_mean_counts() -> None:
    assert of(0.30, 0.31, 0.29) is Standing.KEPT
    assert of(-0.30, -0.31, -0.29) is Standing.BROKEN
    # One run beyond the limit does not break it.
    assert of(0.05, -0.005, 0.05, 0.045, 0.05) is Standing.KEPT


def test_few_runs_show_nothing() -> None:
    assert of(0.3) is of(-0.3) is Standing.NOT_SHOWN
    assert of(0.3, 0.1) is Standing.NOT_SHOWN
    assert of(-0.3, 0.1) is Standing.NOT_SHOWN
    assert of(-0.3, 0.1, 0.1) is Standing.NOT_SHOWN


def test_what_looks_broken_need_not_be_shown_to_be() -> None:
    def looks(*margins: float) -> bool:
        return looks_broken([Score(0.1, True, {"slowdown<=0.1": margin}) for margin in margins], ())

    # From the third run on a mean beyond the limit is enough, and earlier each run by more than the tolerance.
    assert looks(-0.3, 0.1, 0.1)
    assert looks(-0.3, -0.15)
    assert not any(looks(*margins) for margins in ((0.3, 0.1, -0.3), (-0.3, -0.05), (-0.3,)))


def test_what_more_runs_would_show() -> None:
    """With the mean better by its error, and the noise as it is."""
    scores = [Score(0.1, True, {"slowdown<=0.1": margin}) for margin in (0.2, 0.5, 0.1)]
    found = [standing(scores, (), {}, RISK, more) for more in (0, 1, 3)]
    assert found == [Standing.NOT_SHOWN, Standing.NOT_SHOWN, Standing.KEPT]


def test_known_noise_shows_it_sooner() -> None:
    assert of(0.05, 0.03, noise=None) is Standing.NOT_SHOWN
    assert of(0.05, 0.03, noise=Noise(0.02, 4)) is Standing.KEPT
    assert of(-0.15, -0.13, noise=Noise(0.02, 4)) is Standing.BROKEN


def test_the_worst_of_several_limits_counts() -> None:
    scores = [Score(None, False, {"a": 0.5, "b": margin}) for margin in (-0.2, -0.21)]
    assert standing(scores, (), {}, RISK) is Standing.BROKEN
    assert standing([Score(0.1, True, {"a": 0.5, "b": 0.2})] * 3, (), {}, RISK) is Standing.KEPT


def test_a_limit_for_every_run_is_broken_by_one() -> None:
    assert of(0.5, 0.5, 0.5, -0.001, every=("slowdown<=0.1",)) is Standing.BROKEN
    assert of(0.5, 0.1, 0.01, 0.001, every=("slowdown<=0.1",)) is Standing.KEPT


def test_a_score_that_does_not_say_by_how_much_is_believed_each_time() -> None:
    assert standing([Score(0.1, True), Score(None, False)], (), {}, RISK) is Standing.BROKEN
    assert standing([Score(0.1, True), Score(0.1, True)], (), {}, RISK) is Standing.KEPT
    # Neither does one that is broken although every margin is kept.
    assert standing([Score(None, False, {"a": 0.2})] * 2, (), {}, RISK) is Standing.BROKEN


@pytest.mark.parametrize("ratio", [1.0, 5.0])
def test_limits_that_are_broken_by_more_than_a_tenth_are_seldom_called_kept(ratio: float) -> None:
    """Looked at after each of six rounds; runs under the scheme are as noisy as baselines, or five times as noisy."""
    random = np.random.default_rng(5)
    nr_studies, kept = 1000, 0
    for _ in range(nr_studies):
        noise = Noise(float(np.std(random.normal(0, 0.05, 4), ddof=1)), 3)
        margins = random.normal(-0.1, 0.05 * ratio, 6)
        looks = (of(*margins[:count], noise=noise) for count in range(2, 7))
        kept += next((look for look in looks if look is not Standing.NOT_SHOWN), None) is Standing.KEPT
    assert kept / nr_studies <= 0.05
