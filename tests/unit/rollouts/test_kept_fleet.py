"""What a rollout has in the journals of its machines."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from damoos.cli import app
from damoos.errors import ConfigError, MachineError, StoreError
from damoos.rollouts import conduct
from damoos.rollouts import driver as of_driver
from damoos.rollouts.driver import Driver, not_off
from damoos.rollouts.effect import Effect
from damoos.rollouts.judge import Finding, Standing
from damoos.rollouts.kept_fleet import KeptFleet
from damoos.rollouts.overview import hosts, without
from damoos.rollouts.rollout import Part, Phase, Rollout, State, describe
from damoos.service import keeper
from damoos.service.journal import Journal
from damoos.service.liveness import KeeperFile
from damoos.service.windows import Windows
from damoos.testing.rollout_fleet import fake_plan, spec


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Machines whose keepers were woken, and whether they were to be started."""
    found: list[tuple[str, bool]] = []
    monkeypatch.setattr(keeper, "wake", lambda journal, start=True: found.append((journal.folder.name, start)))
    return found


@pytest.fixture
def fleet(tmp_path: Path, woken: Any) -> KeptFleet:
    return KeptFleet(fake_plan(2, [1, 2], spec=spec(results=str(tmp_path))))


def test_a_machine_has_one_part_at_a_time(fleet: KeptFleet, tmp_path: Path, woken: list[tuple[str, bool]]) -> None:
    journal = Journal.of(tmp_path, "m0")
    fleet.settle({"m0": Part.WATCHED})
    watched = journal.wanted()["redis-m0-watched"]
    assert (watched["arm"], watched["machine"], watched["confirmed"]) == ("none", "m0", True)
    fleet.settle({"m0": Part.POLICY})
    assert journal.wanted().keys() == {"redis-m0"}
    assert journal.wanted()["redis-m0"]["arm"] == "tuned"
    since_s = journal.wanted()["redis-m0"]["wanted_s"]
    fleet.settle({"m0": Part.POLICY})
    assert journal.wanted()["redis-m0"]["wanted_s"] == since_s
    fleet.settle({"m0": None})
    assert journal.wanted() == {}
    assert woken == [("m0", True)] * 3 + [("m0", False)]


def test_a_machine_that_cannot_be_told_holds_the_rollout_and_keeps_no_other_from_it(tmp_path: Path, woken: Any) -> None:
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "m1").touch()
    plan = fake_plan(3, [1, 3], spec=spec(results=str(tmp_path)))
    fleet, lines = KeptFleet(plan), list[str]()
    with pytest.raises(MachineError, match="m1 is not a folder; remove it"):
        fleet.begin()
    driver = Driver(Rollout.create(tmp_path, plan), fleet, lines.append)
    assert not driver.advance()
    assert lines[-1] == f"held: m1: {tmp_path}/service/m1 is not a folder; remove it"
    assert [machine for machine in ("m0", "m2") if Journal.of(tmp_path, machine).wanted()] == ["m0", "m2"]
    (tmp_path / "service" / "m1").unlink()
    fleet.settle({"m1": Part.WATCHED})
    assert fleet.unreachable() == {}


def test_machines_that_would_share_a_name_or_a_folder_are_refused(tmp_path: Path, woken: Any) -> None:
    plan = fake_plan(2, [1, 2], spec=spec(results=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"'/b/web1.toml' and '/a/web1.toml' would both be in service as"):
        KeptFleet(replace(plan, machines=["/a/web1.toml", "/b/web1.toml"])).begin()
    Journal.of(tmp_path, "m_0").want("redis", spec(machine="m_0"))
    fleet = KeptFleet(replace(plan, machines=["m-0", "m1"]))
    with pytest.raises(ConfigError, match=r"machine 'm-0' cannot have .* of machine 'm_0'"):
        fleet.begin()
    fleet.settle({"m-0": Part.POLICY, "m1": Part.POLICY})
    assert fleet.unreachable().keys() == {"m-0"}
    assert Journal.of(tmp_path, "m1").wanted().keys() == {"redis-m1"}


def test_what_has_failed_is_told_and_not_begun_again(fleet: KeptFleet, tmp_path: Path) -> None:
    fleet.settle({"m0": Part.POLICY})
    journal = Journal.of(tmp_path, "m0")
    journal.forget("redis-m0")
    journal.tell("redis-m0", {"failed": "somebody else has changed it", "stood_down": True})
    (trouble,) = fleet.troubles()
    assert (trouble.machine, trouble.part, trouble.stood_down) == ("m0", Part.POLICY, True)
    fleet.settle({"m0": Part.POLICY})
    assert journal.wanted() == {}
    assert fleet.remaining() == []
    fleet.settle({"m0": None})
    assert list(fleet.troubles()) == []


def test_a_keeper_that_was_killed_is_started_again(
    fleet: KeptFleet, tmp_path: Path, woken: list[tuple[str, bool]]
) -> None:
    fleet.settle({"m0": Part.POLICY})
    Journal.of(tmp_path, "m0").tell("redis-m0", {"in_force": True})
    woken.clear()
    assert list(fleet.troubles()) == []
    assert woken == [("m0", True)]


def test_a_machine_without_a_keeper_has_nothing_any_more(fleet: KeptFleet, tmp_path: Path) -> None:
    Journal.of(tmp_path, "m1").tell("redis-m1", {"in_force": False, "out_of_reach": "no route to host"})
    assert fleet.remaining() == []
    assert Journal.of(tmp_path, "m1").states() == {}


def test_what_a_killed_keeper_has_left_is_taken_off_by_another_one(
    fleet: KeptFleet, tmp_path: Path, woken: list[tuple[str, bool]]
) -> None:
    """Its machine may have it in force: only a keeper that has the machine can say that it has not."""
    journal, file = Journal.of(tmp_path, "m0"), KeeperFile(tmp_path / "service" / "m0")
    fleet.settle({"m0": Part.POLICY})
    assert file.take()
    file.looked(has_machine=True)
    file.leave()
    fleet.settle({"m0": None})
    woken.clear()
    assert fleet.remaining() == ["m0"]
    assert woken == [("m0", True)]
    assert journal.stopping().keys() == {"redis-m0"}
    journal.stopped("redis-m0")
    assert fleet.remaining() == []


def test_windows_before_are_those_without_the_policy(fleet: KeptFleet, tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "m0")
    for at_s in (50, 110, 190, 210):
        journal.add_window("redis-m0-watched", {"at_s": at_s})
    for at_s in (205, 215):
        journal.add_window("redis-m0", {"at_s": at_s})
    with open(journal.folder / "redis-m0.windows", "a") as file:
        file.write('{"at_s": 22')  # half a line, of a keeper that is writing

    def times(part: Part, baking_s: float) -> tuple[list[float], list[float]]:
        (track,) = fleet.tracks(["m0"], part, 100, baking_s)
        return [one["at_s"] for one in track.before], [one["at_s"] for one in track.after]

    assert times(Part.WATCHED, 0) == ([110, 190, 210], [])
    assert times(Part.POLICY, 200) == ([110, 190], [205, 215])
    assert times(Part.WATCHED, 200) == ([110, 190], [210])


def test_a_machine_of_an_earlier_step_has_the_policy_before_and_after(fleet: KeptFleet, tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "m0")
    for at_s in (50, 110, 190, 205):
        journal.add_window("redis-m0", {"at_s": at_s})
    (track,) = fleet.tracks(["m0"], Part.POLICY, 100, 200)
    assert [one["at_s"] for one in track.before] == [110, 190]
    assert [one["at_s"] for one in track.after] == [205]


def test_old_windows_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.service.journal.MOST_BYTES_OF_WINDOWS", 1000)
    journal = Journal(tmp_path)
    for at_s in range(500):
        journal.add_window("redis", {"at_s": at_s})
    kept = [one["at_s"] for one in journal.windows("redis")]
    assert kept == list(range(500 - len(kept), 500))
    assert 60 < len(kept) < 200
    assert len(list(tmp_path.iterdir())) == 2


def test_whoever_looks_again_sees_each_window_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the file has made room for a new one meanwhile, and when a line is half written."""
    monkeypatch.setattr("damoos.service.journal.MOST_BYTES_OF_WINDOWS", 200)
    journal = Journal.of(tmp_path, "m0")
    looked, seen = Windows(journal.folder, "redis"), []
    for nth in range(40):
        journal.add_window("redis", {"at_s": nth, "watched": {}})
        if nth % 7 == 0:
            seen.append([one["at_s"] for one in looked.read()])
    assert seen[-1] == list(range(36))
    with open(journal.folder / "redis.windows", "a") as file:
        file.write('{"at_s": 40')
    assert [one["at_s"] for one in looked.read()] == list(range(40))
    with open(journal.folder / "redis.windows", "a") as file:
        file.write(', "watched": {}}\n')
    assert [one["at_s"] for one in looked.read()] == list(range(41))
    assert [one["at_s"] for one in looked.read()] == list(range(41))


def test_a_machine_that_could_not_be_told_to_stop_has_the_policy(
    fleet: KeptFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.settle({"m0": Part.POLICY, "m1": Part.POLICY})

    def broken(journal: Journal, name: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(journal.folder))

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "stop", broken)
        fleet.settle({"m0": None, "m1": None})
    assert fleet.remaining() == ["m0", "m1"]
    assert not_off(fleet) == {name: f"{tmp_path}/service/{name}: Input/output error" for name in ("m0", "m1")}
    fleet.settle({"m0": None, "m1": None})
    assert not_off(fleet) == {}
    monkeypatch.setattr(Journal, "states", lambda journal: broken(journal, ""))
    assert (list(fleet.troubles()), fleet.remaining(), fleet.unreachable().keys()) == ([], [], {"m0", "m1"})


@pytest.mark.parametrize("words", [["--all"], ["redis-m0"]])
def test_what_a_driver_puts_on_again_is_not_called_stopped(tmp_path: Path, woken: Any, words: list[str]) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2], spec=spec(results=str(tmp_path))))
    KeptFleet(rollout.plan).settle({"m0": Part.POLICY})
    Journal.of(tmp_path, "there").want("nginx", spec(machine="there"))
    with rollout.driving():
        done = CliRunner().invoke(app, ["stop", *words, "--results", str(tmp_path)])
        text = f"{done.stderr}{done.exception}"
        assert "'redis-m0' is off now, and 'rollout-1', which is being driven, may put it on again" in text
        assert "redis-m0" not in done.stdout
        assert Journal.of(tmp_path, "m0").wanted() == {}
        if words == ["--all"]:
            assert done.exit_code == 3
            assert "stopped: nginx" in done.stdout
        else:
            assert isinstance(done.exception, MachineError)
    KeptFleet(rollout.plan).settle({"m0": Part.POLICY})
    done = CliRunner().invoke(app, ["stop", *words, "--results", str(tmp_path)])
    assert "stopped: redis-m0" in done.stdout


def test_an_undo_does_not_call_off_what_a_machine_has_not_confirmed(
    tmp_path: Path, woken: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keeper hangs; once it has gone on, the next 'damoos stop' has waited for it."""
    monkeypatch.setattr(of_driver, "UNDO_S", 0.0)
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2], spec=spec(results=str(tmp_path))))
    rollout.progress = replace(rollout.progress, phase=Phase.BAKE, begun_s=1.0, baking_s=2.0, findings=[[]])
    rollout.save()
    journal = Journal.of(tmp_path, "m0")
    journal.want("redis-m0", {**spec(machine="m0"), "confirmed": True})
    assert journal.take()
    words = ["stop", "rollout-1", "--results", str(tmp_path)]
    for _ in range(2):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, MachineError)
        assert str(done.exception).startswith("rollout-1 may still be in force on 1 of its machines: m0: its keeper")
        assert "the policy is off all machines but m0 (m0: its keeper has not confirmed that it is off)" in done.stderr
        told = CliRunner().invoke(app, ["status", "rollout-1", "--results", str(tmp_path)]).stdout
        assert "may be in force on 1 of 2 machines (m0: its keeper has not confirmed that it is off); undoing" in told
        assert told == done.stdout
        assert Rollout(tmp_path, "rollout-1").progress.not_off.keys() == {"m0"}
        states = {host.machine: host.state for host in hosts(Rollout(tmp_path, "rollout-1"))}
        assert states == {"m0": "may be in force: its keeper has not confirmed that it is off", "m1": "has nothing"}
    monkeypatch.setattr(of_driver, "UNDO_S", 600.0)
    monkeypatch.setattr(conduct, "drive", lambda driver, wait: (journal.stopped("redis-m0"), driver.advance()))
    assert CliRunner().invoke(app, words).exception is None
    assert describe(Rollout(tmp_path, "rollout-1")).endswith(
        "0 of 2 machines are to have it; undone: somebody has asked for it"
    )
    journal.leave()


@pytest.fixture
def baking(tmp_path: Path, woken: Any) -> Rollout:
    """A rollout whose three machines have the policy by now, and whose keepers do what they are told at once."""
    rollout = Rollout.create(tmp_path, fake_plan(3, [1, 3], spec=spec(results=str(tmp_path))))
    rollout.progress = replace(
        rollout.progress, step=1, phase=Phase.BAKE, begun_s=1.0, baking_s=2.0, until_s=1e11, findings=[[], []]
    )
    rollout.save()
    KeptFleet(rollout.plan).settle(dict.fromkeys(rollout.plan.machines, Part.POLICY))
    return rollout


def wanted(rollout: Rollout) -> list[str]:
    journals = [Journal.of(rollout.results, machine) for machine in rollout.plan.machines]
    return [name for journal in journals for name in journal.wanted()]


@pytest.mark.parametrize("ending", ["json", "stopping"])
def test_an_undo_does_not_call_off_what_it_cannot_read(baking: Rollout, tmp_path: Path, ending: str) -> None:
    folder = Journal.of(tmp_path, "m1").folder
    if ending == "stopping":
        Journal.of(tmp_path, "m1").stop("redis-m1")
    file = folder / f"redis-m1.{ending}"
    file.rename(folder / "good")
    file.symlink_to("/proc/self/mem")  # which gives EIO, as a bad sector does
    words = ["stop", "rollout-1", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, MachineError)
    assert str(done.exception).startswith("rollout-1 may still be in force on 1 of its machines: m1: 'redis-m1' may be")
    assert "the policy is off all machines but m1 (m1: " in (baking.artifacts.path / "audit.log").read_text()
    (folder / "good").rename(file)
    assert CliRunner().invoke(app, words).exception is None
    assert wanted(baking) == []


def test_a_machine_that_could_not_be_told_is_told_again(
    baking: Rollout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails for a moment."""
    stop, failed = Journal.stop, list[str]()

    def broken(journal: Journal, name: str) -> None:
        if name == "redis-m1" and not failed:
            failed.append(name)
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(journal.folder))
        stop(journal, name)

    monkeypatch.setattr(Journal, "stop", broken)
    assert CliRunner().invoke(app, ["stop", "rollout-1", "--results", str(tmp_path)]).exception is None
    assert (failed, wanted(baking)) == (["redis-m1"], [])


class Killed(BaseException):
    """The driver's process has ended."""


@pytest.mark.parametrize(
    "how", [Killed(), StoreError("progress.json: No space left on device")], ids=["killed", "full"]
)
def test_why_a_rollout_is_undone_is_not_forgotten_before_it_is_written_down(
    baking: Rollout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: BaseException
) -> None:
    """A guard has acted on one machine: else the next driver would put the policy on all of them again."""
    journal = Journal.of(tmp_path, "m1")
    journal.forget("redis-m1")
    journal.tell("redis-m1", {"failed": "its guard has taken it off: memory_pressure is 40%", "machine": "m1"})

    def ended(*_: object, **__: object) -> None:
        raise how

    with monkeypatch.context() as patched:
        patched.setattr(Rollout, "save", ended)
        with pytest.raises(type(how)):
            conduct.run(Rollout(tmp_path, "rollout-1"), print)
    assert "failed" in journal.states()["redis-m1"]
    assert how.__class__ is Killed or wanted(baking) == [], "a full disk does not keep it on"
    put_on: list[str] = []
    monkeypatch.setattr(Journal, "want", lambda journal, name, spec: put_on.append(name))
    assert conduct_undone(tmp_path) is State.UNDONE
    assert (wanted(baking), put_on, journal.states()) == ([], [], {})


def conduct_undone(results: Path) -> State:
    """How a rollout ends that nobody has asked to undo."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(of_driver, "UNDO_S", 0.0)
        return conduct.run(Rollout(results, "rollout-1"), print, lambda _: None)


def test_a_decision_is_on_the_disk_before_anything_is_done_about_it(
    baking: Rollout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync, settle = os.fsync, KeptFleet.settle

    def noted(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    def settled(fleet: KeptFleet, parts: Any) -> None:
        path = str(baking.artifacts.path)
        assert any("progress.json" in name for name in synced)
        assert synced[synced.index(next(name for name in synced if "progress.json" in name)) + 1] == path
        settle(fleet, parts)

    baking.ask_for_undo()
    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(KeptFleet, "settle", settled)
    assert conduct_undone(tmp_path) is State.UNDONE


def test_a_driver_that_hangs_is_named_and_not_waited_for_without_end(baking: Rollout, tmp_path: Path) -> None:
    waited_s: list[float] = []
    told: list[str] = []
    with Rollout(tmp_path, "rollout-1").driving(), pytest.raises(MachineError) as refusal:
        conduct.undo(Rollout(tmp_path, "rollout-1"), told.append, waited_s.append)
    assert told == [f"process {os.getpid()} drives it, and is to undo it"]
    assert sum(waited_s) == conduct.HELD_S
    assert f"may still be in force: process {os.getpid()} drives it, and has not gone on" in str(refusal.value)
    assert "end that process on the computer on which it runs, and run 'damoos stop rollout-1'" in str(refusal.value)
    assert conduct.undo(Rollout(tmp_path, "rollout-1"), told.append) is State.UNDONE


def test_a_new_driver_is_waited_for_as_long_again(
    baking: Rollout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_s: list[float] = []
    monkeypatch.setattr(Rollout, "driver", lambda rollout: "process 1" if len(waited_s) < 9 else "process 2")
    with Rollout(tmp_path, "rollout-1").driving(), pytest.raises(MachineError, match="process 2 drives it"):
        conduct.undo(Rollout(tmp_path, "rollout-1"), print, waited_s.append)
    assert sum(waited_s) == conduct.HELD_S + 9 * of_driver.POLL_S


def test_a_driver_that_undoes_it_is_waited_for(baking: Rollout, tmp_path: Path) -> None:
    waits = 0

    def wait(_: float) -> None:
        nonlocal waits
        waits += 1
        if waits in (50, 100):
            driving.progress.state = State.UNDOING if waits == 50 else State.UNDONE
            driving.save()
        if waits == 150:
            held.close()

    driving, held = Rollout(tmp_path, "rollout-1"), contextlib.ExitStack()
    held.enter_context(driving.driving())
    assert conduct.undo(Rollout(tmp_path, "rollout-1"), print, wait) is State.UNDONE
    assert waits == 150


@pytest.mark.parametrize(
    "state",
    [
        {"failed": "its guard has taken it off", "unconfirmed": "the agent could not undo: swap"},
        {"in_force": True, "on_exit": "keep"},
    ],
    ids=["could not be undone", "left by a keeper"],
)
def test_a_new_rollout_does_not_forget_what_may_be_in_force_by_its_names(
    fleet: KeptFleet, tmp_path: Path, state: dict[str, Any]
) -> None:
    first, second = Journal.of(tmp_path, "m0"), Journal.of(tmp_path, "m1")
    first.tell("redis-m0", {"failed": "its guard has taken it off"})
    second.tell("redis-m1", {"machine": "m1", **state})
    with pytest.raises(ConfigError, match="'redis-m1' is in service already"):
        fleet.begin()
    assert (first.states().keys(), second.states().keys()) == ({"redis-m0"}, {"redis-m1"})
    second.tell("redis-m1", {"failed": "its guard has taken it off"})
    fleet.begin()
    assert first.states() == second.states() == {}


def test_what_has_failed_by_a_file_that_cannot_be_read_is_not_begun_again(fleet: KeptFleet, tmp_path: Path) -> None:
    (Journal.of(tmp_path, "m0").folder / "redis-m0.state").symlink_to("/proc/self/mem")
    fleet.settle({"m0": Part.POLICY, "m1": Part.POLICY})
    assert fleet.unreachable().keys() == {"m0"}
    assert Journal.of(tmp_path, "m0").wanted() == {}
    assert Journal.of(tmp_path, "m1").wanted().keys() == {"redis-m1"}


class Looked(BaseException):
    """The driver has looked once."""


def look_once(_: float) -> None:
    raise Looked


def test_a_watch_that_has_given_way_to_the_policy_is_no_trouble(baking: Rollout, tmp_path: Path) -> None:
    """Its look fails, or its file is cut off, while the policy goes on."""
    Journal.of(tmp_path, "m0").tell("redis-m0-watched", {"failed": "it was lost 4 times within an hour"})
    with pytest.raises(Looked):
        conduct.run(Rollout(tmp_path, "rollout-1"), print, look_once)
    assert Rollout(tmp_path, "rollout-1").progress.left == {}


def test_an_undo_takes_the_policy_off_a_machine_that_was_left(baking: Rollout, tmp_path: Path) -> None:
    baking.progress.left = {"m0": "an older damoos has left it for its watch"}
    baking.save()
    assert conduct.undo(Rollout(tmp_path, "rollout-1"), print) is State.UNDONE
    assert wanted(baking) == []


def test_what_is_wanted_is_not_off(baking: Rollout) -> None:
    assert KeptFleet(baking.plan).remaining() == ["m0", "m1", "m2"]


def test_harm_is_undone_on_a_full_disk(baking: Rollout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreError("progress.json: No space left on device")

    harm = Finding("p99_ms", Standing.BROKEN, Effect(1.0, 0.9, 1.1, 100), 0.1)
    monkeypatch.setattr(of_driver, "judge", lambda *_: [harm])
    monkeypatch.setattr(Rollout, "save", full)
    with pytest.raises(StoreError, match=r"No space left .* told all the same"):
        conduct.run(Rollout(tmp_path, "rollout-1"), print)
    assert (wanted(baking), baking.is_undo_asked_for()) == ([], True)


def keepers(results: Path, machines: Iterable[str]) -> dict[str, KeeperFile]:
    """Keepers that have the policy in force on their machines."""
    found = {machine: KeeperFile(Journal.of(results, machine).folder) for machine in machines}
    for machine, own in found.items():
        assert own.take()
        own.looked(has_machine=True)
        Journal.of(results, machine).tell(f"redis-{machine}", {"in_force": True, "machine": machine, "since": "noon"})
    return found


def test_a_host_whose_keeper_is_dead_is_not_called_in_force(baking: Rollout, tmp_path: Path) -> None:
    """The computer of the keepers was off: nobody drives a rollout that is done, and nothing repairs it."""
    baking.progress.state = State.DONE
    baking.save()
    Journal.of(tmp_path, "m2").tell("redis-m2", {"in_force": True, "machine": "m2", "since": "noon"})
    own = keepers(tmp_path, ["m0", "m1"])
    own["m1"].leave()
    found = {host.machine: host for host in hosts(baking)}
    assert (found["m0"].state, found["m0"].since, found["m0"].has_policy) == ("in force", "noon", True)
    assert found["m1"].state.startswith("may be in force: no keeper runs")
    assert found["m2"].state == "not in force: no keeper runs, so the machine is as it was before"
    assert [(found[one].since, found[one].has_policy) for one in ("m1", "m2")] == [("", False)] * 2
    told = CliRunner().invoke(app, ["status", "rollout-1", "--results", str(tmp_path)]).stdout
    assert "3 of 3 machines are to have it; done\n" in told
    assert f"rollout-1: m1: {found['m1'].state}\n" in told
    assert f"rollout-1: m2: {found['m2'].state}\n" in told
    assert "rollout-1: m0" not in told
    own["m0"].leave()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"in_force": True}, "in force"),
        ({"in_force": True, "paused": True}, "paused by its guard"),
        ({"in_force": False}, "waits for processes"),
        ({"in_force": False, "out_of_reach": "no route"}, "out of reach: no route"),
        (None, "on its way"),
    ],
)
def test_a_host_whose_keeper_hangs_is_as_that_saw_it_last(
    baking: Rollout, tmp_path: Path, state: dict[str, Any] | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = keepers(tmp_path, ["m0"])
    Journal.of(tmp_path, "m0").tell("redis-m0", state and {**state, "machine": "m0", "since": "noon"})
    monkeypatch.setattr("damoos.service.liveness.LATE_S", -1.0)
    found = next(host for host in hosts(baking) if host.machine == "m0")
    assert found.state.startswith(f"{words}, as its keeper saw it ")
    assert (found.since, found.has_policy) == ("", False)
    assert without(baking)["m0"] == found.state
    own["m0"].leave()


def test_hosts_that_have_not_confirmed_an_undo_are_not_said_to_have_nothing(baking: Rollout, tmp_path: Path) -> None:
    own = keepers(tmp_path, ["m0", "m1"])
    Journal.of(tmp_path, "m2").tell("redis-m2", None)
    with pytest.raises(Looked):
        conduct.undo(Rollout(tmp_path, "rollout-1"), print, look_once)
    own["m1"].leave()
    found = {host.machine: host.state for host in hosts(Rollout(tmp_path, "rollout-1"))}
    assert found["m0"] == "is being taken off"
    assert found["m1"].startswith("may be in force: no keeper runs")
    assert found["m2"] == "has nothing"
    own["m0"].leave()


def test_a_host_whose_journal_cannot_be_read_may_have_the_policy(baking: Rollout, tmp_path: Path) -> None:
    folder = Journal.of(tmp_path, "m1").folder
    folder.rename(tmp_path / "moved")
    folder.touch()
    state = next(host.state for host in hosts(Rollout(tmp_path, "rollout-1")) if host.machine == "m1")
    assert state == f"may be in force: {folder} is not a folder; remove it"
