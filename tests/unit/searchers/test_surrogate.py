"""What is believed of a response, where some of it is known to lie above a bound only."""

from __future__ import annotations

import numpy as np
import pytest

from damoos.searchers.surrogate import Belief, believe, believe_bounds


def test_what_lies_above_a_bound_is_expected_where_the_others_lead() -> None:
    x = np.linspace(0, 1, 8)[:, None]
    y = 4 * x[:, 0]
    is_bound = y > 2.2
    bounded = np.minimum(y, 2.2)
    filled = believe_bounds(x, bounded, is_bound)
    assert (filled[~is_bound] == y[~is_bound]).all()
    assert (filled[is_bound] >= 2.2).all()
    assert abs(filled - y).max() < 0.8 * abs(bounded - y).max()
    # So what lies between is seen to be steep.
    between = np.array([[0.6]])
    assert believe(x, filled, between).mean[0] > believe(x, bounded, between).mean[0]


def test_without_bounds_or_values_nothing_is_changed() -> None:
    x, y = np.array([[0.0], [0.5], [1.0]]), np.array([1.0, 2.0, 3.0])
    assert believe_bounds(x, y, np.zeros(3, dtype=bool)) is y
    assert believe_bounds(x, y, np.array([False, True, True])) is y


def test_the_mean_above_a_bound() -> None:
    belief = Belief(np.array([[0.0, 0.0, 0.0]]), np.array([[1.0, 1.0, 1.0]]), np.array([1.0]))
    # Of a normal distribution: all of it, its upper half, what lies far out.
    assert belief.mean_above(np.array([-9.0, 0.0, 30.0])) == pytest.approx([0.0, np.sqrt(2 / np.pi), 30.0], abs=0.04)
