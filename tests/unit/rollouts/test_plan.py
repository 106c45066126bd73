"""What a rollout is to do, in the words of whoever asks for it."""

from __future__ import annotations

from itertools import chain

import pytest

from damoos.errors import ConfigError
from damoos.rollouts.plan import checked, parse_steps
from damoos.testing.rollout_fleet import fake_plan


@pytest.mark.parametrize(
    ("text", "nr", "steps"),
    [
        ("1,10%,50%,100%", 100, [1, 10, 50, 100]),
        ("1,10%,50%,100%", 4, [1, 2, 4]),
        ("1,10%,50%,100%", 2, [1, 2]),
        ("2, 30%", 10, [2, 3, 10]),
        ("100%", 3, [3]),
        ("0.5%", 1000, [5, 1000]),
        ("1,3", 3, [1, 3]),
    ],
)
def test_steps(text: str, nr: int, steps: list[int]) -> None:
    assert parse_steps(text, nr) == steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is neither a number of machines nor a share"),
        ("1,many", "'many' is neither"),
        ("0", "'0' is not between 1 and all 10 machines"),
        ("11", "'11' is not between 1 and all 10 machines"),
        ("120%", "'120%' is not between"),
        ("1.5", "'1.5' is not between"),
        ("nan", "'nan' is not between"),
        ("5,1", "'1' is less than the step before it"),
    ],
)
def test_steps_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_steps(text, 10)


def test_each_machine_is_in_one_cohort_and_none_beside_itself() -> None:
    plan = fake_plan(20, [1, 4, 10, 20], seed=3)
    cohorts = [plan.cohort(step) for step in range(4)]
    assert [len(one) for one in cohorts] == [1, 3, 6, 10]
    assert sorted(chain(*cohorts)) == sorted(plan.machines)
    assert [len(plan.control(step)) for step in range(4)] == [3, 3, 6, 10]
    for step in range(3):
        assert not set(plan.control(step)) & set(chain(*cohorts[: step + 1]))
    assert set(plan.control(3)) == set(chain(*cohorts[:3]))  # the last ones have the policy already
    assert fake_plan(20, [20]).control(0) == []
    assert fake_plan(20, [1, 20], seed=4).order != plan.order


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machines": ["a", "b", "a"]}, "'a' is named twice"),
        ({"machines": ["a"]}, "two machines or more"),
        (
            {"tolerance": 0.1, "bake_s": 600.0},
            "--bake 600s: with --tolerance 10%, nothing is shown by fewer than 159 windows of 10 s; give 1590s or more",
        ),
        ({"tolerance": 1.0, "bake_s": 500.0}, "nothing is shown by fewer than 52 windows"),
        ({"tolerance": 0.0}, "--tolerance: a policy cannot be shown to do no harm at all"),
    ],
)
def test_plans_that_cannot_be(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checked(fake_plan(2, [1, 2], **changes))
