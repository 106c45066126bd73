"""Policies on models, which run in a part of their programs' time: what takes time takes the same part."""

from __future__ import annotations

import pytest

from damoos.model.space import Space
from damoos.policies import catalog, named
from damoos.policies.catalog import RULES


@pytest.mark.parametrize("name", RULES)
def test_times_are_divided_and_nothing_else_is(name: str) -> None:
    rule = RULES[name]
    plain, short = rule.defaults(), rule.defaults(10)
    for word, parameter in rule.parameters.items():
        assert short[word] == (max(plain[word] // 10, min(plain[word], 1)) if parameter.is_time else plain[word])
    assert rule.defaults(1) == plain


@pytest.mark.parametrize("name", [name for name in RULES if RULES[name].tuned])
def test_the_default_point_is_the_default_policy(name: str) -> None:
    rule = RULES[name]
    params = rule.space((), 10)
    point = rule.default_point(params, 10)
    if not any(param.choices for param in params):
        assert rule.at(params, point, 10) == rule.defaults(10)
    assert len(Space(name, params).params) == len(rule.tuned)


def test_ranges_of_times_are_divided_unless_the_user_has_given_them() -> None:
    rule = catalog.rule("damon-reclaim")
    (own,), (given,) = rule.space((), 10)[:1], rule.space(["min_age=1s:2s"], 10)
    assert (own.low, own.high) == (50_000, 12_000_000)
    assert (given.low, given.high) == (1_000_000, 2_000_000)


def test_a_share_of_each_second_stays() -> None:
    short = catalog.rule("damon-reclaim").defaults(10)
    assert (short["quota_ms"], short["min_age"]) == (10, 12_000_000)
    assert catalog.rule("damos-psi").defaults(20)["target"] == 1000


def test_a_policy_of_an_evaluation_is_in_the_time_of_the_model() -> None:
    found = named.policy({"policy": "senpai:interval=2s:ratio=1%"}, 10)
    assert found.text == "senpai:interval=200ms:ratio=1%"  # type: ignore[attr-defined]
    assert named.policy({"policy": "senpai"}, 10).spec()["controller"]["interval_s"] == 0.6
