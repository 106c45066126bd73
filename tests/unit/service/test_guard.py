"""The guard, window by window; readings are those of an agent."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from damoos.errors import ConfigError
from damoos.service.guard import Action, Decision, Guard, parse


class Service:
    """Something in service whose pressure and latency are said by the test, in windows of 10 s."""

    def __init__(self, *limits: str) -> None:
        self.guard = Guard([parse(text, ["p99_ms"]) for text in limits], 10.0)
        self.now_s, self.some_us, self.paused = 0.0, 0.0, False
        self.add(self.reading(1.0))

    def reading(self, p99_ms: float | None) -> dict[str, Any]:
        return {
            "at_s": self.now_s,
            "is_group": True,
            "psi_us": {"some": self.some_us},
            "counters": {"pswpin": 100 * self.now_s},
            "metrics": {} if p99_ms is None else {"p99_ms": p99_ms},
            "missing": {} if p99_ms is not None else {"p99_ms": "'curl' ended with 7"},
        }

    def add(self, reading: dict[str, Any]) -> Decision:
        decision = self.guard.add(reading, self.paused)
        if decision.action in (Action.PAUSE, Action.RESUME):
            self.paused = decision.action is Action.PAUSE
            self.guard.restart()
            self.guard.add(reading, self.paused)
        return decision

    def window(self, pressure: float = 0.0, p99_ms: float | None = 1.0) -> Decision:
        """Five readings, 2 s apart."""
        for _ in range(5):
            self.now_s += 2
            self.some_us += pressure * 2e6
            decision = self.add(self.reading(p99_ms))
        return decision


def test_a_kept_limit_is_let_alone() -> None:
    service = Service("memory_pressure<=1%", "swap_ins_per_s<=101")
    assert {service.window(0.005).action for _ in range(500)} == {Action.NONE}
    assert service.guard.values == {"memory_pressure": pytest.approx(0.005), "swap_ins_per_s": pytest.approx(100)}


def test_windows_that_differ_around_a_mean_within_the_limit_are_let_alone() -> None:
    service = Service("memory_pressure<=1%")
    assert {service.window(pressure).action for _ in range(100) for pressure in (0.002, 0.015)} == {Action.NONE}


def test_a_window_far_beyond_pauses_and_the_next_one_within_an_hour_ends_it() -> None:
    service = Service("memory_pressure<=1%")
    paused = service.window(0.3)
    assert paused.action is Action.PAUSE
    assert paused.why == "memory_pressure is 0.3 in a window of 10 s, limit memory_pressure<=1%"
    assert [service.window().action for _ in range(3)] == [Action.NONE, Action.NONE, Action.RESUME]
    assert service.window().action is Action.NONE
    ended = service.window(0.3)
    assert ended.action is Action.UNDO
    assert ended.why.endswith("again within an hour")


def test_after_an_hour_it_may_be_paused_once_more() -> None:
    service = Service("memory_pressure<=1%")
    assert service.window(0.3).action is Action.PAUSE
    assert [service.window().action for _ in range(3)][-1] is Action.RESUME
    assert {service.window().action for _ in range(360)} == {Action.NONE}
    assert service.window(0.3).action is Action.PAUSE


def test_a_mean_beyond_the_limit_ends_it() -> None:
    service = Service("memory_pressure<=1%")
    actions = [service.window(pressure) for pressure in (0.014, 0.016) * 4]
    assert [one.action for one in actions] == [Action.NONE] * 7 + [Action.UNDO]
    assert actions[7].why == "the mean of memory_pressure in 8 windows is 0.015, shown to break memory_pressure<=1%"


def test_a_limit_that_is_broken_without_the_policy_ends_it_and_says_so() -> None:
    service = Service("memory_pressure<=1%")
    assert service.window(0.3).action is Action.PAUSE
    actions = [service.window(0.3) for _ in range(3)]
    assert [one.action for one in actions] == [Action.NONE, Action.NONE, Action.UNDO]
    assert "while the policy is paused, so it may not be the policy's doing" in actions[-1].why


def test_what_cannot_be_read_ends_it() -> None:
    service = Service("p99_ms<=20")
    assert service.window(p99_ms=None) == Decision(Action.UNDO, "no data for p99_ms: 'curl' ended with 7")
    service = Service("io_pressure<=1%")
    assert service.window() == Decision(Action.UNDO, "no data for io_pressure: this kernel does not tell it")


@pytest.mark.parametrize(
    ("limit", "reading", "why"),
    [
        ("memory_pressure<=1%", {"psi_us": {}}, "PSI is off on this machine; boot it with psi=1"),
        ("refaults_per_s<=1", {"is_group": False}, "the kernel tells it of a cgroup only, and the processes share"),
    ],
)
def test_why_something_cannot_be_watched(limit: str, reading: dict[str, Any], why: str) -> None:
    guard = Guard([parse(limit)], 10.0)
    told = {"is_group": True, "psi_us": {"some": 0}, "counters": {}, "metrics": {}, "missing": {}, **reading}
    guard.add({**told, "at_s": 0.0}, False)
    decision = guard.add({**told, "at_s": 10.0}, False)
    assert decision.action is Action.UNDO
    assert why in decision.why


def test_a_probe_that_fails_once_in_a_window_is_no_lack_of_data() -> None:
    service = Service("p99_ms<=20")
    service.now_s += 2
    service.add(service.reading(None))
    assert service.window(p99_ms=7.0).action is Action.NONE
    assert service.guard.values == {"p99_ms": 7.0}


def test_a_lower_limit() -> None:
    service = Service("p99_ms>=20")
    assert service.window(p99_ms=30.0).action is Action.NONE
    assert service.window(p99_ms=9.0).action is Action.PAUSE


def test_a_limit_of_zero() -> None:
    service = Service("memory_pressure<=0")
    assert service.window().action is Action.NONE
    assert service.window(0.001).action is Action.PAUSE


def test_other_processes_begin_a_new_window() -> None:
    """Their counters begin anew, and a difference to those of others means nothing."""
    service = Service("memory_pressure<=1%")
    service.window()
    service.now_s += 5
    service.add({**service.reading(1.0), "is_group": False, "psi_us": {"some": 1e9}})
    service.now_s += 6
    assert service.add({**service.reading(1.0), "is_group": False, "psi_us": {"some": 1e9}}).action is Action.NONE
    service.now_s += 5
    service.add({**service.reading(1.0), "is_group": False, "psi_us": {"some": 1e9}})
    assert service.guard.values["memory_pressure"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory_pressure", "--guard 'memory_pressure': write NAME<=NUMBER"),
        (
            "memory_presure<=1%",
            "--guard 'memory_presure<=1%': 'memory_presure' is not watched in service; did you",
        ),
        ("slowdown<=0.05", "'slowdown' is not watched in service"),
        ("p99_ms<=1.2x", "in service there is no baseline; write a plain number"),
        ("p99_ms<=20 every", "in service there is no baseline"),
    ],
)
def test_limits_that_cannot_be_watched(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, ["p99_ms"])
    assert message in str(caught.value)


def test_a_machine_whose_clock_stands_still_is_not_watched_for_ever() -> None:
    """Its window would never end, and nothing of all its readings is kept meanwhile."""
    now_s = itertools.count(step=2.0)
    guard = Guard([parse("p99_ms<=20", ["p99_ms"])], 10.0, clock=lambda: next(now_s))
    reading = Service().reading(1.0)
    decisions = (guard.add(reading, False) for _ in range(1000))
    ended = next(one for one in decisions if one.action is not Action.NONE)
    assert ended == Decision(Action.UNDO, "the machine's clock has not gone on by 10 s in 1000 s")


def test_a_keeper_that_was_asleep_sees_no_clock_that_stands_still() -> None:
    now_s = itertools.chain([0.0, 0.0], itertools.count(1e6, step=2.0))
    guard = Guard([parse("p99_ms<=20", ["p99_ms"])], 10.0, clock=lambda: next(now_s))
    reading = Service().reading(1.0)
    assert {guard.add({**reading, "at_s": at_s}, False).action for at_s in np.arange(0, 100, 2.0)} == {Action.NONE}
