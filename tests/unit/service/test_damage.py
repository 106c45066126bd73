"""A journal of which a file is damaged: it is set aside and named, and everything else goes on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from damoos.cli import app
from damoos.errors import ConfigError
from damoos.service import keeper, listing
from damoos.service.journal import Journal
from damoos.service.patient import PatientJournal
from damoos.service.windows import Windows
from damoos.testing.rollout_fleet import spec
from tests.conftest import until
from tests.unit.service.conftest import Host, run
from tests.unit.service.test_keeper import STATE

SPEC = spec(machine="there")


def text(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content) and None


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": text('{"study": "s", "mach'),
    "empty": lambda path: path.touch(),
    "not JSON": lambda path: path.write_bytes(b"\xff\x00\x13") and None,
    "a list": text("[]"),
    "a number": text("3"),
    "deep": text("[" * 100_000),
    "no keys": text('{"in_force": "perhaps"}'),
    "wrong types": text(json.dumps({**SPEC, **STATE, "wanted_s": 1.0, "study": 3})),
    "an unknown option": text(json.dumps({**SPEC, "wanted_s": 1.0, "run": {"machien": "x"}, "in_force": 3})),
    "an endless number": text(json.dumps({**SPEC, **STATE, "wanted_s": float("inf"), "for_s": float("inf")})),
    "a number beyond floats": text(
        json.dumps({**SPEC, **STATE, "wanted_s": 1.0, "for_s": 1.0}).replace("1.0", "1e999")
    ),
    "a time of no clock": text(json.dumps({**SPEC, **STATE, "wanted_s": 1e18, "for_s": 1e18})),
    "a number of 400 digits": text(json.dumps({**SPEC, **STATE, "wanted_s": 1.0, "for_s": 10**400})),
    "no target": text(json.dumps({**SPEC, "wanted_s": 1.0, "run": {"machine": "x"}, "watched": 3})),
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link through a file": lambda path: path.symlink_to("/etc/passwd/x"),
    "a link to a long name": lambda path: path.symlink_to("x" * 300),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", ["json", "state"])
@pytest.mark.slow
def test_the_others_are_told_and_stopped(tmp_path: Path, suffix: str, damage: str) -> None:
    journal = Journal.of(tmp_path, "there")
    for name in ("nginx", "redis"):
        journal.want(name, SPEC)
        journal.tell(name, STATE)
    file = journal.folder / f"nginx.{suffix}"
    file.unlink()
    DAMAGES[damage](file)
    done = CliRunner().invoke(app, ["status", "--results", str(tmp_path)])
    assert done.exception is None
    assert "redis: is not in force on unit:redis.service of machine there" in done.stdout
    (line,) = done.stderr.splitlines() or [""]
    assert line.startswith(f"damoos: {file}: ")
    assert line.endswith(f"; set aside as nginx.{suffix}.bad")
    assert os.path.lexists(f"{file}.bad"), "it must never be deleted"
    (audit,) = (journal.folder / "audit.log").read_text().splitlines()
    assert f" nginx: nginx.{suffix} is damaged, set aside as nginx.{suffix}.bad: " in audit
    done = CliRunner().invoke(app, ["stop", "redis", "--results", str(tmp_path)])
    assert (done.exception, done.stderr) == (None, ""), "it is said once"


def test_what_lost_its_file_is_told_as_failed(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "there")
    journal.want("redis", SPEC)
    journal.tell("redis", STATE)
    (journal.folder / "redis.json").write_text("{")
    state = listing.listed(tmp_path)["redis"]
    assert "redis.json was damaged" in state["failed"]
    assert state["failed"].endswith("is redis.json.bad now; apply it again")
    assert not state["in_force"]
    assert listing.describe("redis", keeper.stop(tmp_path)[1]).startswith("redis: senpai is no longer on")


def test_a_link_to_itself_blinds_no_keeper_to_what_a_person_stops(tmp_path: Path) -> None:
    journal = PatientJournal(tmp_path)
    Journal(tmp_path).want("redis", SPEC)
    assert set(journal.wanted()) == {"redis"}
    (tmp_path / "bad.json").symlink_to("bad.json")
    Journal(tmp_path).forget("redis")
    Journal(tmp_path).want("nginx", SPEC)
    assert set(journal.wanted()) == {"nginx"}
    assert not journal.is_failing


def test_a_file_that_its_folder_does_not_give_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    for name in ("nginx", "redis"):
        journal.want(name, SPEC)

    def lstat(path: Path) -> os.stat_result:
        if path.name == "nginx.json":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return os.lstat(path)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert set(journal.wanted()) == {"redis"}
    monkeypatch.undo()
    assert set(journal.wanted()) == {"nginx", "redis"}, "a disk that fails once damages no file"


def test_a_second_damaged_file_does_not_take_the_place_of_the_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for content in ("one", "two"):
        (tmp_path / "redis.json").write_text(content)
        assert journal.wanted() == {}
    assert [(tmp_path / name).read_text() for name in ("redis.json.bad", "redis.json.bad-2")] == ["one", "two"]


def test_of_a_state_that_is_damaged_again_and_again_the_last_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for content in ("one", "two", "three"):
        (tmp_path / "redis.state").write_text(content)
        for _ in range(2):
            assert "redis.state was damaged" in journal.states()["redis"]["unconfirmed"]
    assert [file.read_text() for file in tmp_path.glob("redis.state.*")] == ["three"]


def test_a_file_that_only_seems_to_be_one_keeps_no_keeper_from_the_others(kept_by: tuple[Journal, Host, dict]) -> None:
    journal, host, wanted = kept_by
    journal.want("nginx", {**wanted, "name": "nginx", "metrics": [[]]})
    journal.want("redis", {**wanted, "name": "redis"})
    thread = run(journal)
    until(lambda: journal.wanted().get("redis", {}).get("confirmed"))
    assert set(host.applied) == {"redis"}
    assert "it cannot be put into force: " in journal.states()["nginx"]["error"]["message"]
    journal.forget("redis")
    thread.join(60)
    assert host.applied == {}


def test_a_keeper_goes_on_with_the_others(kept_by: tuple[Journal, Host, dict]) -> None:
    journal, host, wanted = kept_by
    for name in ("nginx", "redis"):
        journal.want(name, {**wanted, "name": name})
    thread = run(journal)
    # What is damaged before its first state is told is taken off without one.
    until(lambda: all(journal.states().get(name, {}).get("in_force") for name in ("nginx", "redis")))
    (journal.folder / "nginx.json").write_text("{")
    until(lambda: set(host.applied) == {"redis"})
    (journal.folder / "redis.state").write_bytes(b"\xff")
    until(lambda: journal.states().get("redis", {}).get("in_force"))
    assert "damaged" in listing.listed(journal.folder.parents[1])["nginx"]["failed"]
    journal.forget("redis")
    thread.join(60)
    assert host.applied == {}


def test_damaged_lines_of_windows_are_passed_over(tmp_path: Path) -> None:
    good = {"at_s": 1.0, "paused": False, "net_bytes": 3, "watched": {}}
    lines = [
        json.dumps(good),
        "[]",
        '{"at_s": "x"}',
        '{"at_s": 2, "watched": [1]}',
        "\x00",
        json.dumps({**good, "at_s": 3}),
    ]
    (tmp_path / "redis.windows").write_text("\n".join(lines) + "\n")
    assert [window["at_s"] for window in Windows(tmp_path, "redis").read()] == [1.0, 3]
    os.mkfifo(tmp_path / "nginx.windows")
    assert Windows(tmp_path, "nginx").read() == []


COMPUTED = {"late": "x" * 600, "lost": "no keeper runs", "stopping": True, "unwritten": [1], "keeper_pid": 1}


@pytest.mark.parametrize("key", COMPUTED)
def test_what_damoos_computes_is_not_taken_from_a_file(tmp_path: Path, key: str) -> None:
    """Its keeper lives, and cannot reach the machine: so it does not write the state anew."""
    journal = Journal.of(tmp_path, "there")
    journal.want("redis", spec(machine="there"))
    assert journal.take()
    state = {"in_force": True, "machine": "there", "scheme": "senpai"}
    journal.tell("redis", state)
    without = (listing.of_machine(journal), status(tmp_path))
    journal.tell("redis", {**state, key: COMPUTED[key]})
    assert (listing.of_machine(journal), status(tmp_path)) == without
    journal.leave()


@pytest.mark.parametrize("key", ["arm", "verdict", "guards"])
@pytest.mark.parametrize("value", [3, None], ids=str)
def test_a_state_of_another_type_hides_nothing_else(tmp_path: Path, key: str, value: object) -> None:
    journal = Journal.of(tmp_path, "there")
    journal.want("well", spec(machine="there"))
    journal.tell("bad", {"machine": "there", key: value})
    assert "well: " in status(tmp_path)
    assert "bad.state was damaged" in status(tmp_path)


def status(results: Path) -> str:
    done = CliRunner().invoke(app, ["status", "--results", str(results)])
    assert done.exception is None
    return done.stdout


def test_a_service_that_cannot_be_told_of_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where damoos itself is wrong about what a state can hold."""
    for name in ("bad", "well"):
        Journal.of(tmp_path, "there").want(name, spec(machine="there"))
    describe = listing.describe

    def described(name: str, state: dict[str, Any]) -> str:
        if name == "bad":
            raise TypeError("'int' object is not iterable")
        return describe(name, state)

    monkeypatch.setattr(listing, "describe", described)
    assert "well: " in status(tmp_path)
    monkeypatch.setattr(keeper, "stop", lambda results, name: (name, {**STATE, "failed": "x"}))
    done = CliRunner().invoke(app, ["stop", "--all", "--results", str(tmp_path)])
    assert done.exception is None
    assert "'bad' cannot be read" in done.stderr
    assert "well: " in done.stdout


def test_what_its_keeper_has_taken_off_since_it_was_listed_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, stop = Journal.of(tmp_path, "there"), keeper.stop
    for name in ("first", "second"):
        journal.want(name, spec(machine="there"))

    def stopped(results: Path, name: str) -> tuple[str, dict[str, Any]]:
        journal.forget("second")
        return stop(results, name)

    monkeypatch.setattr(keeper, "stop", stopped)
    done = CliRunner().invoke(app, ["stop", "--all", "--results", str(tmp_path)])
    assert done.exception is None
    assert "stopped: first" in done.stdout
    assert "second" not in done.stderr


def test_a_file_of_another_machine_is_named(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "there")
    journal.tell("bad", {"unconfirmed": "the agent could not undo: swap", "machine": "elsewhere"})
    with pytest.raises(ConfigError, match=r"where 'bad' is in service \(says bad.state\).*run 'damoos stop bad'"):
        journal.want("redis", spec(machine="there"))
