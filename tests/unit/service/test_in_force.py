"""What may be in force is not called off, whatever of a journal is damaged or not readable: its machine says so."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from damoos.cli import app
from damoos.errors import ConfigError, MachineError
from damoos.machines import catalog
from damoos.service import keeper, listing
from damoos.service.forms import MOST_S
from damoos.service.in_force import InForce, host_of, naming
from damoos.service.journal import Journal, clock
from damoos.service.liveness import KeeperFile
from damoos.service.patient import PatientJournal
from damoos.testing.fake import FakeMachine
from damoos.testing.rollout_fleet import spec
from tests.unit.service.conftest import Host, Session, run
from tests.unit.service.test_stop import STATE, in_service, line

FILES = ("json", "stopping", "state")


def fail(file: Path) -> None:
    """Have a file give EIO, as a bad sector does; the one that was there is beside it."""
    if file.exists():
        file.rename(file.with_name("good"))
    file.symlink_to("/proc/self/mem")


def cut(file: Path) -> None:
    file.write_text('{"study": "s", "mach')


HARMS = {"EIO": fail, "cut off": cut}


def served(results: Path, ending: str, on_exit: str = "undo") -> Journal:
    """A policy in force, whose machine is not there."""
    journal = Journal.of(results, "there")
    journal.want("redis", spec(machine="there", on_exit=on_exit))
    journal.confirm("redis", None)
    journal.tell("redis", {**STATE, "on_exit": on_exit})
    if ending == "stopping":
        journal.stop("redis")
    return journal


def had(journal: Journal) -> KeeperFile:
    """A keeper that has had the machine just now."""
    file = KeeperFile(journal.folder)
    assert file.take()
    file.looked(has_machine=True)
    return file


def commands(results: Path) -> list[str]:
    """What the commands say that tell what is in service, or take it off."""
    said = []
    for words in (["status"], ["stop", "redis"], ["stop", "--all"]):
        done = CliRunner().invoke(app, [*words, "--results", str(results)])
        said.append(f"{done.stdout}{done.stderr}{done.exception or ''}")
        assert words == ["status"] or done.exception, said[-1]
    return said


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(FakeMachine):
        def open(self, say: Any = None) -> Any:
            raise MachineError("there: no route to host")

    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: Away())
    monkeypatch.setattr(keeper, "STOP_S", 0.0)


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("ending", ["json", "stopping"])
@pytest.mark.parametrize("keeper_of_it", ["lives", "was killed"])
def test_what_has_lost_its_file_is_not_called_off(
    tmp_path: Path, away: None, ending: str, harm: str, keeper_of_it: str
) -> None:
    """Its keeper is in a long call, hangs, or was killed a moment ago."""
    journal = served(tmp_path, ending)
    own = had(journal)
    if keeper_of_it == "was killed":
        own.leave()
    HARMS[harm](journal.folder / f"redis.{ending}")
    is_told_by_its_keeper = keeper_of_it == "lives" and harm == "EIO"
    for nth, said in enumerate(commands(tmp_path)):
        assert "be in force" in said or (nth == 0 and is_told_by_its_keeper)
        assert "stopped" not in said
        assert "is no longer on" not in said
    assert InForce(journal).may_be("redis")
    if keeper_of_it == "lives":
        own.leave()


def test_what_has_lost_its_file_is_off_where_no_keeper_has_had_its_machine_for_long(tmp_path: Path, away: None) -> None:
    journal = served(tmp_path, "json")
    cut(journal.folder / "redis.json")
    assert "is no longer on" in line(journal)
    assert keeper.stop(tmp_path)[0] == "redis"
    journal = served(tmp_path, "json", "keep")
    cut(journal.folder / "redis.json")
    with pytest.raises(MachineError, match="'redis' may still be in force"):
        keeper.stop(tmp_path)


def test_what_is_damaged_before_its_first_state_may_be_in_force(tmp_path: Path, away: None) -> None:
    journal = served(tmp_path, "json", "keep")
    journal.tell("redis", None)
    cut(journal.folder / "redis.json")
    commands(tmp_path)
    assert " may be in force on " in line(journal)


@pytest.mark.parametrize("harm", HARMS)
def test_what_only_a_state_knows_is_not_forgotten_with_it(tmp_path: Path, away: None, harm: str) -> None:
    journal = Journal.of(tmp_path, "there")
    journal.tell("redis", {**STATE, "failed": "its guard", "unconfirmed": "the agent could not undo: swap"})
    HARMS[harm](journal.folder / "redis.state")
    for said in commands(tmp_path):
        assert "may " in said
        assert "be in force" in said
    with pytest.raises(ConfigError, match="'redis' is in service already"), naming(tmp_path, "redis"):
        pass


def test_the_machine_confirms_it_also_where_no_file_names_the_machine(
    kept_by: tuple[Journal, Host, dict[str, Any]],
) -> None:
    """The folder is called after it."""
    journal, host, _ = kept_by
    cut(journal.folder / "redis.state")
    host.left_behind = ["swap"]
    with pytest.raises(MachineError, match="could not undo swap"):
        keeper.stop(journal.folder.parent.parent)
    host.left_behind = []
    assert keeper.stop(journal.folder.parent.parent)[0] == "redis"
    assert listing.listed(journal.folder.parent.parent) == {}
    assert list(journal.folder.glob("redis.state*")) == [journal.folder / "redis.state.bad"]


def test_a_machine_that_no_file_names_any_more_is_asked_by_a_person(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "/etc/web1.toml")
    cut(journal.folder / "redis.state")
    with pytest.raises(MachineError, match="may still be in force on a machine that no file names any more"):
        keeper.stop(tmp_path)
    assert " may be in force on " in line(journal)
    (journal.folder / "redis.state").unlink()
    assert listing.listed(tmp_path) == {}


def test_what_its_agent_could_not_undo_has_its_specification_still(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, host, thread = in_service(kept_by)

    def close(session: Session) -> None:
        raise MachineError("the agent could not undo: swap")

    monkeypatch.setattr(Session, "close", close)
    host.left_behind = ["swap"]
    host.fails = {"status": MachineError("p99_ms is 100")}
    thread.join(60)
    host.fails = {}
    assert journal.stopping()["redis"]["machine"] == "fake"
    (journal.folder / "redis.state").write_text("{")
    assert " may be in force on " in line(journal)
    monkeypatch.undo()
    (journal.folder / "redis.state").write_text("{")
    assert InForce(journal).specification("redis")["study"] == kept_by[2]["study"]


@pytest.mark.parametrize("suffix", FILES)
def test_a_damaged_file_stays_where_nothing_can_be_written_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """If it were out of the way, and nothing said so, it would be forgotten."""
    journal = Journal.of(tmp_path, "there")
    cut(journal.folder / f"redis.{suffix}")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fill", "append"):
        monkeypatch.setattr(f"damoos.service.journal.{name}", full)
    for known in (journal, PatientJournal(journal.folder)):
        assert InForce(known).may_be("redis")
        assert [file.name for file in journal.folder.glob("redis*")] == [f"redis.{suffix}"]


def test_the_state_of_a_damaged_file_is_written_before_the_file_is_out_of_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    journal = served(tmp_path, "json", "keep")
    journal.tell("redis", None)
    cut(journal.folder / "redis.json")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(Killed):
            journal.wanted()
    assert "unconfirmed" in json.loads((journal.folder / "redis.state").read_text())


def test_a_name_is_free_only_once_nothing_of_it_may_be_in_force(tmp_path: Path) -> None:
    journal = served(tmp_path, "json")
    had(journal).leave()
    (journal.folder / "redis.json").unlink()
    with pytest.raises(ConfigError, match="'redis' is in service already"), naming(tmp_path, "redis"):
        pass
    journal.tell("redis", {**STATE, "failed": "its guard has taken it off"})
    with naming(tmp_path, "redis"):
        pass


def test_an_unreadable_state_is_told_as_such(tmp_path: Path) -> None:
    journal = served(tmp_path, "json")
    own = had(journal)
    fail(journal.folder / "redis.state")
    assert "; may be in force: " in line(journal)
    state = listing.of_machine(journal)["redis"]
    assert (state["in_force"], "Input/output error" in state["unconfirmed"]) == (None, True)
    assert (state["machine"], state["scheme"], state["on"]) == ("there", "senpai", "unit:redis.service")
    own.leave()
    assert "Input/output error" in line(journal)


def test_apply_does_not_wait_for_a_file_that_cannot_be_read(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, _, wanted = kept_by
    own = had(journal)
    monkeypatch.setattr(keeper, "wake", lambda journal, start=True: fail(journal.folder / "redis.json") if start else 0)
    done: list[Exception] = []

    def apply() -> None:
        try:
            keeper.apply(wanted)
        except MachineError as error:
            done.append(error)

    thread = threading.Thread(target=apply, daemon=True)
    thread.start()
    thread.join(20)
    assert "Input/output error; 'redis' is taken off once it can be read" in str(done)
    own.leave()


@pytest.mark.parametrize("at_s", [1e18, -1e18, 1e300])
def test_no_time_ends_what_tells_it(at_s: float) -> None:
    assert clock(at_s)


def test_what_is_applied_after_the_latest_time_there_is_can_be_read(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "there")
    (journal.folder / "bad.json").write_text(json.dumps({**spec(machine="there"), "wanted_s": MOST_S}))
    journal.want("redis", spec(machine="there"))
    assert journal.wanted().keys() == {"bad", "redis"}


@pytest.mark.parametrize(
    "words",
    [{"wanted_s": 1e18}, {"wanted_s": -1e18}, {"host": {"a": "b", "c": "d"}}, {"host": {"hostname": 3}}],
    ids=["a time of no clock", "a time before all", "other keys of a host", "a host of another type"],
)
def test_values_of_no_machine_are_damage_of_that_file_alone(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, words: dict[str, Any]
) -> None:
    journal, host, wanted = kept_by
    monkeypatch.setattr(Session, "facts", {"hostname": "db7", "boot_id": "1"})
    bad = {**wanted, "name": "bad", "on_exit": "keep", "begun": True, "wanted_s": 1.0, **words}
    (journal.folder / "bad.json").write_text(json.dumps(bad))
    journal, host, thread = in_service(kept_by)
    assert "bad: " in line(journal, "bad")
    assert (journal.folder / "bad.json.bad").exists()
    assert journal.wanted()["redis"]["wanted_s"] < 1e11
    results = journal.folder.parent.parent
    done = CliRunner().invoke(app, ["stop", "--all", "--results", str(results)])
    assert done.exit_code in (0, 3)
    thread.join(60)
    assert host.applied == {}


def test_what_the_disk_does_not_give_for_one_keeps_no_keeper_from_the_others(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of its workload, say; or a path that is longer than paths are."""
    journal, host, wanted = kept_by
    begun, of = keeper._call, keeper._its_run

    def call(lease: Any, one: Any, run: Any) -> Any:
        if one["name"] == "bad":
            raise OSError(36, "File name too long")
        return begun(lease, one, run)

    def its_run(journal: Journal, name: str, one: Any) -> Any:
        if name == "worse":
            raise OSError(36, "File name too long")
        return of(journal, name, one)

    monkeypatch.setattr(keeper, "_call", call)
    monkeypatch.setattr(keeper, "_its_run", its_run)
    for name in ("worse", "bad", "redis"):
        journal.want(name, {**wanted, "name": name})
    thread = run(journal)
    while "redis" not in host.applied:
        thread.join(0.02)
        assert thread.is_alive()
    assert "File name too long" in journal.states()["bad"]["error"]["message"]
    assert "File name too long" in journal.states()["worse"]["error"]["message"]
    with journal.changing():
        journal.stop("redis")
    thread.join(60)


def test_a_relative_path_of_an_older_version_leads_to_no_machine(tmp_path: Path) -> None:
    """It depends on the folder in which one stands, and another host would say that nothing of it is left."""
    journal = Journal.of(tmp_path, "host.toml")
    journal.want("redis", spec(machine="host.toml", on_exit="keep"))
    with pytest.raises(ConfigError, match="a path that depends on the folder"):
        keeper.stop(tmp_path)
    assert "redis" in journal.stopping()


def test_a_path_after_which_no_folder_can_be_called_is_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a path of more than 255 letters"):
        Journal.of(tmp_path, "/" + "d" * 300 + "/host.toml")


def test_a_machine_s_name_for_itself_has_a_bound() -> None:
    assert host_of({"hostname": "\U0001f600" * 65_536}) == {"hostname": "\U0001f600" * 255}


def test_a_keeper_elsewhere_has_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 is the process group of the shell that ends it."""
    journal = served(tmp_path, "json")
    assert listing.of_machine(journal)["redis"]["keeper_pid"] is None


@pytest.mark.parametrize("reading", ["wanted", "stopping"])
def test_what_is_stopped_while_it_is_read_is_not_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    """Another process renames its file just before one of the two readings."""
    journal = served(tmp_path, "json", "keep")
    journal.tell("redis", None)
    read = getattr(Journal, reading)
    monkeypatch.setattr(Journal, reading, lambda journal: (Journal(journal.folder).stop("redis"), read(journal))[1])
    known = InForce(journal)
    assert known.may_be("redis")
    assert known.to_be_off() == {"redis"}
