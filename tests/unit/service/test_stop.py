"""'damoos stop' says that a policy is off only once it is: its keeper hangs, is killed, or is gone."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from damoos import regular_file
from damoos.cli import app
from damoos.dispatch import own_process
from damoos.errors import ConfigError, MachineBusy, MachineError, MachineLost
from damoos.machines import catalog
from damoos.service import keeper, listing, liveness
from damoos.service.in_force import naming
from damoos.service.journal import Journal
from damoos.service.patient import PatientJournal
from damoos.testing.fake import FakeMachine
from damoos.testing.rollout_fleet import spec
from tests.conftest import until
from tests.unit.service.conftest import Host, Session, run
from tests.unit.service.test_kept import ON

STATE = {"study": "s", "machine": "there", "on": "unit:redis.service", "scheme": "senpai", "in_force": True}


def stop(journal: Journal, name: str) -> None:
    """As `keeper.stop` does: its keeper may be writing at the same moment that it has been in force."""
    with journal.changing():
        journal.stop(name)


class Folder(FakeMachine):
    """The host of `keeper_of_slow_host`, as 'damoos stop' itself reaches it."""

    def __init__(self, host: Path) -> None:
        super().__init__()
        self.host = host
        self.is_away = False

    def open(self, say: Any = None) -> Any:
        if self.is_away:
            raise MachineError("there: no route to host")
        (self.host / "in force").unlink(missing_ok=True)
        return super().open()


class Served:
    """A policy in force by a keeper process of its own."""

    def __init__(self, folder: Path, on_exit: str) -> None:
        self.results, self.folder = folder / "results", folder
        self.journal = Journal.of(self.results, "there")
        self.in_force = folder / "in force"
        (folder / "go").touch()
        on = {"kind": "pid", "pid": 7}
        keeper.apply(spec(machine="there", results=str(self.results), on=on, on_exit=on_exit))
        self.pid = self.journal.keeper_pid
        assert self.in_force.exists()

    def hang(self) -> None:
        (self.folder / "hangs").touch()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: not self.journal.has_keeper)

    def stop(self) -> str:
        return keeper.stop(self.results, "redis")[0]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    folder = Folder(tmp_path)
    monkeypatch.setattr(keeper, "_MODULE", "tests.unit.service.keeper_of_slow_host")
    monkeypatch.setattr(keeper, "STOP_S", 0.5)
    monkeypatch.setenv("DAMOOS_SLOW_HOST", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: folder)
    yield folder
    if pid := Journal.of(tmp_path / "results", "there").keeper_pid:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("on_exit", ["undo", "keep"])
@pytest.mark.slow
def test_a_second_stop_of_a_keeper_that_hangs_waits_again(host: Folder, on_exit: str) -> None:
    served = Served(host.host, on_exit)
    served.hang()
    for _ in range(2):
        with pytest.raises(MachineError, match=f"keeper process {served.pid} does not take 'redis' off, so it may"):
            served.stop()
        assert served.in_force.exists()
        assert listing.describe("redis", listing.listed(served.results)["redis"]).endswith("; is being taken off")
    with pytest.raises(ConfigError, match="'redis' is in service already"):
        keeper.apply(spec(machine="elsewhere", results=str(served.results)))
    (host.host / "hangs").unlink()
    until(lambda: not listing.listed(served.results))
    assert not served.in_force.exists()


@pytest.mark.slow
def test_a_keeper_whose_process_is_not_seen_here_lives_all_the_same(
    host: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the folder in another container, or on another computer: what tells is that it holds the lock."""
    served = Served(host.host, "undo")
    served.hang()
    with monkeypatch.context() as patched:
        patched.setattr(own_process.OwnProcess, "is_running", False)
        assert served.journal.keeper_pid == 0
        assert "lost" not in listing.listed(served.results)["redis"]
        with pytest.raises(MachineError, match=r"the keeper, in another container or .*, does not take 'redis' off"):
            served.stop()
    assert served.in_force.exists()


@pytest.mark.parametrize("is_killed_while_stop_waits", [False, True])
@pytest.mark.slow
def test_what_a_killed_keeper_has_left_in_force_is_taken_back(
    host: Folder, monkeypatch: pytest.MonkeyPatch, is_killed_while_stop_waits: bool
) -> None:
    served = Served(host.host, "keep")
    served.hang()
    if is_killed_while_stop_waits:
        monkeypatch.setattr(keeper, "STOP_S", 60.0)
        ending = threading.Thread(target=lambda: (until(served.journal.stopping), served.kill()))
        ending.start()
    else:
        with pytest.raises(MachineError):
            served.stop()
        served.kill()
        line = listing.describe("redis", listing.listed(served.results)["redis"])
        assert "what was in force stays until damoos has the machine again" in line
        assert line.endswith("'damoos stop redis'")
    host.is_away = True
    if not is_killed_while_stop_waits:
        with pytest.raises(MachineError, match="'redis' may still be in force"):
            served.stop()
        assert served.in_force.exists()
    host.is_away = False
    assert served.stop() == "redis"
    assert not served.in_force.exists()
    assert listing.listed(served.results) == {}
    assert not list(served.journal.folder.glob("redis.[js]*"))


def test_an_empty_name_stops_nothing(tmp_path: Path) -> None:
    for name in ("db", "web"):
        Journal.of(tmp_path, name).want(name, spec(machine=name))
    done = CliRunner().invoke(app, ["stop", "", "--results", str(tmp_path)])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == "NAME is empty; name something, or leave it out"
    with pytest.raises(ConfigError, match="'' is not in service"):
        keeper.stop(tmp_path, "")
    assert listing.listed(tmp_path).keys() == {"db", "web"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_all_are_stopped_but_those_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Exit code 2 where the file is of another machine, 3 where the machine cannot be had."""
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: away)
    away = Folder(tmp_path)
    away.is_away = True
    for machine, name, more in (
        ("a", "foreign", {"machine": "elsewhere", "on_exit": "keep"}),
        ("b", "away", {"on_exit": "keep"}),
        ("c", "good", {}),
    ):
        Journal.of(tmp_path, machine).want(name, spec(**{"machine": machine, **more}))
    done = CliRunner().invoke(app, ["stop", "--all", "--results", str(tmp_path), "--format", form])
    assert done.exit_code == 3
    first, second = done.stderr.splitlines()
    assert first.startswith("damoos: 'foreign' is for machine 'elsewhere'")
    assert second.startswith("damoos: 'away' may still be in force")
    assert (
        [one["name"] for one in json.loads(done.stdout)] == ["good"]
        if form == "json"
        else done.stdout == "stopped: good: senpai is off unit:redis.service of machine c\n"
    )
    assert listing.listed(tmp_path).keys() == {"foreign", "away"}


def test_a_state_without_a_keeper_is_lost(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "there")
    journal.tell("redis", STATE)
    assert "no keeper runs, so the machine is as it was before" in listing.listed(tmp_path)["redis"]["lost"]
    journal.want("redis", spec(machine="there", on_exit="keep"))
    stop(journal, "redis")
    assert "it has no guard" in listing.listed(tmp_path)["redis"]["lost"]


def test_a_keeper_takes_back_what_the_one_before_was_to_stop(kept_by: tuple[Journal, Host, dict[str, Any]]) -> None:
    """The agent of its lease has; it says so once that is open, and not before."""
    journal, host, wanted = kept_by
    journal.want("redis", {**wanted, "on_exit": "keep"})
    journal.tell("redis", STATE)
    stop(journal, "redis")
    journal.want("nginx", {**wanted, "name": "nginx"})
    journal.confirm("nginx", wanted["on"])
    host.lost_for = 1_000_000
    thread = run(journal)
    until(lambda: journal.states().get("nginx", {}).get("out_of_reach"))
    assert journal.stopping()
    host.lost_for = 0
    until(lambda: not journal.stopping())
    assert "redis" not in journal.states()
    until(lambda: "nginx" in host.applied)
    stop(journal, "nginx")
    thread.join(60)
    assert (host.applied, journal.stopping(), journal.states()) == ({}, {}, {})


def test_what_stays_without_its_agent_is_off_only_once_its_machine_says_so(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, _, wanted = kept_by
    journal.want("redis", {**wanted, "on_exit": "keep"})
    thread = run(journal)
    until(lambda: journal.wanted()["redis"].get("confirmed"))
    called = Session.call

    def lost(session: Session, name: str, **args: Any) -> Any:
        if name == "stop":
            raise MachineLost("there: hung up")
        return called(session, name, **args)

    with monkeypatch.context() as patched:
        patched.setattr(Session, "call", lost)
        stop(journal, "redis")
        thread.join(60)
    assert "redis" in journal.stopping()
    assert "redis" in journal.states()
    assert keeper.stop(journal.folder.parent.parent)[0] == "redis"
    assert (journal.stopping(), journal.states()) == ({}, {})


REFUSED = ConfigError("root@there:22: login refused: No authentication methods available")


def until_in_service(journal: Journal, host: Host, name: str = "redis") -> None:
    until(lambda: name in host.applied and journal.wanted()[name].get("confirmed"))


def in_service(kept_by: tuple[Journal, Host, dict[str, Any]], **words: str) -> tuple[Journal, Host, threading.Thread]:
    """Have a policy in service, its specification changed by some words; the thread of its keeper."""
    journal, host, wanted = kept_by
    journal.want("redis", {**wanted, **words})
    thread = run(journal)
    until_in_service(journal, host)
    return journal, host, thread


def line(journal: Journal, name: str = "redis") -> str:
    return listing.describe(name, listing.of_machine(journal)[name])


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_what_stays_is_not_forgotten_by_a_keeper_that_may_not_log_in(
    kept_by: tuple[Journal, Host, dict[str, Any]], is_confirmed: bool
) -> None:
    """After a boot of its computer, say, when nobody has given the SSH agent its keys yet."""
    journal, host, wanted = kept_by
    host.refuses = REFUSED
    journal.want("redis", {**wanted, "on_exit": "keep"})
    journal.begin("redis")
    if is_confirmed:
        journal.confirm("redis", wanted["on"])
    thread = run(journal)
    until(lambda: journal.states().get("redis", {}).get("out_of_reach") == str(REFUSED))
    host.refuses = None
    until_in_service(journal, host)
    stop(journal, "redis")
    thread.join(60)
    assert (host.applied, journal.stopping(), journal.states()) == ({}, {}, {})


def test_what_is_to_be_undone_has_failed_where_nobody_may_log_in(kept_by: tuple[Journal, Host, dict[str, Any]]) -> None:
    journal, host, wanted = kept_by
    host.refuses = REFUSED
    journal.want("redis", wanted)
    journal.confirm("redis", wanted["on"])
    run(journal).join(60)
    assert journal.states()["redis"]["failed"] == str(REFUSED)
    assert journal.wanted() == {}


def test_what_is_to_be_off_stays_so_where_its_machine_has_no_file(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, _, wanted = kept_by
    journal.want("redis", {**wanted, "on_exit": "keep"})
    stop(journal, "redis")

    def no_file(name: str, kernel: str | None = None) -> FakeMachine:
        raise ConfigError(f"{name}: there is no such file")

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "machine", no_file)
        run(journal).join(60)
        assert "fake: there is no such file" in journal.states()["redis"]["unconfirmed"]
        with pytest.raises(ConfigError, match="there is no such file"):
            keeper.stop(journal.folder.parent.parent)
    assert "it has no guard" in line(journal)
    assert keeper.stop(journal.folder.parent.parent)[0] == "redis"
    assert (journal.stopping(), journal.states()) == ({}, {})


@pytest.mark.parametrize("on_exit", ["undo", "keep"])
def test_what_could_not_be_taken_off_when_it_failed_is_taken_off_later(
    kept_by: tuple[Journal, Host, dict[str, Any]], on_exit: str
) -> None:
    journal, host, thread = in_service(kept_by, on_exit=on_exit)
    host.fails = {"stop": REFUSED, "status": REFUSED}
    until(lambda: "unconfirmed" in journal.states()["redis"])
    assert "redis" in journal.stopping()
    assert " may be in force on " in line(journal)
    thread.join(60)
    assert "unconfirmed" in journal.states()["redis"]
    host.fails = {}
    name, state = keeper.stop(journal.folder.parent.parent)
    assert "is no longer on" in listing.describe(name, state)
    assert (host.applied, journal.stopping(), journal.states()) == ({}, {}, {})


@pytest.mark.parametrize("on_exit", ["undo", "keep"])
def test_stop_does_not_say_stopped_of_what_its_machine_could_not_undo(
    kept_by: tuple[Journal, Host, dict[str, Any]], on_exit: str
) -> None:
    journal, host, thread = in_service(kept_by, on_exit=on_exit)
    results = journal.folder.parent.parent
    host.fails = {"stop": MachineError("the agent could not undo: memory.high")}
    host.left_behind = ["memory.high of redis"]
    stop(journal, "redis")
    thread.join(60)
    assert "redis: may be in force on" in line(journal)
    host.fails = {}
    with pytest.raises(MachineError, match=r"may still be in force: .* could not undo memory\.high of redis"):
        keeper.stop(results)
    host.left_behind = []
    assert keeper.stop(results)[0] == "redis"
    assert listing.listed(results) == {}


@pytest.mark.parametrize("ending", ["json", "stopping"])
@pytest.mark.slow
def test_what_stays_is_taken_back_although_its_file_is_damaged(host: Folder, ending: str) -> None:
    served = Served(host.host, "keep")
    served.kill()
    if ending == "stopping":
        served.journal.stop("redis")
    file = served.journal.folder / f"redis.{ending}"
    file.write_bytes(file.read_bytes()[:100])
    line = listing.describe("redis", listing.listed(served.results)["redis"])
    assert "may be in force on" in line
    host.is_away = True
    with pytest.raises(MachineError, match="'redis' may still be in force"):
        served.stop()
    host.is_away = False
    assert served.stop() == "redis"
    assert not served.in_force.exists()
    assert listing.listed(served.results) == {}


def test_one_that_a_machine_refuses_does_not_take_off_the_others(kept_by: tuple[Journal, Host, dict[str, Any]]) -> None:
    wanted = kept_by[2]
    journal, host, thread = in_service(kept_by)
    called = host.calls.count(("stop", "redis"))
    host.fails = {"apply": MachineBusy("'redis' has DAMON on this machine")}
    journal.want("nginx", {**wanted, "name": "nginx", "confirmed": True})  # at once: an unconfirmed one is refused
    until(lambda: "'redis' has DAMON" in journal.states().get("nginx", {}).get("out_of_reach", ""))
    assert "redis" in host.applied
    host.fails = {}
    until_in_service(journal, host, "nginx")
    assert host.calls.count(("stop", "redis")) == called
    stop(journal, "redis")
    stop(journal, "nginx")
    thread.join(60)


def test_a_name_is_given_to_one(tmp_path: Path) -> None:
    """Two that apply at once cannot both look before either has its name."""
    inside, both = threading.Barrier(2), []

    def give(machine: str) -> None:
        inside.wait()
        with contextlib.suppress(ConfigError), naming(tmp_path, "redis"):
            Journal.of(tmp_path, machine).want("redis", spec(machine=machine))
            both.append(machine)

    threads = [threading.Thread(target=give, args=(machine,)) for machine in ("web1", "web2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert list(listing.listed(tmp_path)) == ["redis"]
    (one,) = both
    with naming(tmp_path, "redis", one):  # a unit is written anew
        pass


def test_a_name_on_two_machines_is_told_and_taken_off_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for machine in ("web1", "web2"):
        Journal.of(tmp_path, machine).want("redis", spec(machine=machine))
    assert list(listing.listed(tmp_path)) == ["redis"]
    assert "'redis' is in service on web1 and on web2; 'damoos stop redis' takes both off" in capsys.readouterr().err
    keeper.stop(tmp_path, "redis")
    assert listing.listed(tmp_path) == {}


def test_what_may_be_in_force_is_stopped_before_its_name_is_given_again(host: Folder) -> None:
    served = Served(host.host, "keep")
    served.kill()
    (served.journal.folder / "redis.json").write_text("{")
    assert "may be in force" in line(served.journal)
    with pytest.raises(ConfigError, match="'redis' is in service already; end that with 'damoos stop redis'"):
        keeper.apply(spec(machine="there", results=str(served.results), on_exit="keep"))
    assert served.in_force.exists()
    assert served.stop() == "redis"
    assert not served.in_force.exists()


@pytest.mark.parametrize("on_exit", ["undo", "keep"])
def test_what_would_be_forgotten_is_not_put_into_force(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, on_exit: str
) -> None:
    """A full disk takes no line that says that it has begun."""
    journal, host, wanted = kept_by
    journal.want("redis", {**wanted, "on_exit": on_exit})
    write = Journal._write

    def full(self: Journal, file: Path, value: dict[str, Any], *, sync: bool = False) -> None:
        if sync:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, file, value)

    monkeypatch.setattr(Journal, "_write", full)
    thread = run(journal)
    if on_exit == "undo":
        until(lambda: host.applied)
        stop(journal, "redis")
    thread.join(60)
    assert (("apply", "redis") in host.calls) == (on_exit == "undo")
    if on_exit == "keep":
        assert "would be forgotten" in journal.states()["redis"]["error"]["message"]


def test_nobody_else_can_open_a_lock(tmp_path: Path) -> None:
    """Whoever may read a file may lock it, and everybody who changes the journal would wait for that."""
    journal = Journal.of(tmp_path, "there")
    old = journal.folder / ".changing"
    old.touch(0o644)
    with naming(tmp_path, "redis"), journal.changing():
        pass
    assert [file.stat().st_mode & 0o777 for file in (old, journal.folder.parent / ".naming")] == [0o600, 0o600]


def test_a_keeper_that_stays_takes_off_what_has_lost_its_file(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, host, _ = kept_by
    journal.tell("redis", {**STATE, "machine": "fake", "failed": "damaged", "unconfirmed": "it stays"})
    own, woken, is_over = PatientJournal(journal.folder), threading.Event(), threading.Event()
    assert own.take()

    def wait(timeout: float) -> None:
        if is_over.wait(0.01):
            raise keeper._Stopped

    def keep() -> None:
        with contextlib.suppress(keeper._Stopped):
            keeper.Keeper(own, woken).run(True)

    monkeypatch.setattr(woken, "wait", wait)
    thread = threading.Thread(target=keep)
    thread.start()
    try:
        until(lambda: "unconfirmed" not in journal.states()["redis"])
    finally:
        is_over.set()
        thread.join(60)
    assert ("stop", "redis") in host.calls


def test_a_machine_that_refuses_the_only_policy_is_not_asked_at_each_look(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, host, wanted = kept_by
    monkeypatch.setattr(keeper, "RETRY_S", 1000.0)
    host.fails = {"apply": MachineBusy("somebody uses DAMON")}
    journal.want("redis", wanted)
    journal.confirm("redis", wanted["on"])
    own, woken = PatientJournal(journal.folder), threading.Event()
    assert own.take()
    waits: list[float] = []
    monkeypatch.setattr(woken, "wait", lambda timeout: waits.append(timeout) or journal.stop("redis"))
    keeper.Keeper(own, woken).run(False)
    assert waits[0] == 1000.0


@pytest.mark.parametrize("is_stopped", [False, True])
def test_the_last_word_of_an_agent_is_not_lost(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    """It could not undo all: a keeper that was told to end does so, and what is in force is not called off."""
    journal, host, wanted = kept_by
    journal.want("redis", wanted)
    own, woken = PatientJournal(journal.folder), threading.Event()
    assert own.take()

    def close(session: Session) -> None:
        raise MachineError("the agent could not undo: swap")

    def end(timeout: float) -> None:
        if is_stopped:
            stop(journal, "redis")
        else:
            raise keeper._Stopped

    with monkeypatch.context() as patched:
        patched.setattr(Session, "close", close)
        patched.setattr(woken, "wait", end)
        if is_stopped:
            host.left_behind = ["swap"]
            keeper.Keeper(own, woken).run(False)
        else:
            with pytest.raises(keeper._Stopped):
                keeper.Keeper(own, woken).run(False)
            own.leave()
    assert journal.states()["redis"]["unconfirmed"] == "the agent could not undo: swap"
    assert "redis: may be in force" in line(journal)
    assert ("redis" in journal.wanted()) == (not is_stopped)
    host.left_behind = []
    assert keeper.stop(journal.folder.parent.parent)[0] == "redis"
    assert (journal.wanted(), journal.stopping(), journal.states()) == ({}, {}, {})


def test_an_agent_that_lets_nobody_in_has_not_undone_its_policy(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs: its controller hears nothing of it, and the next agent hears that there is one."""
    journal, host, thread = in_service(kept_by)
    results = journal.folder.parent.parent
    lost = MachineLost("the machine shows that it lives, and has not answered for 600 s")
    with monkeypatch.context() as patched:
        patched.setattr(Session, "close", lambda session: None)
        host.refuses = MachineBusy("another damoos agent works on this machine")
        host.fails = dict.fromkeys(("status", "stop"), lost)
        until(lambda: "out_of_reach" in journal.states()["redis"])
        stop(journal, "redis")
        thread.join(60)
        assert "redis" in host.applied
        assert "redis" in journal.stopping()
        assert journal.states()["redis"]["unconfirmed"] == str(host.refuses)
        with pytest.raises(MachineError, match=r"'redis' may still be in force: .*another damoos agent works"):
            keeper.stop(results)
        later = liveness._steady_s() + 86_400.0
        patched.setattr(liveness, "_steady_s", lambda: later)
        with pytest.raises(MachineError, match="'redis' may still be in force"):
            keeper.stop(results)
    host.refuses, host.fails = None, {}
    assert keeper.stop(results)[0] == "redis"
    assert listing.listed(results) == {}


def test_a_lost_line_is_no_confirmation_until_the_agent_has_had_the_time_to_end(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, host, thread = in_service(kept_by)
    results = journal.folder.parent.parent
    monkeypatch.setattr(Session, "close", lambda session: None)
    host.refuses = MachineLost("there: no route to host")
    host.fails = {"status": host.refuses, "stop": host.refuses}
    stop(journal, "redis")
    thread.join(60)
    assert "redis" in host.applied
    assert "redis: may be in force on" in line(journal)
    assert "its machine takes it off by itself" in line(journal)
    with pytest.raises(MachineError, match="'redis' may still be in force"):
        keeper.stop(results)
    later = liveness._steady_s() + 86_400.0
    monkeypatch.setattr(liveness, "_steady_s", lambda: later)
    assert "redis: is not in force" in line(journal)
    assert keeper.stop(results)[0] == "redis"
    assert listing.listed(results) == {}


@pytest.mark.parametrize("how", ["killed", "rebooted"])
@pytest.mark.slow
def test_what_a_killed_keeper_was_to_undo_is_asked_for_on_its_machine(
    host: Folder, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The line may break later than the keeper ends, and the agent ends after that."""
    served = Served(host.host, "undo")
    served.kill()
    if how == "rebooted":  # this computer, a moment ago
        monkeypatch.setattr(liveness, "_steady_s", lambda: 1.0)
    host.is_away = True
    with pytest.raises(MachineError, match="'redis' may still be in force"):
        served.stop()
    host.is_away = False
    assert served.stop() == "redis"
    assert not served.in_force.exists()


def test_a_guard_that_cannot_take_a_policy_off_does_not_call_it_off(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = kept_by[2]
    journal, host, thread = in_service(kept_by)
    lost = MachineLost("there: hung up")
    with monkeypatch.context() as patched:
        patched.setattr(Session, "close", lambda session: None)
        host.fails = {"status": MachineError("its kdamond has ended"), "stop": lost}
        until(journal.stopping)
        host.refuses = lost
        thread.join(60)
        assert "redis" in host.applied
        assert "redis: senpai may be in force on" in line(journal).replace(wanted["scheme"], "senpai")
    host.refuses, host.fails = None, {}
    name, state = keeper.stop(journal.folder.parent.parent)
    assert "is no longer on" in listing.describe(name, state)


@pytest.mark.parametrize("ending", ["json", "stopping"])
@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.slow
def test_what_cannot_be_read_may_be_in_force(
    host: Folder, monkeypatch: pytest.MonkeyPatch, ending: str, has_state: bool
) -> None:
    served = Served(host.host, "keep")
    served.kill()
    if ending == "stopping":
        served.journal.stop("redis")
    if not has_state:
        served.journal.tell("redis", None)
    whole = regular_file.whole

    def broken(path: Path, most_bytes: int) -> bytes:
        if path.suffix in (".json", ".stopping"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return whole(path, most_bytes)

    with monkeypatch.context() as patched:
        patched.setattr(regular_file, "whole", broken)
        assert "redis: " in line(served.journal)
        if has_state:
            host.is_away = True
        with pytest.raises(MachineError, match="'redis' may still be in force"):
            served.stop()
        assert served.in_force.exists()
        own = PatientJournal(served.journal.folder)  # a keeper that begins now knows no more
        assert own.take()
        keeper.Keeper(own, threading.Event()).run(False)
        assert served.in_force.exists()
    host.is_away = False
    assert list(served.journal.folder.glob("redis.stopping"))
    assert served.stop() == "redis"
    assert not served.in_force.exists()


@pytest.mark.parametrize("how", ["full", "link"])
@pytest.mark.slow
def test_a_damaged_file_of_what_stays_is_no_reason_to_forget_it_where_nothing_can_be_written(
    host: Folder, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    served = Served(host.host, "keep")
    served.kill()
    file, audit = served.journal.folder / "redis.json", served.journal.folder / "audit.log"
    file.write_bytes(file.read_bytes()[:100])

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        if how == "link":
            audit.rename(host.host / "elsewhere")
            audit.symlink_to(host.host / "elsewhere")
        else:
            patched.setattr("damoos.service.journal.append", full)
            patched.setattr("damoos.service.journal.fill", full)
        host.is_away = True
        with pytest.raises(MachineError, match="'redis' may still be in force"):
            served.stop()
        host.is_away = False
        assert served.stop() == "redis"
    assert not served.in_force.exists()


def left_in_force(journal: Journal, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper is killed, and its machine keeps the policy."""
    journal.want("redis", wanted)
    own, woken = PatientJournal(journal.folder), threading.Event()
    assert own.take()

    def killed(timeout: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Session, "close", lambda session: None)
        patched.setattr(woken, "wait", killed)
        with pytest.raises(KeyboardInterrupt):
            keeper.Keeper(own, woken).run(False)
    own.leave()


@pytest.mark.parametrize("words", [["--on-exit", "keep"], []])
def test_a_unit_does_not_forget_what_is_in_force(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """'also for what is applied later' is its documentation, and it is asked for after that."""
    journal, host, wanted = kept_by
    results = journal.folder.parent.parent
    wanted = {**wanted, "on_exit": "keep", "on": {"kind": "unit", "name": "redis.service"}}
    left_in_force(journal, wanted, monkeypatch)
    unit = ["apply", wanted["study"], "--arm", "manual", "--machine", "fake", "--on", "unit:redis.service", "--unit"]
    done = CliRunner().invoke(app, [*unit, *words, "--results", str(results)])
    assert done.exception is None
    known = journal.wanted()["redis"]
    assert (known["on_exit"], known["begun"], known["confirmed"]) == ("keep", True, True)
    host.refuses = REFUSED
    thread = run(journal)
    until(lambda: journal.states().get("redis", {}).get("out_of_reach") == str(REFUSED))
    stop(journal, "redis")
    thread.join(60)
    assert "redis" in listing.listed(results)
    done = CliRunner().invoke(app, [*unit, "--results", str(results)])
    assert str(done.exception).startswith("'redis' is in service already; end that with 'damoos stop redis'")
    host.refuses = None
    assert keeper.stop(results)[0] == "redis"
    assert listing.listed(results) == {}


def test_a_second_machine_of_one_folder_is_refused(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "/etc/web-1.toml")
    journal.want("redis", spec(machine="/etc/web-1.toml"))
    for second in ("/etc/web_1.toml", "/etc-web-1.toml"):
        assert Journal.of(tmp_path, second).folder == journal.folder
        with pytest.raises(ConfigError, match=f"machine '{second}' cannot have .* of machine '/etc/web-1.toml'"):
            keeper.apply(spec(machine=second, results=str(tmp_path)) | {"name": "nginx"})
    journal.stop("redis")
    journal.stopped("redis")
    journal.want("redis", spec(machine="/etc/web_1.toml"))


def test_another_host_cannot_say_that_a_policy_is_off(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of its machine was edited, or its name leads elsewhere."""
    journal, host, wanted = kept_by
    results = journal.folder.parent.parent
    facts = {"hostname": "db7", "boot_id": "1"}
    monkeypatch.setattr(Session, "facts", facts)
    left_in_force(journal, {**wanted, "on_exit": "keep"}, monkeypatch)
    monkeypatch.setattr(Session, "facts", {"hostname": "db8", "boot_id": "2"})
    thread = run(journal)
    until(lambda: "is host 'db8' now, and it stays on host 'db7'" in journal.states()["redis"].get("out_of_reach", ""))
    assert host.calls.count(("apply", "redis")) == 1
    stop(journal, "redis")
    thread.join(60)
    with pytest.raises(MachineError, match="is host 'db8' now, and it was put on host 'db7'"):
        keeper.stop(results)
    monkeypatch.setattr(Session, "facts", {"hostname": "db7", "boot_id": "3"})  # it has booted
    assert keeper.stop(results)[0] == "redis"
    assert listing.listed(results) == {}


def unlisted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the ticket for a home by NFS has expired, or a disk fails."""
    listdir, scandir = os.listdir, os.scandir

    def refused(of: Any) -> Any:
        def called(path: Any = ".") -> Any:
            if str(path) == str(folder):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return of(path)

        return called

    monkeypatch.setattr(os, "listdir", refused(listdir))
    monkeypatch.setattr(os, "scandir", refused(scandir))


@pytest.mark.parametrize("how", ["open to a group", "not listed", "none is listed"])
def test_a_folder_of_services_that_cannot_be_used_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    folder = Journal.of(tmp_path, "there").folder
    Journal.of(tmp_path, "there").want("redis", spec(machine="there"))
    if how == "open to a group":
        folder.chmod(0o775)
    else:
        unlisted(folder if how == "not listed" else folder.parent, monkeypatch)
    for words in (["stop", "--all"], ["stop", "redis"], ["stop"], ["status"], ["status", "redis"]):
        for form in ("text", "json"):
            done = CliRunner().invoke(app, [*words, "--results", str(tmp_path), "--format", form])
            assert done.exit_code == 3 or isinstance(done.exception, MachineError), words
            assert "nothing is in service" not in f"{done.stdout}{done.exception}"
            assert str(folder if how != "none is listed" else folder.parent) in done.stderr
    if how != "none is listed":
        Journal.of(tmp_path, "elsewhere").want("nginx", spec(machine="elsewhere"))
        assert CliRunner().invoke(app, ["status", "nginx", "--results", str(tmp_path)]).exit_code == 0
        done = CliRunner().invoke(app, ["stop", "--all", "--results", str(tmp_path)])
        assert (done.exit_code, done.stdout[:14]) == (3, "stopped: nginx")
    monkeypatch.undo()
    folder.chmod(0o755)
    assert listing.listed(tmp_path).keys() == {"redis"}


def test_a_keeper_that_may_not_read_its_folder_takes_nothing_off(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, host, thread = in_service(kept_by)
    with monkeypatch.context() as patched:
        unlisted(journal.folder, patched)
        looks = host.calls.count(("status", "redis"))
        until(lambda: host.calls.count(("status", "redis")) > looks + 3)
        assert ("stop", "redis") not in host.calls
    stop(journal, "redis")
    thread.join(60)
    assert host.applied == {}


@pytest.mark.parametrize("ended_by", ["its guard", "itself", "a refusal"])
def test_the_last_word_of_an_agent_is_not_lost_whatever_has_ended_its_policy(
    kept_by: tuple[Journal, Host, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    journal, host, wanted = kept_by
    results, last = journal.folder.parent.parent, "the agent could not undo: swap: " + "x" * (2 << 20)
    journal.want("redis", {**wanted, "on_exit": "keep"})
    if ended_by == "a refusal":
        host.fails = {"apply": MachineError("memory.high cannot be set")}

    def close(session: Session) -> None:
        raise MachineError(last)

    with monkeypatch.context() as patched:
        patched.setattr(Session, "close", close)
        host.left_behind = ["swap: " + "x" * (2 << 20)]
        thread = run(journal)
        if ended_by != "a refusal":
            until_in_service(journal, host)
        if ended_by == "its guard":
            host.fails = {"status": MachineError("p99_ms is 100")}
        elif ended_by == "itself":
            patched.setitem(ON, "alive", False)
        thread.join(60)
    assert "redis: may be in force: the agent could not undo: swap" in (journal.folder / "audit.log").read_text()
    assert " may be in force on " in line(journal)
    host.fails = {}
    with pytest.raises(MachineError, match=r"'redis' may still be in force: .* could not undo swap"):
        keeper.stop(results)
    host.left_behind = []
    assert keeper.stop(results)[0] == "redis"
    assert listing.listed(results) == {}
