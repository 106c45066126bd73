"""A sweep on machines that are not there, through the real driver, store and searchers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from damoos import doctor
from damoos.api.sweeps import TunedSweep
from damoos.cli import app
from damoos.dispatch.base import Dispatcher, Order, Outcome, Slot
from damoos.dispatch.lease import Lease
from damoos.dispatch.local import LocalDispatcher
from damoos.dispatch.retries import STRIKES, Strikes
from damoos.errors import (
    CommandError,
    ConfigError,
    DamoosError,
    MachineBusy,
    MachineLost,
    StoreError,
    UnsupportedError,
    WorkloadError,
)
from damoos.machines import catalog
from damoos.machines.base import DEAD_MAN_S
from damoos.service.journal import Journal
from damoos.store.artifacts import Artifacts
from damoos.study.plan import least_runs
from damoos.study.scoring import score_trials
from damoos.study.study import Study
from damoos.sweeps import sweep as sweeps
from damoos.sweeps.config import SweepConfig, expand
from damoos.sweeps.driver import Row, _said, drive
from damoos.sweeps.estimate import estimate
from damoos.sweeps.sweep import Sweep
from damoos.testing.fake import FakeMachine, FakeSession
from damoos.testing.fleet import FleetMachine
from damoos.testing.rollout_fleet import spec

WORKLOADS = ("synthetic/hot-cold", "synthetic/idle")
SHORT = {"repeats": 2, "candidates": 1, "seed": 3}


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMachine]:
    """Machines by name, which a test may put others into; further ones are made as they are asked for."""
    machines: dict[str, FakeMachine] = {}

    def machine(name: str, kernel: str | None = None) -> FakeMachine:
        return machines.setdefault(name, FleetMachine(name))

    monkeypatch.setattr(catalog, "machine", machine)
    monkeypatch.setattr("damoos.dispatch.retries.BACKOFF_S", 0.0)
    return machines


def make(results: Path, machines: tuple[str, ...] = ("a", "b"), trials: int = 3, workloads=WORKLOADS, **words) -> Sweep:
    return Sweep.create(results, SweepConfig(workloads, machines, {"nr_samples": trials, **SHORT, **words}))


def go(one: Sweep, event: Callable = lambda kind, said: None, dispatcher: Dispatcher | None = None) -> dict:
    dispatcher = dispatcher or LocalDispatcher()
    try:
        return drive(one, dispatcher, event, steady_s=0)
    finally:
        dispatcher.close()


def stripped(one: Sweep) -> dict:
    """What two sweeps of the same seed have in common: everything but times."""
    found = {}
    for config in one.config.configs():
        result = one.finished(one.study_name(config))
        assert result
        found[config.workload, config.machine] = {
            key: result[key] for key in ("trials", "recommended", "validation", "verdict", "baselines")
        }
    return found


def test_a_whole_sweep(fleet, tmp_path: Path) -> None:
    one, events = make(tmp_path), []
    found = go(one, lambda kind, said: events.append((kind, said)))
    assert [row["state"] for row in found["studies"]] == ["done"] * 4
    assert [(row["workload"], row["machine"]) for row in found["studies"]] == [
        (workload, machine) for workload in WORKLOADS for machine in ("a", "b")
    ]
    assert found["failures"] == []
    assert {name: one["fit"] for name, one in found["machines"].items()} == {"a": True, "b": True}
    assert one.result == found
    assert [row["machine"] for row in found["cost"]] == ["a", "b"]
    for machine in fleet.values():
        assert machine.nr_opened == machine.nr_closed  # nothing is left open
    kinds = [kind for kind, _ in events]
    assert (kinds.count("machine"), kinds.count("study")) == (2, 8)
    runs = [said for kind, said in events if kind == "run"]
    assert len(runs) == sum(row["runs"] for row in found["studies"]) == sum(m.nr_runs for m in fleet.values())
    json.dumps(events)
    row = one.status["studies"][0]
    assert (row["trials"], row["nr_samples"], row["verdict"]) == (3, 3, found["studies"][0]["verdict"])
    assert not one.driven()
    # The folder of each study has what 'damoos tune' leaves there, but for the picture.
    assert (tmp_path / row["study"] / "result.json").exists()


def test_studies_of_one_machine_follow_each_other_and_machines_do_not_wait(fleet, tmp_path: Path) -> None:
    """Machine a does not end its first run before b has done most of its own."""
    order: list[tuple[str, str]] = []
    b_is_ahead = threading.Event()

    class Waiting(FleetMachine):
        def begin_run(self, number: int) -> None:
            assert b_is_ahead.wait(300)
            super().begin_run(number)

    def event(kind: str, said: dict) -> None:
        if kind == "run":
            order.append((said["machine"], said["study"]))
            if [on for on, _ in order].count("b") == 8:
                b_is_ahead.set()

    fleet["a"] = Waiting("a")
    go(make(tmp_path), event)
    for machine in ("a", "b"):
        studies = [study for on, study in order if on == machine]
        assert sorted(studies) == studies  # one after the other, never mixed
    assert [on for on, _ in order][:8] == ["b"] * 8


class Kill(BaseException):
    """As abrupt as a kill, but catchable here."""


@pytest.mark.parametrize("at", [0, 1, 3, 7, 14, 20, 31, 45])
@pytest.mark.slow
def test_a_sweep_that_is_killed_ends_as_an_unbroken_one(fleet, tmp_path: Path, at: int) -> None:
    whole = make(tmp_path / "whole")
    go(whole)
    unbroken = sum(machine.nr_runs for machine in fleet.values())
    fleet.clear()
    left = [at]

    def event(kind: str, said: dict) -> None:
        if kind == "run":
            left[0] -= 1
            if left[0] < 0:
                raise Kill

    broken = make(tmp_path / "broken")
    with pytest.raises(Kill):
        go(broken, event)
    stored = sum(len(study(broken, n).runs()) for n in range(4) if begun(broken, n))
    again = Sweep.unfinished(tmp_path / "broken", broken.config)
    assert again is not None
    runs: list[str] = []
    go(again, lambda kind, said: runs.append(said["run"]) if kind == "run" else None)
    assert stripped(again) == stripped(whole)
    assert stored + len(runs) == unbroken  # what was stored has not been run again, nor left out


def begun(one: Sweep, number: int) -> bool:
    return one.look(one.study_name(one.config.configs()[number])) is not None


def study(one: Sweep, number: int) -> Study:
    record = one.look(one.study_name(one.config.configs()[number]))
    assert record
    return Study(record)


def test_a_lost_machine_costs_one_run_and_is_told(fleet, tmp_path: Path) -> None:
    fleet["a"] = FakeMachine(failures={4: MachineLost("gone")})
    retries: list[dict] = []
    found = go(
        make(tmp_path, ("a",), workloads=WORKLOADS[:1]),
        lambda kind, said: retries.append(said) if kind == "retry" else None,
    )
    assert found["failures"] == []
    assert [(one["machine"], one["error"]) for one in retries] == [("a", "gone")]
    assert fleet["a"].nr_runs == found["studies"][0]["runs"] + 1
    assert fleet["a"].nr_opened == fleet["a"].nr_closed


def test_a_machine_that_is_still_being_closed_is_waited_for(fleet, tmp_path: Path, monkeypatch) -> None:
    quick = FakeSession.close
    monkeypatch.setattr(FakeSession, "close", lambda session: (time.sleep(0.5), quick(session)))
    go(make(tmp_path, ("a",), workloads=WORKLOADS[:1]))
    assert fleet["a"].nr_opened == fleet["a"].nr_closed == 1


def test_a_machine_that_fails_three_times_in_a_row_is_quarantined_and_named(fleet, tmp_path: Path) -> None:
    fleet["a"] = FakeMachine(failures={n: MachineLost("gone for good") for n in range(5, 99)})
    one = make(tmp_path)
    found = go(one)
    assert fleet["a"].nr_runs == 5 + STRIKES
    assert "quarantined" in found["machines"]["a"]["error"]
    assert found["machines"]["b"]["fit"]
    failed = {row["study"]: row["error"] for row in found["studies"] if row["state"] == "failed"}
    assert len(failed) == 2  # the one that it had, and the one that waited for it
    assert all("machine 'a' is quarantined: gone for good" in error for error in failed.values())
    assert {one["machine"] for one in found["failures"]} == {"a"}
    # Mended, it goes on with what it had.
    fleet["a"].failures = {}
    before = fleet["a"].nr_runs
    again = Sweep.unfinished(tmp_path, one.config)
    assert again is not None
    assert [row["state"] for row in go(again)["studies"]] == ["done"] * 4
    assert fleet["a"].nr_runs - before == 2 * least_runs(3) - 5  # the five that were stored are not run again


@pytest.mark.parametrize("late", [False, True])
def test_two_machines_of_a_name_share_the_work_and_one_stands_in_for_the_other(
    fleet, tmp_path: Path, late: bool
) -> None:
    """The study of the lost one goes on on the other, and its trials there are judged by a baseline from there.

    Also where the other one was through with its own by then.
    """
    through = threading.Event()
    first = FleetMachine("a")
    second = FleetMachine("a")
    first.failures = {n: MachineLost("gone for good") for n in range(3, 99)}

    def begin_run(number: int) -> None:
        if late and number == 3:
            assert through.wait(60)
        FakeMachine.begin_run(first, number)

    first.begin_run = begin_run  # type: ignore[method-assign]
    hosts = {0: first, 1: second}

    class Two(LocalDispatcher):
        def capacity(self, machine: str) -> int:
            return 2

        def submit(self, order: Order) -> None:
            mine = hosts[order.slot.number]
            super().submit(Order(order.slot, order.tenant, lambda: mine, order.job))

    fleet["a"] = first
    opened = FleetMachine.open
    first.open = lambda say=None: on(opened(first), "host-1")  # type: ignore[method-assign, assignment]
    second.open = lambda say=None: on(opened(second), "host-2")  # type: ignore[method-assign, assignment]
    one = make(tmp_path, ("a",), workloads=WORKLOADS)
    found = go(one, lambda kind, said: through.set() if said.get("state") == "done" else None, dispatcher=Two())
    assert [row["state"] for row in found["studies"]] == ["done"] * 2
    assert "quarantined" in found["machines"]["a"]["error"]
    assert found["machines"]["a#1"]["fit"]
    # Whichever of the two was through with the doctor first has taken the first study.
    (moved,) = (found for found in (study(one, 0), study(one, 1)) if len({run.host for run in found.runs()}) == 2)
    by_host = {run.key: run.host for run in moved.runs()}
    assert by_host["baseline-000"] == "host-1"
    assert {host for key, host in by_host.items() if key.startswith("validation")} == {"host-2"}
    trials = {key: host for key, host in by_host.items() if key.startswith("trial")}
    assert set(trials.values()) == {"host-1", "host-2"}
    first_there = next(key for key, host in trials.items() if host == "host-2")
    assert by_host[f"baseline-1{first_there.removeprefix('trial-')}"] == "host-2"
    scored = {trial.number: trial.score for trial in score_trials(moved.runs(), moved.scorer)}
    number = int(first_there.removeprefix("trial-"))
    own = [run for run in moved.runs() if run.host == "host-2"]
    assert score_trials(own, moved.scorer)[0].score == scored[number]


def on(session: FakeSession, host: str) -> FakeSession:
    session.facts["host"] = host
    return session


def test_a_study_that_fails_leaves_the_others_alone(fleet, tmp_path: Path) -> None:
    fleet["a"] = FakeMachine(failures={0: WorkloadError("it crashed")})
    found = go(make(tmp_path, ("a",)))
    assert [row["state"] for row in found["studies"]] == ["failed", "done"]
    assert found["failures"][0]["error"] == "without any scheme: it crashed"
    assert found["failures"][0]["of"] == "study"


def test_a_defect_of_ours_ends_one_study_and_is_named(fleet, tmp_path: Path) -> None:
    fleet["a"] = FakeMachine(failures={0: ZeroDivisionError("oops")})  # type: ignore[dict-item]
    found = go(make(tmp_path, ("a",)))
    assert [row["state"] for row in found["studies"]] == ["failed", "done"]
    assert found["failures"][0]["error"] == "ZeroDivisionError: oops"


def test_nothing_is_spent_on_an_unfit_machine(fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet["a"] = FakeMachine(damon_in_use="kdamond 77 is not ours")
    found = go(make(tmp_path))
    assert fleet["a"].nr_runs == 0
    assert [row["state"] for row in found["studies"]] == ["failed", "done"] * 2
    assert found["machines"]["a"]["error"].startswith("unfit: ")
    names = [one["name"] for one in found["machines"]["a"]["findings"] if one["state"] == doctor.UNFIT]
    assert names == ["DAMON free"]


def test_what_a_machine_says_that_cannot_be_stored_fails_its_own_studies(fleet, tmp_path: Path) -> None:
    """Its answers are larger than values of a store, or its program's last words than files of sweeps."""
    large = FleetMachine("b")
    large.left_behind = ["x" * 65_000] * 280
    fleet["b"] = large
    found = go(make(tmp_path))
    states = {(row["machine"], row["state"]) for row in found["studies"]}
    assert states == {("a", "done"), ("b", "failed")}
    assert all("too big" in failure["error"] for failure in found["failures"])


@pytest.mark.slow
def test_a_store_that_breaks_ends_the_sweep_and_loses_nothing(fleet, tmp_path: Path, monkeypatch) -> None:
    whole = make(tmp_path / "whole")
    go(whole)
    one, write, left = make(tmp_path / "full"), Artifacts._write, [40]

    def full(self: Artifacts, *words, **options):
        left[0] -= 1
        if left[0] < 0:
            raise StoreError("No space left on device")
        return write(self, *words, **options)

    monkeypatch.setattr(Artifacts, "_write", full)
    with pytest.raises(StoreError, match="No space left"):
        go(one)
    monkeypatch.setattr(Artifacts, "_write", write)
    again = Sweep.unfinished(tmp_path / "full", one.config)
    assert again is not None
    go(again)
    assert stripped(again) == stripped(whole)


def test_two_drivers_are_refused(fleet, tmp_path: Path) -> None:
    one = make(tmp_path)
    with one.driving(), pytest.raises(StoreError, match="driven by another damoos process"):
        go(one)


def test_a_finished_sweep_is_followed_by_a_new_one(fleet, tmp_path: Path) -> None:
    one = make(tmp_path, ("a",), workloads=WORKLOADS[:1])
    go(one)
    assert Sweep.unfinished(tmp_path, one.config) is None
    assert make(tmp_path, ("a",)).name == "sweep-2"
    assert sweeps.newest(tmp_path) == "sweep-2"
    with pytest.raises(ConfigError, match=r"unknown sweep 'sweep-3'; did you mean 'sweep-[12]'"):
        sweeps.load(tmp_path, "sweep-3")


@pytest.mark.parametrize(
    ("errors", "waits"),
    [
        ([MachineLost("x"), MachineLost("x"), MachineLost("x")], [1.0, 2.0, None]),
        ([MachineBusy("somebody else")], [None]),
        ([MachineLost("x"), MachineBusy("our agent, left over")], [1.0, DEAD_MAN_S]),
        ([CommandError("false: 1")], [None]),
    ],
)
def test_what_is_tried_again(errors: list, waits: list) -> None:
    strikes = Strikes()
    assert [strikes.failure(error) for error in errors] == waits
    assert strikes.out == (len(errors) >= STRIKES)
    strikes.success()
    assert strikes.failure(MachineLost("x")) == 1.0


def test_patterns() -> None:
    known = ["redis/idle", "splash2x/fft", "splash2x/lu_cb"]
    assert expand(["splash2x/*", "redis/idle", "splash2x/fft"], known, "--workloads") == [
        "splash2x/fft",
        "splash2x/lu_cb",
        "redis/idle",
    ]
    assert expand(["./my.toml"], known, "--workloads") == ["./my.toml"]
    with pytest.raises(ConfigError, match=r"--workloads: nothing matches 'splash/\*'; did you mean 'splash2x/"):
        expand(["splash/*"], known, "--workloads")


def test_what_a_sweep_would_take() -> None:
    config = SweepConfig(("parsec3/raytrace", "redis/idle"), ("guest", "i3.metal"), {"nr_samples": 10})
    guest, metal = estimate(config)
    assert guest["runs"] == metal["runs"] == 2 * least_runs(10)
    assert guest["trials"] == 20
    assert guest["usd"] is None
    assert metal["usd"] == pytest.approx(metal["hours"] * metal["usd_hour"])
    assert guest["hours"] == metal["hours"] > 0


class Refusing(Dispatcher):
    """A cluster that will never have the machine."""

    def capacity(self, machine: str) -> int:
        raise ConfigError(f"no node offers machine '{machine}'")

    def submit(self, order: Order) -> None:
        raise AssertionError

    def release(self, slot: Slot) -> None:
        raise AssertionError

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        raise AssertionError

    def close(self) -> None:
        pass


def test_a_machine_that_nobody_offers(fleet, tmp_path: Path) -> None:
    found = go(make(tmp_path), dispatcher=Refusing())
    assert [row["state"] for row in found["studies"]] == ["failed"] * 4
    assert found["failures"][0]["error"] == "no node offers machine 'a'"


def test_local_runs_only_after_the_doctor(fleet, tmp_path: Path) -> None:
    from damoos.study import jobs

    machine = FakeMachine(damon_in_use="kdamond 77 is not ours")
    machine.doctor_first = True
    config = SweepConfig(WORKLOADS, ("local",), {"nr_samples": 3, **SHORT}).configs()[0]
    with Lease(machine) as lease, pytest.raises(UnsupportedError, match=r"is unfit: .*kdamond 77 is not ours"):
        jobs.survey(lease, config)


def test_errors_of_all_kinds_can_be_pickled() -> None:
    import pickle

    from damoos import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DamoosError)]
    assert len(kinds) > 10
    for kind in kinds:
        again = pickle.loads(pickle.dumps(kind("what, where")))
        assert (type(again), str(again)) == (kind, "what, where")


def test_a_sweep_of_another_version_is_refused_in_one_line(fleet, tmp_path: Path) -> None:
    one = make(tmp_path)
    file = one.artifacts.path / "sweep.json"
    form = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in form.items() if name != "schema"}))
    with pytest.raises(StoreError, match=f"sweep '{one.name}' was written by another version of damoos"):
        sweeps.load(tmp_path, one.name)


DAMAGED = ("", "[]", "null", '"a"', "{}", '{"config": 5}', "[" * 100_000)


@pytest.mark.parametrize("content", DAMAGED, ids=lambda content: content[:20])
@pytest.mark.parametrize("file", ["sweep.json", "status.json", "result.json"])
def test_a_damaged_file_of_a_sweep_is_named_in_one_line(fleet, tmp_path: Path, file: str, content: str) -> None:
    one = make(tmp_path)
    (one.artifacts.path / file).write_text(content)
    read = {
        "sweep.json": lambda: sweeps.load(tmp_path, one.name),
        "status.json": lambda: one.status,
        "result.json": lambda: one.result,
    }
    with pytest.raises(StoreError, match=rf"{file}: .*, so sweep 'sweep-1' cannot be read; "):
        read[file]()


@pytest.mark.parametrize(
    "settings",
    [{"nosuch": 1}, {"nr_samples": "many"}, {"configs": 5}, {"nr_samples": "3"}, {"workload": "x"}, {"machine": "a"}],
)
def test_settings_of_a_sweep_are_those_of_its_studies(fleet, tmp_path: Path, settings: dict) -> None:
    file = make(tmp_path).artifacts.path / "sweep.json"
    form = json.loads(file.read_text())
    form["config"]["settings"] |= settings
    file.write_text(json.dumps(form))
    with pytest.raises(StoreError, match=r"sweep.json: key 'config.settings"):
        sweeps.load(tmp_path, "sweep-1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"workloads": [str(nth) for nth in range(5000)], "machines": ["a", "b", "c"]}, "more than 10000 studies"),
        ({"machines": ["a", "a"]}, "named twice"),
        ({"settings": {"configs": {"a": {"memory": 5}}}}, "settings"),
    ],
    ids=["many", "twice", "memory"],
)
def test_a_sweep_of_another_person_is_damage_before_it_fills_the_memory(
    fleet, tmp_path: Path, words: dict, said: str
) -> None:
    file = make(tmp_path).artifacts.path / "sweep.json"
    form = json.loads(file.read_text())
    file.write_text(json.dumps(form | {"config": form["config"] | words}))
    with pytest.raises(StoreError, match=f"sweep.json: .*{said}|sweep.json: .* so sweep") as told:
        sweeps.load(tmp_path, "sweep-1")
    assert said in str(told.value) or said == "settings"


@pytest.mark.slow
def test_a_damaged_sweep_holds_up_neither_a_new_one_nor_the_status(fleet, tmp_path: Path) -> None:
    one = make(tmp_path)
    (one.artifacts.path / "sweep.json").write_text("null")
    for form in ("text", "json"):
        done = CliRunner().invoke(app, ["status", "--results", str(tmp_path), "--format", form])
        assert (done.exit_code, done.exception, len(done.stderr.splitlines())) == (0, None, 1)
        assert "sweep-1/sweep.json" in done.stderr
    for words in (["resume", "sweep-1"], ["compare", "sweep-1"]):
        failed = CliRunner().invoke(app, [*words, "--results", str(tmp_path)])
        assert isinstance(failed.exception, StoreError)
    assert Sweep.begun(tmp_path, one.config).name == "sweep-2"


def row(one: Sweep) -> dict:
    return _said(Row(one.study_name(one.config.configs()[0]), "synthetic/idle", "a", 3))


@pytest.mark.parametrize(
    "change",
    [
        {"failures": 3},
        {"failures": [{}]},
        {"failures": None},
        {"machines": ["a"]},
        {"machines": {"a": 3}},
        {"cost": 3},
        {"retries": {"a": "b"}},
        {"studies": [{}]},
        {"runs": None},
    ],
    ids=str,
)
def test_what_readers_of_a_status_use_is_in_its_form(fleet, tmp_path: Path, change: dict) -> None:
    one = make(tmp_path)
    rows = [{key: value for key, value in row(one).items() if key not in change}]
    good = {"sweep": one.name, "studies": rows, "failures": []}
    (one.artifacts.path / "status.json").write_text(json.dumps(good | change))
    with pytest.raises(StoreError, match=r"status.json: .*, so sweep 'sweep-1' cannot be read; "):
        TunedSweep(one).machines_df, TunedSweep(one).studies_df, TunedSweep(one)._repr_html_()


def test_a_sweep_of_which_nothing_has_been_told_is_shown(fleet, tmp_path: Path) -> None:
    one = TunedSweep(make(tmp_path))
    assert "unfinished" in one._repr_html_()
    assert list(one.machines_df["machine"]) == ["a", "b"]


def test_a_sweep_that_says_not_when_it_began_holds_up_nothing(fleet, tmp_path: Path) -> None:
    one = make(tmp_path)
    file = one.artifacts.path / "sweep.json"
    form = json.loads(file.read_text())
    del form["created"]
    file.write_text(json.dumps(form))
    for words in (["status"], ["status", "--format", "json"]):
        done = CliRunner().invoke(app, [*words, "--results", str(tmp_path)])
        assert (done.exit_code, done.exception, len(done.stderr.splitlines())) == (0, None, 1)
        assert "sweep-1/sweep.json: key 'created'" in done.stderr
    assert Sweep.begun(tmp_path, one.config).name == "sweep-2"


@pytest.mark.parametrize("file", ["status.json", "result.json"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_link_in_the_place_of_a_file_hides_nothing_else(fleet, tmp_path: Path, file: str, form: str) -> None:
    one = make(tmp_path)
    (one.artifacts.path / file).symlink_to(file)
    Journal.of(tmp_path, "there").want("redis", spec(machine="there"))
    done = CliRunner().invoke(app, ["status", "--results", str(tmp_path), "--format", form])
    assert (done.exit_code, done.exception) == (0, None)
    assert "redis" in done.stdout


def test_a_defect_in_what_shows_a_sweep_hides_nothing_else(fleet, tmp_path: Path, monkeypatch) -> None:
    make(tmp_path)
    Journal.of(tmp_path, "there").want("redis", spec(machine="there"))
    monkeypatch.setattr("damoos.cli.service.show_status", lambda *_: {}["x"])
    done = CliRunner().invoke(app, ["status", "--results", str(tmp_path)])
    assert (done.exit_code, done.exception) == (0, None)
    assert "redis" in done.stdout
    assert "'sweep-1' cannot be read: KeyError" in done.stderr


@pytest.mark.parametrize(
    ("file", "change"),
    [("sweep.json", {"schema": 1}), ("result.json", None), ("status.json", None)],
    ids=["older", "result", "status"],
)
def test_a_sweep_of_the_same_words_that_cannot_be_read_is_passed_over(
    fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, change: dict | None
) -> None:
    one = make(tmp_path)
    path = one.artifacts.path / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change) if change else "{")
    assert Sweep.begun(tmp_path, one.config).name == "sweep-2"
    (line,) = capsys.readouterr().err.splitlines()
    assert "sweep-1" in line
    assert line.endswith("; it is passed over")
    assert Sweep.begun(tmp_path, one.config).name == "sweep-2", "the unfinished one goes on"
