"""'damoos stop' says that a policy is off only once it is: its keeper hangs, is killed, or is gone."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from damoos.cli import app
from damoos.errors import ConfigError, MachineError, MachineLost
from damoos.machines import catalog
from damoos.service import keeper, listing
from damoos.service.journal import Journal
from damoos.testing.fake import FakeMachine
from damoos.testing.rollout_fleet import spec
from tests.conftest import until
from tests.unit.service.conftest import Host, Session, run

STATE = {"study": "s", "machine": "there", "on": "unit:redis.service", "scheme": "senpai", "in_force": True}


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
        until(lambda: not self.journal.keeper_pid)

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


@pytest.mark.parametrize("is_killed_while_stop_waits", [False, True])
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
        else (done.stdout.startswith("stopped: good: ") and len(done.stdout.splitlines()) == 1)
    )
    assert listing.listed(tmp_path).keys() == {"foreign", "away"}


def test_a_state_without_a_keeper_is_lost(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "there")
    journal.tell("redis", STATE)
    assert "no keeper runs, so the machine is as it was before" in listing.listed(tmp_path)["redis"]["lost"]
    journal.want("redis", spec(machine="there", on_exit="keep"))
    journal.stop("redis")
    assert "it has no guard" in listing.listed(tmp_path)["redis"]["lost"]


def test_a_keeper_takes_back_what_the_one_before_was_to_stop(kept_by: tuple[Journal, Host, dict[str, Any]]) -> None:
    """The agent of its lease has; it says so once that is open, and not before."""
    journal, host, wanted = kept_by
    journal.want("redis", {**wanted, "on_exit": "keep"})
    journal.tell("redis", STATE)
    journal.stop("redis")
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
    journal.stop("nginx")
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
        journal.stop("redis")
        thread.join(60)
    assert "redis" in journal.stopping()
    assert "redis" in journal.states()
    assert keeper.stop(journal.folder.parent.parent)[0] == "redis"
    assert (journal.stopping(), journal.states()) == ({}, {})
