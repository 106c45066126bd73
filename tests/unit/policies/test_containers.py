"""Which rule steers which container."""

import pytest

from damoos.errors import ConfigError
from damoos.policies import named
from damoos.policies.base import NonePolicy
from damoos.policies.catalog import parse
from damoos.policies.containers import ContainersPolicy, rule, steered

CONTAINERS = [
    {"name": "app", "policy": "none"},
    {"name": "logger", "policy": None},
    {"name": "agent", "policy": "senpai:ratio=1%"},
]


def ratios(spec: dict) -> dict:
    found = steered({**spec, "containers": CONTAINERS})
    assert "own_policies" not in found
    assert all("policy" not in one for one in found["containers"])
    return {one["name"]: one["controller"] and one["controller"]["ratio"] for one in found["containers"]}


def test_a_rule_of_the_run_is_for_those_without_a_policy_of_their_own() -> None:
    assert ratios(parse("senpai:ratio=5%").spec()) == {"app": None, "logger": 0.05, "agent": 0.01}
    assert "controller" not in steered({**parse("senpai").spec(), "containers": CONTAINERS})


def test_a_rule_that_goes_with_a_scheme_steers_all_together() -> None:
    spec = parse("gswap").spec()
    found = steered({**spec, "containers": CONTAINERS})
    assert found["controller"] == spec["controller"]
    assert [one["controller"] for one in found["containers"]] == [None, None, None]


def test_their_own_policies_are_in_force_alone_and_not_in_a_baseline() -> None:
    assert ratios(ContainersPolicy().spec()) == {"app": None, "logger": None, "agent": 0.01}
    assert ratios(NonePolicy().spec()) == {"app": None, "logger": None, "agent": None}
    assert isinstance(named.policy(named.resolve(["containers"])["containers"]), ContainersPolicy)


def test_what_is_no_rule_of_a_group_is_refused_in_one_line() -> None:
    assert rule("agent", "none") is None
    for text in ("senpai", "senpai-high", "oomd"):
        assert rule("agent", text) == parse(text).spec()["controller"]
    words = "container 'agent': policy '{}' is none of none, senpai, senpai-high, oomd; a DAMOS scheme, or a "
    for text in ("prcl", "gswap", "mglru", "swappiness", "memory-high", "thp"):
        with pytest.raises(ConfigError) as told:
            rule("agent", text)
        assert str(told.value).startswith(words.format(text))
    with pytest.raises(ConfigError, match="'rato=1%' sets no parameter of senpai"):
        rule("agent", "senpai:rato=1%")
