"""The guard, window by window; readings are those of an agent."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from damoos.errors import ConfigError
from damoos.service.guard import GRACE_S, LEAST_WINDOWS, STUCK_WINDOWS, Action, Decision, Guard, Reason, parse
from damoos.service.staleness import GREATEST_AGE_S, GREATEST_REST_S


class Service:
    """Something in service whose pressure and latency are said by the test, in windows of 10 s."""

    def __init__(self, *limits: str) -> None:
        self.guard = Guard([parse(text, ["p99_ms"]) for text in limits], 10.0)
        self.now_s, self.some_us, self.paused = 0.0, 0.0, False
        self.add(self.reading(1.0))

    def reading(self, p99_ms: float | None, age_s: float | None = None) -> dict[str, Any]:
        return {
            "at_s": self.now_s,
            "is_group": True,
            "psi_us": {"some": self.some_us},
            "counters": {"pswpin": 100 * self.now_s},
            "metrics": {} if p99_ms is None else {"p99_ms": p99_ms},
            "ages_s": {} if age_s is None else {"p99_ms": age_s},
            "missing": {} if p99_ms is not None else {"p99_ms": "'curl' ended with 7"},
        }

    def add(self, reading: dict[str, Any]) -> Decision:
        decision = self.guard.add(reading, self.paused)
        if decision.action in (Action.PAUSE, Action.RESUME):
            self.paused = decision.action is Action.PAUSE
            self.guard.restart()
            self.guard.add(reading, self.paused)
        return decision

    def window(self, pressure: float = 0.0, p99_ms: float | None = 1.0, age_s: float | None = None) -> Decision:
        """Five readings, 2 s apart."""
        for _ in range(5):
            self.now_s += 2
            self.some_us += pressure * 2e6
            decision = self.add(self.reading(p99_ms, age_s))
        return decision

    def whole_window(self, p99_ms: float) -> Decision:
        """One reading at its end."""
        self.now_s += 10
        return self.add(self.reading(p99_ms))

    def windows(self, number: int, **values: float | None) -> list[Decision]:
        """What was asked for in so many windows."""
        decisions = [self.window(**values) for _ in range(number)]  # type: ignore[arg-type]
        return [one for one in decisions if one.action is not Action.NONE]


def test_a_kept_limit_is_let_alone() -> None:
    service = Service("memory_pressure<=1%", "swap_ins_per_s<=101")
    assert {service.window(0.005).action for _ in range(500)} == {Action.NONE}
    assert service.guard.values == {"memory_pressure": pytest.approx(0.005), "swap_ins_per_s": pytest.approx(100)}


def test_windows_that_differ_around_a_mean_within_the_limit_are_let_alone() -> None:
    service = Service("memory_pressure<=1%")
    assert {service.window(pressure).action for _ in range(100) for pressure in (0.002, 0.015)} == {Action.NONE}


def test_a_window_far_beyond_pauses_and_one_in_each_time_in_force_ends_it() -> None:
    """A policy that hurts whenever it is in force: paused at once each time, for twice as long, and then taken off."""
    service = Service("memory_pressure<=1%")
    paused = service.window(0.3)
    assert paused == Decision(
        Action.PAUSE, Reason.FAR, "memory_pressure is 0.3 in a window of 10 s, limit memory_pressure<=1%"
    )
    for calm in (3, 6):
        assert service.windows(calm - 1) == []
        assert service.window().action is Action.RESUME
        assert service.window(0.3).action is Action.PAUSE
    assert service.windows(11) == []
    assert service.window().action is Action.RESUME
    ended = service.window(0.3)
    assert (ended.action, ended.reason) == (Action.UNDO, Reason.FAR_AGAIN)
    assert "3 of the last 3 windows in force were far beyond it, and 0 of 21 while the policy was paused" in ended.why


def test_bursts_that_come_without_the_policy_too_do_not_take_it_off() -> None:
    """Six hours of a service whose windows are ten times as large in 5 % of them, at 80 % of its limit."""
    kept = 0
    for seed in range(5):
        service, random = Service("p99_ms<=1.8"), np.random.default_rng(seed)
        values = random.normal(1, 0.1, 2160) * np.where(random.random(2160) < 0.05, 10, 1)
        kept += all(service.whole_window(value).action is not Action.UNDO for value in values)
    assert kept == 5


def test_a_burst_that_goes_on_while_the_policy_is_paused_does_not_take_it_off() -> None:
    service = Service("memory_pressure<=1%")
    assert service.window(0.3).action is Action.PAUSE
    assert service.windows(20, pressure=0.3) == []
    assert [one.action for one in service.windows(3)] == [Action.RESUME]


def test_after_an_hour_it_is_paused_as_for_the_first_time() -> None:
    service = Service("memory_pressure<=1%")
    for _ in range(4):
        assert service.window(0.3).action is Action.PAUSE
        assert [one.action for one in service.windows(3)] == [Action.RESUME]
        assert service.windows(360) == []


def test_a_mean_beyond_the_limit_ends_it() -> None:
    service = Service("memory_pressure<=1%")
    ended = next(one for _ in range(99) for p in (0.014, 0.016) if (one := service.window(p)).action is Action.UNDO)
    assert ended.reason is Reason.MEAN
    assert ended.why == "the mean of memory_pressure in 120 windows is 0.015, shown to break memory_pressure<=1%"


def test_a_load_that_is_high_for_some_minutes_is_not_taken_for_harm() -> None:
    service, random = Service("p99_ms<=1"), np.random.default_rng(1)
    for high in 6 * (True, False):
        for value in random.normal(1.2 if high else 0.4, 0.05, 30):
            assert service.whole_window(float(value)).action is Action.NONE


def test_a_mean_below_a_lower_limit_ends_it() -> None:
    service = Service("p99_ms>=20")
    (ended,) = service.windows(LEAST_WINDOWS, p99_ms=15.0)
    assert (ended.action, ended.reason) == (Action.UNDO, Reason.MEAN)
    assert ended.why == "the mean of p99_ms in 120 windows is 15, shown to break p99_ms>=20"


def test_a_limit_that_is_broken_without_the_policy_ends_it_and_says_so() -> None:
    service = Service("memory_pressure<=1%")
    assert service.window(0.3).action is Action.PAUSE
    (ended,) = service.windows(3 + STUCK_WINDOWS, pressure=0.3)
    assert (ended.action, ended.reason) == (Action.UNDO, Reason.STUCK)
    assert "while the policy is paused, so it may not be the policy's doing" in ended.why


def test_an_exporter_that_is_restarted_pauses_the_policy_and_it_goes_on() -> None:
    service = Service("p99_ms<=20")
    assert service.windows(10) == []
    assert service.window(p99_ms=None) == Decision(
        Action.PAUSE, Reason.NO_DATA, "no data for p99_ms: 'curl' ended with 7"
    )
    assert service.windows(8, p99_ms=None) == []
    assert [one.action for one in service.windows(3)] == [Action.RESUME]
    assert service.windows(10) == []
    assert service.window(p99_ms=None).action is Action.PAUSE


def test_what_does_not_come_back_ends_it_after_a_while() -> None:
    service = Service("p99_ms<=20")
    decisions = service.windows(1 + round(GRACE_S / 10), p99_ms=None)
    assert [(one.action, one.reason) for one in decisions] == [
        (Action.PAUSE, Reason.NO_DATA), (Action.UNDO, Reason.NO_DATA)
    ]  # fmt: skip
    assert decisions[1].why == "no data for p99_ms: 'curl' ended with 7, for 130 s"


def test_what_is_only_watched_waits_for_a_value_too() -> None:
    service = Service("p99_ms<=20")
    service.guard = Guard(service.guard.limits, 10.0, judges=False)
    service.add(service.reading(1.0))
    assert [one.action for one in service.windows(1 + round(GRACE_S / 10), p99_ms=None)] == [Action.UNDO]


def test_what_its_source_has_not_told_anew_for_long_is_no_data() -> None:
    service = Service("p99_ms<=20")
    assert service.windows(10, p99_ms=1.0, age_s=GREATEST_AGE_S) == []
    paused = service.window(p99_ms=1.0, age_s=GREATEST_AGE_S + 1)
    assert paused == Decision(
        Action.PAUSE, Reason.STALE, "stale data for p99_ms: its source has told nothing new for 301 s"
    )
    assert [one.action for one in service.windows(3, age_s=1.0)] == [Action.RESUME]


def test_a_measured_number_that_never_changes_again_is_stale() -> None:
    service = Service("p99_ms<=20")
    for nth in range(20):
        assert service.window(p99_ms=1.25 + nth / 64).action is Action.NONE
    paused = service.windows(round(GREATEST_REST_S / 10) + 2, p99_ms=1.625)
    assert [(one.action, one.reason) for one in paused] == [(Action.PAUSE, Reason.STALE)]
    assert paused[0].why.startswith("stale data for p99_ms: it has been 1.625 to the last digit for 36")


@pytest.mark.parametrize(("before", "after"), [((0.0,), 0.0), ((0.5,), 0.5), (tuple(range(20)), 3.0)])
def test_a_count_that_stays_the_same_is_not_stale(before: tuple[float, ...], after: float) -> None:
    """Nor is a number that has never changed: it may be the setting of something."""
    service = Service("p99_ms<=20")
    assert {service.window(p99_ms=value).action for value in before} == {Action.NONE}
    assert service.windows(2 * round(GREATEST_REST_S / 10), p99_ms=after) == []


def test_what_the_kernel_does_not_tell_ends_it_at_once() -> None:
    service = Service("io_pressure<=1%")
    assert service.window() == Decision(
        Action.UNDO, Reason.NOT_TOLD, "no data for io_pressure: this kernel does not tell it"
    )


@pytest.mark.parametrize(
    ("limit", "reading", "why"),
    [
        ("memory_pressure<=1%", {"psi_us": {}}, "PSI is off on this machine; boot it with psi=1"),
        ("refaults_per_s<=1", {"is_group": False}, "the kernel tells it of a cgroup only, and the processes share"),
    ],
)
def test_why_something_cannot_be_watched(limit: str, reading: dict[str, Any], why: str) -> None:
    guard = Guard([parse(limit)], 10.0)
    told = {
        "is_group": True,
        "psi_us": {"some": 0},
        "counters": {},
        "metrics": {},
        "ages_s": {},
        "missing": {},
        **reading,
    }
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
    assert ended == Decision(Action.UNDO, Reason.CLOCK, "the machine's clock has not gone on by 10 s in 1000 s")


def test_a_keeper_that_was_asleep_sees_no_clock_that_stands_still() -> None:
    now_s = itertools.chain([0.0, 0.0], itertools.count(1e6, step=2.0))
    guard = Guard([parse("p99_ms<=20", ["p99_ms"])], 10.0, clock=lambda: next(now_s))
    reading = Service().reading(1.0)
    assert {guard.add({**reading, "at_s": at_s}, False).action for at_s in np.arange(0, 100, 2.0)} == {Action.NONE}
