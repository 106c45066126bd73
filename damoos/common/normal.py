"""The normal distribution without `scipy.stats`, which takes half a second to import and checks each call at length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


def log_density(z: Any) -> Floats:
    """Logarithm of the standard normal density at a number or an array of them."""
    return np.asarray(-0.5 * np.square(z) - _LOG_ROOT_TWO_PI)


def expected_improvement(gain: Floats, deviation: Floats | float) -> Floats:
    """Mean of what is above zero of normal values with means ``gain`` and standard deviations above zero.

    References
    ----------
    Jones, Schonlau, Welch, Efficient Global Optimization (1998), equation 15
    """
    z = gain / deviation
    return np.asarray(deviation * np.exp(log_density(z)) + gain * ndtr(z))
