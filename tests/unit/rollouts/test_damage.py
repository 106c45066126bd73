"""A rollout whose files are damaged: it is named, and nothing else stops because of it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from damoos import regular_file
from damoos.cli import app
from damoos.errors import MachineError, StoreError
from damoos.rollouts import conduct
from damoos.rollouts.driver import Driver
from damoos.rollouts.kept_fleet import KeptFleet
from damoos.rollouts.rollout import Phase, Rollout, State
from damoos.service.journal import Journal
from damoos.store.artifacts import Artifacts
from damoos.testing.rollout_fleet import FakeFleet, fake_plan, spec

CONTENTS = ("", "{", "[]", "3", '{"state": "flying"}', '{"plan": {}, "schema": 1}', '{"step": "x"}', "[" * 100_000)


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: content[:20])
@pytest.mark.parametrize("file", ["rollout.json", "progress.json"])
@pytest.mark.slow
def test_what_is_in_service_is_told_all_the_same(tmp_path: Path, file: str, content: str) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2]))
    rollout.save()
    Journal.of(tmp_path, "there").want("redis", spec(machine="there"))
    (rollout.artifacts.path / file).write_text(content)
    for form in ("text", "json"):
        done = CliRunner().invoke(app, ["status", "--results", str(tmp_path), "--format", form])
        assert done.exception is None
        assert "redis" in done.stdout
        assert file in done.stdout + done.stderr
        assert len(done.stderr.splitlines()) == (file == "rollout.json")


@pytest.mark.parametrize(
    "plan",
    [
        {"spec": {}},
        {"spec": {**spec(), "guards": 3}},
        {"spec": {**spec(), "window_s": 0.0}},
        {"spec": {**spec(), "metrics": [[]]}},
        {"spec": {**spec(), "metrics": [["a", "command"]]}},
        {"steps": []},
        {"steps": [2, 1]},
        {"machines": []},
    ],
    ids=["no study", "guards", "window", "empty metric", "short metric", "no steps", "fewer", "no machines"],
)
def test_a_plan_of_other_types_is_named_by_the_status(tmp_path: Path, plan: dict[str, Any]) -> None:
    file = Rollout.create(tmp_path, fake_plan(2, [1, 2])).artifacts.path / "rollout.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "plan": {**content["plan"], **plan}}))
    done = CliRunner().invoke(app, ["status", "--results", str(tmp_path)])
    assert done.exception is None
    assert "rollout.json: key 'plan." in done.stderr


def test_a_step_that_the_plan_does_not_have_is_damage(tmp_path: Path) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2]))
    rollout.progress.step = 7
    rollout.save()
    done = CliRunner().invoke(app, ["status", "--results", str(tmp_path)])
    assert done.exception is None
    assert "progress.json: key 'step': there is no step 7" in done.stdout


@pytest.mark.parametrize("key", ["begun_s", "baking_s", "until_s"])
@pytest.mark.parametrize("at_s", [1e18, -1.0])
def test_a_time_of_no_clock_is_damage(tmp_path: Path, key: str, at_s: float) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2]))
    setattr(rollout.progress, key, at_s)
    rollout.save()
    assert f"progress.json: key '{key}'" in Rollout(tmp_path, "rollout-1").progress.why


FINDING = {
    "metric": "p99_ms",
    "standing": "shown",
    "nr_windows": 9,
    "mean": 1.0,
    "lower": 0.5,
    "upper": 1.5,
    "bound": 2,
}


@pytest.mark.parametrize(
    "findings",
    [[[], [], []], [[{**FINDING, "standing": ["shown"]}]], [[{**FINDING, "mean": "x"}]], [[{"metric": "p99_ms"}]]],
    ids=["more than steps", "a list", "a word", "half of one"],
)
def test_findings_of_another_form_are_damage(tmp_path: Path, findings: list[Any]) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2]))
    rollout.progress.findings = [[FINDING]]
    rollout.save()
    assert Rollout(tmp_path, "rollout-1").progress.state is not State.HELD
    rollout.progress.findings = findings
    rollout.save()
    found = Rollout(tmp_path, "rollout-1").progress
    assert (found.state, "progress.json: key 'findings" in found.why) == (State.HELD, True)


def test_the_file_leads_to_no_other_folder_of_results(tmp_path: Path) -> None:
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    file = Rollout.create(results, fake_plan(2, [1, 2])).artifacts.path / "rollout.json"
    content = json.loads(file.read_text())
    content["plan"]["spec"]["results"] = str(elsewhere)
    file.write_text(json.dumps(content))
    KeptFleet(Rollout(results, "rollout-1").plan)
    for words in (["status"], ["report", "html", "rollout-1"]):
        assert CliRunner().invoke(app, [*words, "--results", str(results)]).exception is None
    assert not elsewhere.exists()


def test_one_whose_plan_is_damaged_is_refused_in_a_line(tmp_path: Path) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2]))
    (rollout.artifacts.path / "rollout.json").write_text("{")
    with pytest.raises(StoreError, match=r"rollout.json: .*, so 'rollout-1' cannot be read"):
        Rollout(tmp_path, "rollout-1")


def break_folder(service: Path, how: str) -> None:
    """Have damoos not believe a folder of services."""
    folder = service / "m1"
    if how == "open to a group":
        folder.chmod(0o775)
        return
    folder.rename(service.parent / "moved")
    folder.touch() if how == "a file" else folder.symlink_to(service.parent / "moved")


@pytest.mark.parametrize("how", ["a file", "open to a group", "a link"])
def test_an_undo_goes_on_with_the_others_where_one_machine_s_folder_is_not_believed(tmp_path: Path, how: str) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(3, [1, 3], spec=spec(results=str(tmp_path))))
    rollout.progress = replace(
        rollout.progress, step=1, phase=Phase.BAKE, begun_s=1.0, baking_s=2.0, until_s=3.0, findings=[[], []]
    )
    rollout.save()
    journals = {machine: Journal.of(tmp_path, machine) for machine in ("m0", "m1", "m2")}
    for machine, journal in journals.items():
        journal.want(f"redis-{machine}", {**spec(machine=machine), "name": f"redis-{machine}", "confirmed": True})
    break_folder(tmp_path / "service", how)
    words = ["stop", rollout.name, "--results", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, MachineError)
    assert str(done.exception).startswith(f"rollout-1 may still be in force on 1 of its machines: m1: {tmp_path}")
    assert "the policy is off all machines but m1 (m1: " in done.stderr
    assert done.stdout.startswith("rollout-1: ")
    assert [machine for machine in ("m0", "m2") if journals[machine].wanted()] == []
    folder = tmp_path / "service" / "m1"
    if how == "open to a group":
        folder.chmod(0o755)
    else:
        folder.unlink()
        (tmp_path / "moved").rename(folder)
    assert journals["m1"].wanted()
    assert CliRunner().invoke(app, words).exception is None
    assert journals["m1"].wanted() == {}


def refused(*_: object, **__: object) -> None:
    raise StoreError("results: No space left on device")


@pytest.mark.parametrize("is_driven", [False, True])
@pytest.mark.parametrize("takes_names", [False, True])
def test_an_undo_on_a_full_disk_takes_the_policy_off_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_driven: bool, takes_names: bool
) -> None:
    """A full disk takes a new name of a file that is there, so whoever drives it, now or next, is told."""
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2], spec=spec(results=str(tmp_path))))
    journal = Journal.of(tmp_path, "m0")
    journal.want("redis-m0", {**spec(machine="m0"), "name": "redis-m0", "confirmed": True})
    monkeypatch.setattr(conduct, "HELD_S", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(Artifacts, "_write", refused)
        if not takes_names:
            patched.setattr(Artifacts, "add_name", refused)
        with rollout.driving() if is_driven else contextlib.nullcontext():
            done = CliRunner().invoke(app, ["stop", rollout.name, "--results", str(tmp_path)])
    told = "; the machines of rollout-1 were told all the same to take the policy off; run 'damoos stop"
    if is_driven and takes_names:
        assert isinstance(done.exception, MachineError)
    else:
        assert isinstance(done.exception, StoreError)
        assert str(done.exception).startswith("results: No space left on device" + ("" if is_driven else told))
    assert list(journal.wanted()) == (["redis-m0"] if is_driven else [])
    assert rollout.is_undo_asked_for() == takes_names
    if takes_names:
        assert conduct.run(Rollout(tmp_path, "rollout-1"), print) is State.UNDONE


def test_one_reading_of_its_progress_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that gives EIO once, and the file at the next reading."""
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2], spec=spec(results=str(tmp_path))))
    rollout.progress.state = State.DONE
    rollout.save()
    again, whole, failed = Rollout(tmp_path, "rollout-1"), regular_file.whole, list[Path]()

    def fails_once(path: Path, most_bytes: int) -> bytes:
        if path.name == "progress.json" and not failed:
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return whole(path, most_bytes)

    monkeypatch.setattr(regular_file, "whole", fails_once)
    with pytest.raises(StoreError, match="Input/output error; run 'damoos resume rollout-1' again once"):
        conduct.run(again, print)
    assert Rollout(tmp_path, "rollout-1").progress.state is State.DONE


def test_findings_of_a_step_that_the_plan_does_not_have_are_set_aside(tmp_path: Path) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2], spec=spec(results=str(tmp_path))))
    rollout.progress.step = 7
    rollout.save()
    assert conduct.undo(Rollout(tmp_path, "rollout-1"), print) is State.UNDONE
    assert '"step": 7' in (rollout.artifacts.path / "progress.json.bad").read_text()


def test_one_whose_progress_the_disk_does_not_give_does_not_begin_again(tmp_path: Path) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(2, [1, 2], spec=spec(results=str(tmp_path))))
    rollout.progress.state = State.DONE
    rollout.save()
    file = rollout.artifacts.path / "progress.json"
    file.rename(tmp_path / "good")
    file.symlink_to("/proc/self/mem")  # which gives EIO, as a bad sector does
    for _ in range(2):
        with pytest.raises(StoreError, match="Input/output error; run 'damoos resume rollout-1' again once"):
            conduct.run(Rollout(tmp_path, "rollout-1"), print)
    assert conduct.undo(Rollout(tmp_path, "rollout-1"), print) is State.UNDONE


def test_one_whose_progress_is_damaged_is_held_and_can_be_undone(tmp_path: Path) -> None:
    rollout = Rollout.create(tmp_path, fake_plan(4, [1, 4]))
    fleet = FakeFleet(rollout.plan)
    with rollout.driving():
        driver = Driver(rollout, fleet, lambda line: None, lambda: fleet.now_s)
        while not rollout.machines_with_policy():
            driver.advance()
            fleet.now_s += 60.0
    progress = rollout.artifacts.path / "progress.json"
    progress.write_text(progress.read_text()[:40])
    again = Rollout(tmp_path, "rollout-1")
    assert again.progress.state is State.HELD
    again.ask_for_undo()
    with again.driving():
        driver = Driver(again, fleet, lambda line: None, lambda: fleet.now_s)
        while driver.advance():
            fleet.now_s += 60.0
    assert fleet.remaining() == []
    assert Rollout(tmp_path, "rollout-1").progress.state is State.UNDONE
    assert len((rollout.artifacts.path / "progress.json.bad").read_text()) == 40
    assert json.loads(progress.read_text())["state"] == "undone"
