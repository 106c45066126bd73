"""Rollouts on machines that are not there, from the first step to the last, and all that comes between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from damoos.rollouts.driver import POLL_S, Driver, Trouble
from damoos.rollouts.plan import Plan
from damoos.rollouts.rollout import Part, Rollout, State, describe
from damoos.testing.rollout_fleet import BEGIN_S, FakeFleet, Nature, fake_plan

LOOKS_S = 60.0  # nobody has to be as impatient as a driver of real machines


class Killed(BaseException):
    """The driver's process has ended."""


class Story:
    """A rollout, its fleet, and what the drivers have said."""

    def __init__(self, folder: Path, nature: Nature = Nature(), plan: Plan | None = None, seed: int = 0) -> None:  # noqa: B008
        self.rollout = Rollout.create(folder, plan or fake_plan(8, [1, 4, 8]))
        self.fleet = FakeFleet(self.rollout.plan, nature, seed)
        self.folder = folder
        self.told: list[str] = []
        self.most_s = 36_000.0

    def driver(self) -> Driver:
        self.rollout = Rollout(self.folder, self.rollout.name)
        return Driver(self.rollout, self.fleet, self.told.append, lambda: self.fleet.now_s)

    def drive(self, driver: Driver | None = None) -> State:
        driver = driver or self.driver()
        end_s = self.fleet.now_s + self.most_s
        while driver.advance():
            self.fleet.now_s += LOOKS_S
            assert self.fleet.now_s < end_s, self.told
        return self.rollout.progress.state

    def drive_until(self, words: str) -> None:
        driver = self.driver()
        while driver.advance() and not any(words in line for line in self.told):
            self.fleet.now_s += LOOKS_S
        assert any(words in line for line in self.told), self.told

    def on(self, part: Part = Part.POLICY) -> list[str]:
        return sorted(machine for machine, own in self.fleet.has.items() if part in own)


def test_a_good_policy_gets_onto_all_machines_step_by_step(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.drive_until("step 2 of 3")
    assert story.on() == story.rollout.plan.order[:1]
    plan = story.rollout.plan
    assert set(story.on(Part.WATCHED)) == {*plan.cohort(1), *plan.control(1)}
    assert story.drive() is State.DONE
    assert story.on() == sorted(story.rollout.plan.machines)
    assert story.on(Part.WATCHED) == []
    (last,) = [line for line in story.told if line.startswith("step 3 of 3: ") and "watched" in line]
    assert last.endswith(f"beside {', '.join(plan.order[:4])}, which have the policy already")
    (of_first, *_) = story.rollout.progress.findings
    saved = next(one for one in of_first if one["metric"] == "saving")
    assert saved["lower"] < 0.2 < saved["upper"]
    assert describe(story.rollout) == "rollout-1: s on unit:redis.service: 8 of 8 machines are to have it; done"


def test_a_policy_that_hurts_is_taken_back_in_the_first_step(tmp_path: Path) -> None:
    story = Story(tmp_path, Nature(pressure=0.05))
    assert story.drive() is State.UNDONE
    assert story.on() == story.on(Part.WATCHED) == []
    assert story.rollout.progress.step == 0
    assert story.rollout.progress.why.startswith("memory_pressure: broken: +0.0")
    with_policy = {machine for machine, part in story.fleet.past if part is Part.POLICY}
    assert with_policy == {story.rollout.plan.order[0]}


def test_a_policy_that_saves_nothing_is_taken_back(tmp_path: Path) -> None:
    story = Story(tmp_path, Nature(saving=-0.2))
    assert story.drive() is State.UNDONE
    assert story.rollout.progress.why.startswith("saving: broken: -")


def test_what_is_not_clear_is_held_until_somebody_says_how_it_goes_on(tmp_path: Path) -> None:
    story = Story(tmp_path, Nature(saving=0.002))
    assert story.drive() is State.HELD
    assert len(story.on()) == 1
    assert "'damoos resume rollout-1' watches as long again" in story.rollout.progress.why
    before_s = story.fleet.now_s
    assert story.drive() in (State.HELD, State.UNDONE, State.DONE)
    assert story.fleet.now_s >= before_s + story.rollout.plan.bake_s


def test_the_evening_s_load_is_not_the_policy_s(tmp_path: Path) -> None:
    story = Story(tmp_path, Nature(drift=0.5), fake_plan(8, [4, 8]))
    story.fleet.now_s = 86_400.0 * 10_000
    story.drive_until("step 2 of 2")
    (of_first, *_) = story.rollout.progress.findings
    saved = next(one for one in of_first if one["metric"] == "saving")
    assert saved["mean"] == pytest.approx(0.2, abs=0.02)


def test_without_data_nothing_goes_on(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first, second, third = story.rollout.plan.control(0)
    story.fleet.silent = {first, second}
    assert story.drive() is State.HELD
    why = story.rollout.progress.why
    assert why.startswith("no data")
    assert why.endswith(f"({first} has 0 of 26 windows, {second} has 0 of 26 windows)")
    assert story.on() == []
    story.fleet.silent = {first}
    story.drive_until("the policy goes on")
    story.fleet.silent = {first, second, third}
    assert story.drive() is State.UNDONE
    assert story.rollout.progress.why.startswith("no data: saving: nothing is known")


def test_a_machine_that_falls_silent_for_a_while_is_waited_for(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.drive_until("the policy goes on")
    (first,) = story.on()
    story.fleet.silent = {first}
    driver = story.driver()
    for _ in range(20):  # longer than the bake
        assert driver.advance()
        story.fleet.now_s += LOOKS_S
    story.fleet.silent = set()
    assert story.drive(driver) is State.DONE


def test_in_short_phases_keepers_are_given_the_time_to_reach_their_machines(tmp_path: Path) -> None:
    story = Story(tmp_path, plan=fake_plan(8, [1, 8], bake_s=520.0))
    first = story.rollout.plan.order[0]
    story.fleet.silent = {first}
    driver = story.driver()
    while story.fleet.now_s < BEGIN_S + 14 * 60:  # more than three times the 260 s of the phase
        assert driver.advance()
        story.fleet.now_s += LOOKS_S
    assert story.on() == []
    story.fleet.silent = set()
    story.drive_until(f"the policy goes on {first}")


def test_a_guard_that_takes_it_off_one_machine_takes_it_off_all(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.drive_until("step 2: the policy goes on")
    hurt = story.on()[0]
    story.fleet.ended[hurt] = Trouble(hurt, Part.POLICY, "its guard has taken it off")
    driver = story.driver()
    driver.advance()
    assert all(not own or machine == hurt for machine, own in story.fleet.has.items())  # at once
    assert story.drive(driver) is State.UNDONE
    assert story.rollout.progress.why == f"{hurt}: its guard has taken it off"


def test_an_admin_s_change_is_left_to_them_and_held(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.drive_until("step 2: the policy goes on")
    changed, *others = story.on()
    story.fleet.ended[changed] = Trouble(changed, Part.POLICY, "somebody else has changed it", stood_down=True)
    assert story.drive() is State.HELD
    assert set(others) <= set(story.on())
    assert story.drive() is State.DONE
    assert describe(story.rollout).startswith("rollout-1: s on unit:redis.service: 7 of 8 machines are to have it")


@pytest.mark.parametrize("words", ["step 1 of 3", "the policy goes on", "step 2 of 3", "done"])
def test_whoever_asks_gets_it_undone(tmp_path: Path, words: str) -> None:
    story = Story(tmp_path)
    story.drive_until(words)
    story.rollout.ask_for_undo()
    assert story.drive() is State.UNDONE
    assert story.on() == story.on(Part.WATCHED) == []


@pytest.mark.slow
def test_a_driver_may_be_killed_at_any_point(tmp_path: Path) -> None:
    """Before and after each thing that it writes down or tells a machine: each machine has one part or none."""
    nature, plan = Nature(memory_of_noise=0.0), fake_plan(8, [1, 4, 8], bake_s=600.0)  # which needs fewer windows
    whole = Story(tmp_path / "whole", nature, plan)
    assert whole.drive() is State.DONE
    points = 0
    while True:
        story = Story(tmp_path / str(points), nature, plan)
        countdown = [points]
        patched(story, countdown)
        try:
            story.drive()
        except Killed:
            assert all(len(own) <= 1 for own in story.fleet.has.values())
        else:
            break
        assert story.drive() is State.DONE, points
        assert story.on() == whole.on()
        assert all(len(own) == 1 for own in story.fleet.has.values())
        points += 1
    assert points > 40


def patched(story: Story, countdown: list[int]) -> None:
    """Kill the driver in place of the next of what it does to the world, once so many have been done."""
    settle, create = story.fleet._settle, Rollout.decide

    def counted(do: Any) -> Any:
        def done(*words: Any) -> Any:
            if countdown[0] == 0:
                countdown[0] = -1
                raise Killed
            countdown[0] -= countdown[0] > 0
            return do(*words)

        return done

    story.fleet._settle = counted(settle)  # type: ignore[method-assign]
    former = story.driver

    def driver() -> Driver:
        made = Rollout(story.folder, story.rollout.name)
        story.rollout = made
        made.decide = counted(lambda what: create(made, what))  # type: ignore[method-assign]
        return Driver(made, story.fleet, story.told.append, lambda: story.fleet.now_s)

    story.driver = driver if countdown[0] >= 0 else former  # type: ignore[method-assign]


def test_a_driver_looks_often_enough_to_undo_within_seconds() -> None:
    assert POLL_S <= 2.0
