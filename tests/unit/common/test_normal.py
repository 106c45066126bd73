"""The normal distribution, beside that of scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from damoos.common.normal import expected_improvement, log_density

Z = np.array([-40.0, -3.0, 0.0, 0.5, 8.0])


def test_the_density_is_that_of_scipy() -> None:
    assert log_density(Z) == pytest.approx(stats.norm.logpdf(Z))
    assert log_density(1.0) == pytest.approx(stats.norm.logpdf(1.0))


@pytest.mark.parametrize(("gain", "deviation"), [(-2.0, 1.0), (0.0, 0.3), (1.5, 2.0)])
def test_the_improvement_is_the_mean_of_what_is_above_zero(gain: float, deviation: float) -> None:
    mean, _ = integrate.quad(lambda x: x * stats.norm.pdf(x, gain, deviation), 0, gain + 12 * deviation)
    assert expected_improvement(np.array([gain]), deviation) == pytest.approx([mean], rel=1e-6)
