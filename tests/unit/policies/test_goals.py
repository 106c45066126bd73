"""Policies whose quotas the kernel tunes."""

from __future__ import annotations

import pytest

from damoos.damon.scheme import Context
from damoos.policies import catalog


@pytest.mark.parametrize("name", ["damos-psi", "damon-tiers"])
@pytest.mark.parametrize("tuner", ["consist", "temporal"])
def test_a_tuner_is_named_only_if_older_kernels_do_not_have_it(name: str, tuner: str) -> None:
    text = catalog.parse(f"{name}:tuner={tuner}").scheme()
    assert {scheme.quotas.goal_tuner for scheme in Context.parse(text).schemes} == {tuner}
    assert ("goal_tuner" in text) == (tuner == "temporal")
